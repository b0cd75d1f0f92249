"""What an application hands over and is given: objects, raw XML or nothing, as the payloads that travel."""

from __future__ import annotations

from typing import Any

from mercury.wire.envelope import EMPTY, Payload
from mercury.wire.mapping import from_xml, to_xml
from mercury.wire.payload import check_payload


def read_body(payload: Payload, wanted: type[Any], namespace: str | None, name: str | None = None) -> Any:
    """A payload as the type a function asks for.

    :param wanted: a dataclass, or ``bytes`` for the XML as it is.
    :param name: that the element of a dataclass must have; left out, it may have any name.
    :raises PayloadError: it does not fit.
    """
    if wanted is bytes:
        return payload.xml
    return from_xml(payload.xml, wanted, namespace, name=name)


def write_body(value: object, namespace: str, name: str | None = None) -> Payload:
    """What an application hands over, as a payload.

    :param value: a dataclass, XML of one element as bytes or text, or ``None`` for an empty body.
    :param name: of the element, for a dataclass; left out, the name of its class.
    :raises PayloadError: it cannot be written.
    """
    if value is None:
        return EMPTY
    if isinstance(value, bytes | str):
        return check_payload(value)
    return check_payload(to_xml(value, namespace, name))
