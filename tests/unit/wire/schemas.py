"""The published schemas of tests/data/xsd as one validator for any envelope. No schema is fetched."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from lxml import etree

from mercury.statemachine.protocol import AddressingVersion

DATA = Path(__file__).parents[2] / "data"
_XSD = DATA / "xsd"

#: The file for each namespace; WS-RM 1.0 has one per version of WS-Addressing (RM10-SCH-10).
_FILES = {
    "http://www.w3.org/XML/1998/namespace": "xml.xsd",
    "http://schemas.xmlsoap.org/soap/envelope/": "soap11-envelope.xsd",
    "http://www.w3.org/2003/05/soap-envelope": "soap12-envelope.xsd",
    "http://www.w3.org/2005/08/addressing": "wsa-200508.xsd",
    "http://schemas.xmlsoap.org/ws/2004/08/addressing": "wsa-200408.xsd",
    "http://docs.oasis-open.org/ws-rx/wsrm/200702": "wsrm-200702.xsd",
    "http://docs.oasis-open.org/ws-rx/wsmc/200702": "wsmc-200702.xsd",
}
_RM10 = "http://schemas.xmlsoap.org/ws/2005/02/rm"
_RM10_FILES = {
    AddressingVersion.WSA200408: "wsrm-200502.xsd",
    AddressingVersion.WSA10: "wsrm-200502-wsa200508.xsd",
}

#: What the schemas import by an address of the web.
_BY_ADDRESS = {
    "http://www.w3.org/2006/03/addressing/ws-addr.xsd": "wsa-200508.xsd",
    "http://schemas.xmlsoap.org/ws/2004/08/addressing": "wsa-200408.xsd",
    "http://www.w3.org/2001/xml.xsd": "xml.xsd",
    "http://www.w3.org/2001/03/xml.xsd": "xml.xsd",
}


class _FromDisk(etree.Resolver):
    def resolve(self, url: str, _id: str, context: Any) -> Any:  # type: ignore[override]  # the stub is older
        if url in _BY_ADDRESS:
            return self.resolve_filename(str(_XSD / _BY_ADDRESS[url]), context)  # type: ignore[attr-defined]
        assert not url.startswith("http"), f"a schema wants {url} from the network"
        return None


@cache
def _schema(addressing: AddressingVersion) -> etree.XMLSchema:
    imports = "".join(
        f'<xs:import namespace="{namespace}" schemaLocation="{(_XSD / file).as_uri()}"/>'
        for namespace, file in {**_FILES, _RM10: _RM10_FILES[addressing]}.items()
    )
    parser = etree.XMLParser(no_network=True)
    parser.resolvers.add(_FromDisk())
    return etree.XMLSchema(
        etree.fromstring(f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">{imports}</xs:schema>', parser)
    )


def assert_valid(xml: bytes) -> None:
    """Fail with the first error unless ``xml`` is valid by every schema whose namespace it uses."""
    old = b"http://schemas.xmlsoap.org/ws/2004/08/addressing" in xml
    schema = _schema(AddressingVersion.WSA200408 if old else AddressingVersion.WSA10)
    document = etree.fromstring(xml, etree.XMLParser(no_network=True, resolve_entities=False))
    schema.assertValid(document)
