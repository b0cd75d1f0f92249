"""Converts the objects, raw XML or ``None`` of an application to and from payloads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mercury.wire.attachment import Attachment
from mercury.wire.envelope import EMPTY, Payload
from mercury.wire.mapping import from_xml, to_xml
from mercury.wire.payload import check_payload


def read_body(payload: Payload, wanted: type[Any], namespace: str | None, name: str | None = None) -> Any:
    """Convert a payload to the type of a function's parameter.

    :param wanted: a dataclass, or ``bytes`` for the XML as it is.
    :param name: the name that the element of a dataclass must have; ``None`` = any name.
    :raises PayloadError: the payload does not fit the type.
    """
    if wanted is bytes:
        return payload.xml
    return from_xml(payload.xml, wanted, namespace, name=name, attachments=payload.attachments)


def write_body(value: object, namespace: str, name: str | None = None, *, attached: bool = False) -> Payload:
    """Convert a value of the application to a payload.

    :param value: a dataclass, XML of one element as bytes or text, or ``None`` for an empty body.
    :param name: the name of the element of a dataclass; ``None`` = the name of its class.
    :param attached: the content of an `Attachment` stays outside; otherwise it is written as text.
    :raises PayloadError: the value cannot be written.
    """
    if value is None:
        return EMPTY
    if isinstance(value, bytes | str):
        return check_payload(value)
    attachments: list[tuple[str, Attachment]] = []
    payload = check_payload(to_xml(value, namespace, name, attachments if attached else None))
    return replace(payload, attachments=tuple(attachments)) if attachments else payload
