"""Reads small elements that are exactly as `to_xml` writes them, without a parser.

Most bodies that a service or a callback of Mercury gets were written by `to_xml` for the same class, and have no
attributes, lists, references or comments. They are matched as a whole: a text that matches is well-formed XML that a
parser would read as the same values. Everything else is left to the parser, also what it would refuse.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from mercury.errors import ConfigurationError, PayloadError, text_of
from mercury.wire.mapping_parse import cut, parse
from mercury.wire.mapping_plan import Member, Plan, check_name, has_single_values, plan_of
from mercury.wire.mapping_types import Misfit, Scalar, escape_attribute

#: The most bytes that are matched: expat is as fast with more, and copies less of it.
MOST_BYTES = 16 * 1024
#: A text without references and markup that a parser returns as it is: it would change a carriage return, and refuse
#: the other characters, and ``]]>``.
_PLAIN = "[^&<>\r\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]*+"


#: The names and namespaces of roots that are matched where any may come: a parser refuses none of them.
_ROOT = "[A-Za-z_][A-Za-z0-9_.-]*+"
_SCOPE = r"(?!http://www\.w3\.org/)[A-Za-z0-9:/?#@!$()*+,;=.~%_-]++"


@lru_cache(maxsize=1024)
def envelope(name: str, namespace: str) -> tuple[str, str, str]:
    """The start of the root's tag, its end tag, and the namespace as it stands in an attribute.

    :raises ConfigurationError: the namespace or the name cannot stand in XML.
    """
    check_name(name, "the name of the element")
    try:
        scope = escape_attribute(namespace)
        start = f'<{name} xmlns="{scope}"' if scope else f"<{name}"
        parse(f"{start}/>".encode())
    except (Misfit, PayloadError) as error:
        raise ConfigurationError(f"the namespace {namespace!r} cannot stand in XML: {error}") from error
    return start, f"</{name}>", scope


def made(plan: Plan, values: dict[str, Any]) -> Any:
    """The object of a class with these values of its fields.

    :raises Misfit: the class refuses the values.
    """
    try:
        if plan.keywords:
            values = {plan.keywords.get(name, name): value for name, value in values.items()}
        return plan.cls(**values)
    except (ValueError, TypeError) as error:
        raise Misfit(f"{plan.cls.__name__} refuses the values: {cut(' '.join(text_of(error).split()))}") from error


def written_values(xml: bytes, cls: type[Any], namespace: str, name: str) -> dict[str, Any] | None:
    """The values of the fields in an element as `to_xml` writes it.

    :param name: the name that the element must have.
    :returns: ``None`` = a parser has to read the element, or to say why it cannot be read.
    """
    if len(xml) > MOST_BYTES:
        return None
    form = _form_of(cls, name, namespace)
    return None if form is None else form.values(xml)


def written_anywhere(xml: bytes, cls: type[Any]) -> tuple[str, dict[str, Any]] | None:
    """The name of an element as `to_xml` writes it, whatever its name and namespace, and the values of the fields.

    :returns: as `written_values`.
    """
    if len(xml) > MOST_BYTES:
        return None
    form = _form_anywhere(cls)
    values = None if form is None else form.values(xml)
    return None if values is None else (values.pop(""), values)


@dataclass(frozen=True, slots=True)
class _Form:
    """The form of all elements of a class that have no attributes."""

    pattern: re.Pattern[str]
    #: For each text of the pattern, the name of the field, and how its value is read.
    readers: tuple[tuple[str, Callable[[str], object]], ...]

    def values(self, xml: bytes) -> dict[str, Any] | None:
        try:
            found = self.pattern.fullmatch(xml.decode())
            if found is None:
                return None
            # An element that is absent may be: its value is None.
            texts = found.groups()
            return {
                name: None if text is None else read(text)
                for (name, read), text in zip(self.readers, texts, strict=True)
            }
        except (Misfit, ValueError, OverflowError):
            return None


def _form(cls: type[Any], name: str, namespace: str) -> _Form | None:
    """The form of a class; ``None`` = its elements have to be parsed."""
    plan = plan_of(cls)
    if plan.attributes or not has_single_values(cls):
        return None
    try:
        start, end, _ = envelope(name, namespace)
    except ConfigurationError:
        return None
    elements = "".join(map(_element, plan.elements))
    return _Form(re.compile(f"{re.escape(start)}>{elements}{re.escape(end)}"), _readers(plan))


def _anywhere(cls: type[Any]) -> _Form | None:
    """As `_form`, for a root of any name in any namespace. The name comes first, as the value of no field."""
    plan = plan_of(cls)
    if plan.attributes or not has_single_values(cls):
        return None
    pattern = f'<({_ROOT})(?: xmlns="{_SCOPE}")?>{"".join(map(_element, plan.elements))}</\\1>'
    return _Form(re.compile(pattern), (("", str), *_readers(plan)))


def _readers(plan: Plan) -> tuple[tuple[str, Callable[[str], object]], ...]:
    return tuple((member.name, cast(Scalar, member.kind).read) for member in plan.elements)


def _element(member: Member) -> str:
    """The pattern of an element with its text. An element that may be nil has to be there: absent, it is its
    default."""
    written = f"<{re.escape(member.xml)}>({_PLAIN})</{re.escape(member.xml)}>"
    return f"(?:{written})?" if member.optional and not member.nil else written


# Not as a decorator: the type checker takes a class for not hashable.
_form_of = cast(Callable[[type[Any], str, str], _Form | None], lru_cache(maxsize=1024)(_form))
_form_anywhere = cast(Callable[[type[Any]], _Form | None], lru_cache(maxsize=1024)(_anywhere))
