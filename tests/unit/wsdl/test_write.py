"""The names in the WSDL of a service of typed functions."""

from __future__ import annotations

from dataclasses import dataclass

from lxml import etree

from mercury.statemachine.policy import DestinationPolicy
from mercury.statemachine.retransmission import Backoff
from mercury.wsdl.write import OperationDescription, describe

WSDL = "{http://schemas.xmlsoap.org/wsdl/}"


@dataclass
class GetStatus:
    id: int


@dataclass
class Status:
    id: int


@dataclass
class GetStatusResponse:
    id: int


ASKED = OperationDescription(
    name="get_status",
    element="GetStatus",
    request=GetStatus,
    action="urn:n/GetStatus",
    response_action="urn:n/GetStatusResponse",
    response_element="Status",
    response=Status,
)
TOLD = OperationDescription(
    name="status_told", element="GetStatusResponse", request=GetStatusResponse, action="urn:n/GetStatusResponse"
)


def written(*operations: OperationDescription) -> etree._Element:
    return describe("desk", "urn:n", operations, DestinationPolicy(), Backoff())


def messages(root: etree._Element) -> dict[str, str]:
    """The element of each message. No two have one name."""
    found = [(each.get("name", ""), each[0].get("element", "")) for each in root.iter(f"{WSDL}message")]
    assert len(dict(found)) == len(found)
    return dict(found)


def directions(root: etree._Element) -> list[tuple[str, str, str, str | None]]:
    """Of the port type: operation, input or output, its message, its name."""
    (port_type,) = root.iterchildren(f"{WSDL}portType")
    return [
        (each.get("name", ""), etree.QName(part).localname, part.get("message", ""), part.get("name"))
        for each in port_type
        for part in each
    ]


def test_response_and_a_request_of_one_name_are_two_messages_of_two_names() -> None:
    for operations in ((ASKED, TOLD), (TOLD, ASKED)):
        root = written(*operations)
        assert messages(root) == {
            "GetStatus": "tns:GetStatus",
            "GetStatusResponse": "tns:GetStatusResponse",
            "GetStatusResponse2": "tns:Status",
        }
        # WSDL 1.1 section 2.4.5: without a name, input and output are named after the operation, and have to differ.
        assert sorted(directions(root)) == [
            ("GetStatus", "input", "tns:GetStatus", None),
            ("GetStatus", "output", "tns:GetStatusResponse2", "GetStatusResponse2"),
            ("GetStatusResponse", "input", "tns:GetStatusResponse", None),
        ]
        outputs = [each.get("name") for each in root.iter(f"{WSDL}output")]
        assert outputs == ["GetStatusResponse2"] * 3, "each binding names what it binds"


def test_without_such_a_response_nothing_has_another_name() -> None:
    root = written(ASKED)
    assert messages(root) == {"GetStatus": "tns:GetStatus", "GetStatusResponse": "tns:Status"}
    assert [name for *_, name in directions(root)] == [None, None]
    assert [each.get("name") for each in root.iter(f"{WSDL}output")] == [None, None, None]
