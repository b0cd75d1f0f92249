"""WSDL 1.1, XML Schema and WS-Policy: what a service publishes, and what a peer's document asks for.

Order of the modules: `names`, `document` (bytes to a tree, bounded), `alternatives` and
`policy` (what a peer asks for), `schema` and `write` (what a service of typed functions publishes), `schema_files`,
`contract` and `zeep_types` (a WSDL that a service is made from).
They import only to the left, and of Mercury only `mercury.wire` and what that may import.
"""
