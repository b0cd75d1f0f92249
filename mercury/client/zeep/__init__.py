"""The transports that make a zeep client reliable; for users who start from a WSDL.

zeep reads the WSDL and its types, writes and reads envelopes, and posts through its transport. The transport here takes
the body and the header blocks out of zeep's envelope, lets a `Sender` store them, and returns the response to zeep as
an envelope. Order of the modules: `wsdl` (which operations a WSDL has), `envelopes`, `parsed_future`,
`calls` (what both transports do), `transport` (the two classes; only it imports zeep).
"""
