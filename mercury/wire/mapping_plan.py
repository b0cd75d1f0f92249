"""Computes the plan of a dataclass's XML from its annotations, once for each class.

A plan is a pure function of its class: the members in the order of the fields, each with its XML name, the form of
its values and the meaning of its absence. A class that cannot be mapped raises `ConfigurationError`, so a service with
such a type does not start.
"""

from __future__ import annotations

import enum
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass
from functools import lru_cache
from typing import Any, cast

from mercury.errors import ConfigurationError
from mercury.wire.attachment import Attachment, from_base64, to_base64
from mercury.wire.mapping_fields import Field, fields_of, is_mapped
from mercury.wire.mapping_types import SCALARS, Scalar, enumeration, literal

SUPPORTED = (
    "supported are str, int, float, bool, Decimal, bytes, date, datetime, time, timedelta, UUID, Enum with str or int "
    "values, Literal of strings, Xml, Attachment, dataclasses, pydantic models, list[T] and tuple[T, ...] of these, "
    "and T | None"
)


@dataclass(frozen=True, slots=True)
class Attribute:
    """Marks a field that is an attribute of the element: ``number: Annotated[int, Attribute()]``."""


class Xml(bytes):
    """The content of an element as raw XML, in UTF-8: ``xs:any`` of a schema.

    It has any number of elements, with text, comments and processing instructions between them. Each element has all
    namespace declarations that it uses: the declarations of the payload around it do not apply. So an element without
    a prefix and without ``xmlns`` is in no namespace. The XML that is read means the same as the XML that was written,
    but its bytes may differ, for example by more namespace declarations.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Xml({bytes(self)!r})"


@dataclass(frozen=True, slots=True)
class Nested:
    """An element with the members of another dataclass. Its plan is computed at first use: types may be recursive."""

    cls: type[Any]


@dataclass(frozen=True, slots=True)
class Fragment:
    """An element whose content is an `Xml`."""


#: An element whose content may be a part of an MTOM message.
ATTACHMENT = Scalar("xs:base64Binary", to_base64, from_base64)

#: The form of a member's values.
Kind = Scalar | Nested | Fragment


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One field of a dataclass, with its form in XML."""

    #: The field's name in Python.
    name: str
    #: The local name of its element or attribute.
    xml: str
    kind: Kind
    #: ``list`` or ``tuple`` if the element is repeated; absence then means an empty one. ``None`` = a single element.
    many: type[list[Any] | tuple[Any, ...]] | None
    #: The value, or the item of a list, may be ``None``.
    optional: bool
    #: ``None`` is written as ``xsi:nil``, because absence of the element means the default.
    nil: bool
    #: The element or attribute must be there.
    required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The form of one dataclass in XML."""

    cls: type[Any]
    attributes: tuple[Member, ...]
    #: The fields that are elements, in their order, those of base classes first.
    elements: tuple[Member, ...]
    #: The keywords of the constructor by the names of the fields, for those where they differ.
    keywords: Mapping[str, str]


def _plan_of(cls: type[Any]) -> Plan:
    """Compute the plan of a dataclass. Of the classes that it refers to, this checks only that they are mapped classes.

    :raises ConfigurationError: ``cls`` is not a dataclass, or one of its fields cannot be mapped.
    """
    check_dataclass(cls)
    hints = _hints(cls)
    fields = fields_of(cls)
    members = [(*_member(cls, field, hints[field.name]), field) for field in fields]
    keywords = {field.name: field.keyword for field in fields if field.keyword != field.name}
    _check_constructor(cls, [field.keyword for field in fields])
    attributes = tuple(member for member, is_attribute, _ in members if is_attribute)
    elements = tuple(member for member, is_attribute, _ in members if not is_attribute)
    for group in (attributes, elements):
        names: dict[str, str] = {}
        for member in group:
            first = names.setdefault(member.xml, member.name)
            if first != member.name:
                raise ConfigurationError(f"{cls.__name__}: {first} and {member.name} have the same XML name")
    return Plan(cls=cls, attributes=attributes, elements=elements, keywords=types.MappingProxyType(keywords))


def _elements_of(cls: type[Any], namespace: str | None) -> Mapping[str, tuple[Member, bool]]:
    """The members of a class by the names that their elements may have, and whether the name is the preferred one.

    With a namespace, the qualified names are preferred, and the unqualified names are accepted. With ``None``, these
    are the local names.
    """
    table: dict[str, tuple[Member, bool]] = {}
    for member in plan_of(cls).elements:
        table[member.xml] = (member, not namespace)
        if namespace:
            table[f"{{{namespace}}}{member.xml}"] = (member, True)
    return types.MappingProxyType(table)


def _kinds(cls: type[Any]) -> Iterator[Kind]:
    """The forms of the elements of the class, and of the classes that it refers to."""
    seen, left = {cls}, [cls]
    while left:
        for member in plan_of(left.pop()).elements:
            yield member.kind
            if isinstance(member.kind, Nested) and member.kind.cls not in seen:
                seen.add(member.kind.cls)
                left.append(member.kind.cls)


def _has_fragments(cls: type[Any]) -> bool:
    """Whether a field of the class, or of a class that it refers to, is `Xml`."""
    return any(isinstance(kind, Fragment) for kind in _kinds(cls))


def _has_attachments(cls: type[Any]) -> bool:
    """Whether a field of the class, or of a class that it refers to, is an `Attachment`."""
    return any(kind is ATTACHMENT for kind in _kinds(cls))


def _has_single_values(cls: type[Any]) -> bool:
    """Whether all elements of the class are single values, which are written as text."""
    return all(
        isinstance(member.kind, Scalar) and member.kind is not ATTACHMENT and member.many is None
        for member in plan_of(cls).elements
    )


_PlanOf = Callable[[type[Any]], Plan]
_ElementsOf = Callable[[type[Any], str | None], Mapping[str, tuple[Member, bool]]]

# `lru_cache` is not used as a decorator, because the type checker takes a class for not hashable.
plan_of = cast(_PlanOf, lru_cache(maxsize=4096)(_plan_of))
elements_of = cast(_ElementsOf, lru_cache(maxsize=4096)(_elements_of))
has_fragments = cast(Callable[[type[Any]], bool], lru_cache(maxsize=4096)(_has_fragments))
has_single_values = cast(Callable[[type[Any]], bool], lru_cache(maxsize=4096)(_has_single_values))
has_attachments = cast(Callable[[type[Any]], bool], lru_cache(maxsize=4096)(_has_attachments))


def check_plans(cls: type[Any]) -> None:
    """Compute the plans of ``cls`` and of all classes that it refers to.

    :raises ConfigurationError: ``cls`` is not a dataclass, or one of them has a field that cannot be mapped.
    """
    check_dataclass(cls)
    waiting, seen = [cls], {cls}
    while waiting:
        plan = plan_of(waiting.pop())
        for member in plan.elements:
            if isinstance(member.kind, Nested) and member.kind.cls not in seen:
                seen.add(member.kind.cls)
                waiting.append(member.kind.cls)


def check_name(name: object, where: str) -> str:
    """Check the name of an element or attribute.

    :raises ConfigurationError: ``name`` is not a string, or not a name in XML, or has a prefix.
    """
    if isinstance(name, str) and _NAME.fullmatch(name) is not None:
        return name
    raise ConfigurationError(f"{where}: {name!r} is not a name in XML")


def check_dataclass(cls: object) -> None:
    """Check that a class can be mapped.

    :raises ConfigurationError: ``cls`` is neither a dataclass nor a pydantic model.
    """
    if not is_mapped(cls):
        raise ConfigurationError(
            f"{describe(cls)} is not a dataclass nor a pydantic model; only dataclasses and models are mapped to XML"
        )


def describe(hint: object) -> str:
    """A type as it is written in an annotation, for the text of an error."""
    if isinstance(hint, type):
        return hint.__name__
    return str(hint).replace("typing.", "")


_FIRST = (
    "A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_NAME = re.compile(f"[{_FIRST}][-.0-9\u00b7\u0300-\u036f\u203f-\u2040{_FIRST}]*")


def _hints(cls: type[Any]) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        raise ConfigurationError(
            f"{cls.__name__}: its annotations cannot be resolved: {error}; the types of a mapped class must be "
            "imported or defined at the top level of its module, and not only for type checking"
        ) from error


@dataclass(slots=True)
class _Unwrapped:
    """The type inside ``Annotated``, ``NewType``, aliases and ``| None``."""

    hint: Any
    optional: bool = False
    attribute: bool = False


def _unwrap(hint: Any, where: str) -> _Unwrapped:
    """Unwrap ``Annotated``, ``NewType``, aliases and ``| None``, in any order."""
    unwrapped = _Unwrapped(hint)
    while True:
        hint = unwrapped.hint
        origin = typing.get_origin(hint)
        if origin is typing.Annotated:
            unwrapped.attribute |= any(mark is Attribute or isinstance(mark, Attribute) for mark in hint.__metadata__)
            unwrapped.hint = hint.__origin__
        elif isinstance(hint, typing.NewType):
            unwrapped.hint = hint.__supertype__
        elif type(hint).__name__ == "TypeAliasType":
            unwrapped.hint = hint.__value__
        elif origin is typing.Union or origin is types.UnionType:
            rest = [argument for argument in typing.get_args(hint) if argument is not types.NoneType]
            if len(rest) != 1:
                raise _unsupported(hint, where)
            unwrapped.hint, unwrapped.optional = rest[0], True
        else:
            return unwrapped


def _member(cls: type[Any], field: Field, hint: Any) -> tuple[Member, bool]:
    """The member of a field, and whether it is an attribute."""
    where = f"{cls.__name__}.{field.name}"
    outer = item = _unwrap(hint, where)
    many = _container(outer.hint, where)
    if many is not None:
        if outer.optional:
            raise ConfigurationError(
                f"{where}: {describe(hint)} cannot be mapped to XML: no list and an empty list look the same there; "
                "leave out the None, and give it default_factory=list or the default ()"
            )
        item = _unwrap(typing.get_args(outer.hint)[0], where)
    kind = _kind(item.hint, where)
    default = field.default
    # Absence means None, unless the field has another default.
    absent_is_none = default is None or default is MISSING
    is_attribute = outer.attribute or item.attribute
    member = Member(
        name=field.name,
        xml=check_name(field.xml, where),
        kind=kind,
        many=many,
        optional=item.optional,
        nil=item.optional and not absent_is_none,
        required=many is None and not item.optional and default is MISSING,
    )
    if is_attribute:
        _check_attribute(member, where)
    return member, is_attribute


def _check_attribute(member: Member, where: str) -> None:
    if member.many is not None or not isinstance(member.kind, Scalar):
        raise ConfigurationError(f"{where}: an attribute has a single value of a simple type; use an element")
    if member.kind is ATTACHMENT:
        raise ConfigurationError(f"{where}: an Attachment is the content of an element, not of an attribute")
    if member.nil:
        raise ConfigurationError(f"{where}: an attribute that may be None cannot have another default than None")
    if member.xml == "xmlns":
        raise ConfigurationError(f"{where}: xmlns declares a namespace and cannot be the name of an attribute")


def _container(hint: Any, where: str) -> type[list[Any] | tuple[Any, ...]] | None:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is list:
        return list
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple
        raise _unsupported(hint, where)
    return None


def _kind(hint: Any, where: str) -> Kind:
    if typing.get_origin(hint) is typing.Literal:
        return literal(typing.get_args(hint), where)
    if is_mapped(typing.get_origin(hint)):
        raise ConfigurationError(
            f"{where}: {describe(hint)} is a generic class with arguments and cannot be mapped to XML; "
            "define a dataclass of its own for it"
        )
    if isinstance(hint, typing.TypeVar):
        raise ConfigurationError(
            f"{where}: the type variable {hint.__name__} cannot be mapped to XML; "
            "a generic class has no XML of its own, only a dataclass with fixed types"
        )
    if not isinstance(hint, type):
        raise _unsupported(hint, where)
    if hint is Xml:
        return Fragment()
    if hint is Attachment:
        return ATTACHMENT
    if issubclass(hint, enum.Enum):
        return enumeration(hint, where)
    if is_mapped(hint):
        return Nested(hint)
    if hint in SCALARS:
        return SCALARS[hint]
    raise _unsupported(hint, where)


def _check_constructor(cls: type[Any], names: Iterable[str]) -> None:
    """Check that the constructor can be called with the mapped fields as its only arguments."""
    if inspect.isabstract(cls):
        raise ConfigurationError(f"{cls.__name__} is abstract; only classes that have objects are mapped to XML")
    try:
        inspect.signature(cls).bind(**dict.fromkeys(names))
    except TypeError as error:
        raise ConfigurationError(
            f"{cls.__name__} cannot be made from its fields alone: {error}; give an InitVar a default, or leave the "
            "constructor to the dataclass"
        ) from error


def _unsupported(hint: Any, where: str) -> ConfigurationError:
    return ConfigurationError(f"{where}: {describe(hint)} cannot be mapped to XML; {SUPPORTED}")
