"""The published documents of a service that is made from a WSDL."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree

from mercury.errors import ConfigurationError
from mercury.service.wsdl_first import WsdlFirstDocuments
from mercury.statemachine.policy import DestinationPolicy
from mercury.statemachine.retransmission import Backoff
from mercury.wsdl.contract import WsdlContract

ORDERS = Path(__file__).resolve().parents[2] / "data/wsdl/orders.wsdl"


def test_documents_are_written_once_and_have_the_address_of_each_request() -> None:
    contract = WsdlContract(ORDERS)
    documents = WsdlFirstDocuments(contract, DestinationPolicy(), Backoff())
    contract.root.clear()
    contract.schemas.documents.clear()
    for address in ("http://one/", 'http://two/?a=1&b="2"'):
        root = etree.fromstring(documents.wsdl(address))
        assert set(root.xpath("//@location")) == {address}
        schema = documents.schema(1, address)
        assert schema is not None
        assert etree.fromstring(schema).get("targetNamespace") == "urn:mercury:orders"
    assert documents.schema(2, "http://one/") is None
    with pytest.raises(ConfigurationError, match="cannot stand in XML"):
        documents.wsdl("http://one/\x01")
