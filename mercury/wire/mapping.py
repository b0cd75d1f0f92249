"""Maps dataclasses to XML and back, for the parameters and results of a service's functions.

The class defines the XML; no schema is written by hand::

    @dataclass
    class PlaceOrder:
        id: int
        customer: str
        lines: list[Line]
        note: str | None = None

    <PlaceOrder xmlns="urn:example:orders"><id>17</id><customer>ACME</customer><lines><sku>A1</sku></lines></PlaceOrder>

**Writing** is exact. The elements come in the order of the fields, all in one namespace; attributes, marked with
`Attribute`, have none. A list repeats its element, and ``None`` is left out. A value that would not be read back equal
is refused. ``field(metadata={"name": "orderID"})`` gives a field another name. Fields with ``init=False`` are not
written.

**Reading** ignores the order of elements, prefixes, comments, and elements and attributes that the class does not have.
It refuses a missing or repeated element, and a value that does not have its type; the error has the element's path.

If an element is absent, a field with a default gets its default, ``T | None`` without a default is ``None``, and a list
is empty even if the field has a default. For any other field, absence is an error. If the field has another default
than ``None``, ``None`` is written as ``xsi:nil``. So every object that can be written is read back equal, except one
with a NaN, which is not equal to itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, assert_never, cast
from xml.etree.ElementTree import Element

from mercury.errors import PayloadError
from mercury.wire.attachment import XOP, Attachment, content_id
from mercury.wire.mapping_fragments import Fragments, Located
from mercury.wire.mapping_parse import cut, parse, parse_values
from mercury.wire.mapping_plan import (
    ATTACHMENT,
    Attribute,
    Fragment,
    Member,
    Nested,
    Plan,
    Xml,
    check_dataclass,
    check_name,
    check_plans,
    elements_of,
    has_fragments,
    plan_of,
)
from mercury.wire.mapping_types import Misfit, Scalar, escape_attribute, escape_text, mismatch, shown
from mercury.wire.mapping_written import envelope, made, written_anywhere, written_values

__all__ = ["Attribute", "MAX_DEPTH", "Xml", "check_type", "element_name", "from_xml", "to_xml"]

T = TypeVar("T")

#: How deep dataclasses may be nested in each other, in both directions.
MAX_DEPTH = 100


class _Written(list[str]):
    """The XML that is written, in pieces."""

    def __init__(self, start: str, attachments: list[tuple[str, Attachment]] | None) -> None:
        super().__init__([start])
        self.attachments = attachments


@dataclass(frozen=True, slots=True)
class _Read:
    """The document that is read."""

    namespace: str | None
    #: The document as bytes, if a field is `Xml`.
    raw: Fragments | None
    #: By Content-ID.
    attachments: Mapping[str, Attachment]


def to_xml(
    value: object, namespace: str, name: str | None = None, attachments: list[tuple[str, Attachment]] | None = None
) -> bytes:
    """Write an object of a dataclass as one XML element.

    :param value: the object. Its fields must have exactly the types of their annotations, except that a field of type
        ``float`` may hold an ``int``.
    :param namespace: the namespace of the element and all elements in it; "" = none.
    :param name: the name of the element; ``None`` = the name of the class.
    :param attachments: gets each `Attachment` with its Content-ID, and an ``xop:Include`` is written for its content;
        ``None`` = the content is written as text.
    :returns: UTF-8 without an XML declaration.
    :raises PayloadError: a value does not have the type of its field, or XML cannot carry it, or dataclasses are
        nested deeper than `MAX_DEPTH`. The text begins with the path of the field, as in ``PlaceOrder/lines[2]/sku``;
        items are counted from 1.
    :raises ConfigurationError: the class cannot be mapped, or the namespace or the name cannot stand in XML.

    The size is not limited here. `from_xml` refuses a single value above 10 million bytes.
    """
    cls = type(value)
    plan = plan_of(cls)
    start, end, scope = envelope(element_name(cls) if name is None else name, namespace)
    out = _Written(start, attachments)
    try:
        _write_object(value, plan, out, scope, 1)
    except Misfit as misfit:
        misfit.path.append(cls.__name__)
        raise PayloadError(str(misfit)) from misfit
    out.append(end)
    return "".join(out).encode()


def from_xml(
    xml: bytes,
    cls: type[T],
    namespace: str | None = None,
    *,
    name: str | None = None,
    attachments: Iterable[tuple[str, Attachment]] = (),
) -> T:
    """Read an XML element as an object of a dataclass.

    :param xml: one element, in UTF-8 even if its XML declaration names another encoding; a document type is refused.
    :param namespace: the namespace of the elements to read. An element without a namespace is read if the namespace
        has no element of its name. Elements of other namespaces are ignored. ``None`` = elements are read by their
        local names, in any namespace.
    :param name: the local name that the element must have; ``None`` = any name.
    :param attachments: by Content-ID, what an ``xop:Include`` in the content of an `Attachment` may name.
    :raises PayloadError: the XML is not well-formed, the element has another name or does not fit the class, or the
        class refuses its values with a ``ValueError`` or a ``TypeError``. The text begins with the path of the element
        or attribute (``PlaceOrder/lines[2]/@unit``) and has the beginning of the value.
    :raises ConfigurationError: the class cannot be mapped.

    Limits: dataclasses nested `MAX_DEPTH` deep, elements 256 deep, 10 million bytes for a text or an attribute, and as
    many for the namespace declarations that the elements in `Xml` fields repeat. The caller limits the size of ``xml``.
    """
    plan = plan_of(cls)
    if name is not None and namespace is not None:
        values = written_values(xml, cls, namespace, name)
        if values is not None:
            return cast(T, _within(name, lambda: made(plan, values)))
    if name is None and namespace is None:
        written = written_anywhere(xml, cls)
        if written is not None:
            return cast(T, _within(written[0], lambda: made(plan, written[1])))
    raw = Fragments(xml) if has_fragments(cls) else None
    root = parse_values(xml) if raw is None else raw.root
    given = _Read(namespace, raw, dict(attachments))
    if name is not None:
        accepted = [name, f"{{{namespace}}}{name}"] if namespace else [name]
        if (_local(root.tag) if namespace is None else root.tag) not in accepted:
            raise PayloadError(f"the element is {cut(root.tag)}, expected {accepted[-1]}")
    return cast(T, _within(_local(root.tag), lambda: _read_root(root, plan, given)))


def _within(name: str, read: Callable[[], Any]) -> Any:
    """What ``read`` returns for the element of this name.

    :raises PayloadError: the element does not fit.
    """
    try:
        return read()
    except Misfit as misfit:
        misfit.path.append(cut(name))
        raise PayloadError(str(misfit)) from misfit


def _read_root(root: Element, plan: Plan, given: _Read) -> Any:
    if _is_nil(root):
        raise Misfit("nil, but there must be a value")
    return _read_object(root, plan, given, 1)


def element_name(cls: type[Any]) -> str:
    """The name of the element of a class, which is the name of the class.

    :raises ConfigurationError: ``cls`` is not a dataclass, or its name cannot be a name in XML.
    """
    check_dataclass(cls)
    return check_name(cls.__name__, "the name of the class")


def check_type(cls: type[Any]) -> None:
    """Check that a dataclass, and all dataclasses that it refers to, can be mapped. `Service` calls it at registration.

    :raises ConfigurationError: ``cls`` is not a dataclass, or there is a field that cannot be mapped. The text names
        the class, the field and its type, and what can be mapped.
    """
    check_plans(cls)


# Writing. The default namespace is declared once, so that the names of all inner elements need no prefix.

XSI = "http://www.w3.org/2001/XMLSchema-instance"


def _write_object(value: object, plan: Plan, out: _Written, scope: str, depth: int) -> None:
    """Write the rest of a start tag and the content of the element."""
    if depth > MAX_DEPTH:
        raise Misfit(f"nested deeper than {MAX_DEPTH}")
    member: Member | None = None
    number = 0
    try:
        for member in plan.attributes:
            item = getattr(value, member.name)
            if item is not None or not member.optional:
                assert isinstance(member.kind, Scalar)
                out.append(f' {member.xml}="{escape_attribute(_text_of(item, member.kind))}"')
        out.append(">")
        for member in plan.elements:
            item = getattr(value, member.name)
            if member.many is None:
                if item is not None or member.nil or not member.optional:
                    _write_element(item, member, out, scope, depth)
            else:
                if not isinstance(item, member.many):
                    raise mismatch(member.many.__name__, item)
                for number, each in enumerate(item, 1):  # noqa: B007  (for the path below)
                    _write_element(each, member, out, scope, depth)
                number = 0
    except Misfit as misfit:
        if member is not None:
            misfit.path.append(f"{member.name}[{number}]" if number else member.name)
        raise


def _write_element(value: object, member: Member, out: _Written, scope: str, depth: int) -> None:
    kind, xml = member.kind, member.xml
    if value is None and member.optional:
        out.append(f'<{xml} xmlns:xsi="{XSI}" xsi:nil="true"/>')
    elif kind is ATTACHMENT and isinstance(value, Attachment) and out.attachments is not None:
        identifier = f"{len(out.attachments) + 1}@mercury"
        out.attachments.append((identifier, value))
        out.append(f'<{xml}><xop:Include xmlns:xop="{XOP}" href="cid:{identifier}"/></{xml}>')
    elif isinstance(kind, Scalar):
        text = _text_of(value, kind)
        out.append(f"<{xml}>{escape_text(text) if kind.escaped else text}</{xml}>")
    elif isinstance(kind, Nested):
        if type(value) is not kind.cls:
            raise mismatch(f"exactly {kind.cls.__name__}", value)
        out.append(f"<{xml}")
        _write_object(value, plan_of(kind.cls), out, scope, depth + 1)
        out.append(f"</{xml}>")
    elif isinstance(kind, Fragment):
        # The element has a prefix, so that its content has no default namespace.
        out.append(f'<m:{xml} xmlns:m="{scope}" xmlns="">' if scope else f"<{xml}>")
        out.append(_fragment(value))
        out.append(f"</m:{xml}>" if scope else f"</{xml}>")
    else:
        assert_never(kind)


def _text_of(value: object, scalar: Scalar) -> str:
    try:
        return scalar.write(value)
    except (ValueError, OverflowError) as error:
        raise Misfit(f"{shown(value)} cannot be written as {scalar.xsd}: {error}") from error


def _fragment(value: object) -> str:
    if not isinstance(value, Xml):
        raise mismatch("Xml", value)
    try:
        parse(b"<x>%b</x>" % value)
    except PayloadError as error:
        raise Misfit(str(error)) from error
    return value.decode()


# Reading.

_INCLUDE = f"{{{XOP}}}Include"
_NIL = f"{{{XSI}}}nil"


def _local(tag: str) -> str:
    return tag[tag.rfind("}") + 1 :]


def _is_nil(element: Element) -> bool:
    return element.get(_NIL, "").strip() in ("true", "1")


def _read_object(element: Element, plan: Plan, given: _Read, depth: int) -> Any:
    namespace = given.namespace
    if depth > MAX_DEPTH:
        raise Misfit(f"nested deeper than {MAX_DEPTH}")
    values: dict[str, Any] = {}
    for member in plan.attributes:
        text = element.get(member.xml)
        if text is not None:
            values[member.name] = _read_attribute(text, member)
    table = elements_of(plan.cls, namespace)
    second_best: list[tuple[Member, Element]] = []
    for child in element:
        tag = child.tag
        if namespace is None:
            tag = _local(tag)
        found = table.get(tag)
        if found is None:
            continue
        if found[1]:
            _read_member(child, found[0], values, given, depth)
        else:
            second_best.append((found[0], child))
    if second_best:
        for member, child in [each for each in second_best if each[0].name not in values]:
            _read_member(child, member, values, given, depth)
    for member in plan.elements:
        if member.many is tuple:
            values[member.name] = tuple(values.get(member.name, ()))
        elif member.many is not None:
            values.setdefault(member.name, [])
    _complete(values, plan.attributes, "@", lambda _name: "")
    _complete(values, plan.elements, "", partial(_hint_at_similar, element, namespace))
    return made(plan, values)


def _read_attribute(text: str, member: Member) -> Any:
    assert isinstance(member.kind, Scalar)
    try:
        return _value_of(text, member.kind)
    except Misfit as misfit:
        misfit.path.append(f"@{member.xml}")
        raise


def _complete(values: dict[str, Any], members: Iterable[Member], prefix: str, hint: Callable[[str], str]) -> None:
    """Set the absent members that may be ``None``; the constructor sets those with a default.

    :raises Misfit: a required member is absent.
    """
    for member in members:
        if member.name not in values:
            if member.required:
                raise Misfit(f"missing{hint(member.xml)}", f"{prefix}{member.xml}")
            if member.optional and not member.nil:
                values[member.name] = None


def _hint_at_similar(element: Element, namespace: str | None, name: str) -> str:
    """A hint for the error: an element with the same name in another namespace or in another case; "" = none."""
    for child in element:
        if _local(child.tag).casefold() == name.casefold():
            expected = f"{{{namespace}}}{name}" if namespace else name
            return f"; there is {cut(child.tag)}, expected {expected}"
    return ""


def _read_member(
    element: Element,
    member: Member,
    values: dict[str, Any],
    given: _Read,
    depth: int,
) -> None:
    name, number = member.name, 0
    try:
        if member.many is not None:
            items = values.setdefault(name, [])
            number = len(items) + 1
            items.append(_read_element(element, member, given, depth))
        elif name in values:
            raise Misfit("there is more than one")
        else:
            values[name] = _read_element(element, member, given, depth)
    except Misfit as misfit:
        misfit.path.append(f"{member.xml}[{number}]" if number else member.xml)
        raise


def _read_element(element: Element, member: Member, given: _Read, depth: int) -> Any:
    kind = member.kind
    text = element.text
    if (not text or text.isspace()) and _is_nil(element):
        if member.optional:
            return None
        raise Misfit("nil, but there must be a value")
    if isinstance(kind, Scalar):
        if len(element):
            if element[0].tag == _INCLUDE:
                return _attachment(element[0], kind, given)
            raise Misfit(f"there is an element {cut(_local(element[0].tag))} where a value should be")
        return _value_of(text or "", kind)
    if isinstance(kind, Nested):
        return _read_object(element, plan_of(kind.cls), given, depth + 1)
    if isinstance(kind, Fragment):
        assert given.raw is not None  # see `has_fragments`
        assert isinstance(element, Located)
        return Xml(given.raw.content(element))
    assert_never(kind)


def _attachment(include: Element, kind: Scalar, given: _Read) -> Attachment:
    """The attachment that an ``xop:Include`` names."""
    if kind is not ATTACHMENT:
        raise Misfit("its content is a large part of an MTOM message, which only a field of the type Attachment takes")
    href = include.get("href", "").strip()
    try:
        found = given.attachments.get(content_id(href))
    except UnicodeError:
        found = None
    if found is None:
        raise Misfit(f"the message has no part {cut(href)}")
    return found


def _value_of(text: str, scalar: Scalar) -> Any:
    try:
        return scalar.read(text)
    except (ValueError, OverflowError) as error:
        raise Misfit(f"{shown(text)} is not a valid {scalar.xsd}") from error
