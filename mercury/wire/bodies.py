"""Converts the objects, raw XML or ``None`` of an application to and from payloads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

from mercury.wire.attachment import Attachment
from mercury.wire.envelope import EMPTY, Payload
from mercury.wire.mapping import XSI, element_name, from_xml, to_xml
from mercury.wire.mapping_plan import has_single_values, plan_of
from mercury.wire.mapping_types import escape_attribute
from mercury.wire.payload import check_payload
from mercury.wire.scan import DEFAULT_LIMITS, Limits, limits_of_body


def read_body(payload: Payload, wanted: type[Any], namespace: str | None, name: str | None = None) -> Any:
    """Convert a payload to the type of a function's parameter.

    :param wanted: a dataclass, or ``bytes`` for the XML as it is.
    :param name: the name that the element of a dataclass must have; ``None`` = any name.
    :raises PayloadError: the payload does not fit the type.
    """
    if wanted is bytes:
        return payload.xml
    return from_xml(payload.xml, wanted, namespace, name=name, attachments=payload.attachments)


def write_body(
    value: object,
    namespace: str,
    name: str | None = None,
    *,
    attached: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Payload:
    """Convert a value of the application to a payload.

    :param value: a dataclass, XML of one element as bytes or text, or ``None`` for an empty body.
    :param name: the name of the element of a dataclass; ``None`` = the name of its class.
    :param attached: the content of an `Attachment` stays outside; otherwise it is written as text.
    :param limits: those of the messages that this side receives: its peers are taken to have the same. The value must
        be within `limits_of_body`.
    :raises PayloadError: the value cannot be written, or exceeds a limit.
    """
    if value is None:
        return EMPTY
    limits = limits_of_body(limits)
    if isinstance(value, bytes | str):
        return check_payload(value, limits=limits)
    attachments: list[tuple[str, Attachment]] = []
    xml = to_xml(value, namespace, name, attachments if attached else None)
    cls = type(value)
    if has_single_values(cls) and len(xml) <= limits.max_bytes:
        form = _checked_form(cls, element_name(cls) if name is None else name, namespace, limits)
        return Payload(xml, form.name, form.is_fault)
    payload = check_payload(xml, limits=limits)
    return replace(payload, attachments=tuple(attachments)) if attachments else payload


def _form(cls: type[Any], name: str, namespace: str, limits: Limits) -> Payload:
    """Check what the XML of all objects of a class has in common, once: names and their number.

    The class has single values only. An object has at most the attributes and elements that are checked, and its texts
    are escaped, so that apart from these only its size has to be checked.
    """
    plan = plan_of(cls)
    attributes = "".join(f' {member.xml}=""' for member in plan.attributes)
    nil = f'xmlns:xsi="{XSI}" xsi:nil="true"'
    elements = "".join(f"<{member.xml} {nil}/>" for member in plan.elements)
    scope = f' xmlns="{escape_attribute(namespace)}"' if namespace else ""
    return check_payload(f"<{name}{scope}{attributes}>{elements}</{name}>", limits=limits)


# Not as a decorator: the type checker takes a class for not hashable.
_checked_form = cast(Callable[[type[Any], str, str, Limits], Payload], lru_cache(maxsize=1024)(_form))
