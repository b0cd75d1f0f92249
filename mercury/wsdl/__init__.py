"""WSDL 1.1, XML Schema and WS-Policy: reads the requirements of a peer's WSDL, and writes the WSDL of a service.

Order of the modules: `names`, `document` (parses a document within limits), `alternatives` and `policy` (the
requirements of a peer), `schema` and `write` (the WSDL of a service of typed functions), `schema_files`, `contract` and
`zeep_types` (a WSDL that a service is made from). A module imports only modules that stand before it in this list,
`mercury.wire`, and modules that `mercury.wire` may import.
"""
