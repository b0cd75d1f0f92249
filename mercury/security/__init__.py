"""WS-Security 1.1 of SOAP messages: tokens, signatures and encryption, on the bytes of a message.

`Party` applies the settings of one endpoint or service (`MessageSecurity`): it writes the Security header of a message
that is sent, and checks that of a message that is received. Nothing here uses a store, a socket or a clock; the time is
an argument. X.509 needs the extra ``security`` (signxml, cryptography), whose modules `party` imports when a setting
needs them.
"""
