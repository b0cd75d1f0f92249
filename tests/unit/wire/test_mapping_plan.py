"""The classes that can be mapped, and the errors for those that cannot."""

from __future__ import annotations

import abc
import enum
from collections.abc import Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from datetime import date
from typing import Annotated, Any, ClassVar, Generic, Literal, NewType, Optional, TypeVar, Union

import pytest

from mercury.errors import ConfigurationError
from mercury.wire.mapping import Attribute, Xml, check_type, from_xml, to_xml
from mercury.wire.mapping_plan import SUPPORTED, plan_of

T = TypeVar("T")

Sku = NewType("Sku", str)
SpecialSku = NewType("SpecialSku", Sku)


class Flags(enum.Flag):
    A = 1
    B = 2


class Mixed(enum.Enum):
    A = 1
    B = "b"


class Truths(enum.Enum):
    YES = True


class Empty(enum.Enum):
    pass


@dataclass
class Page(Generic[T]):
    items: list[T]


@dataclass
class Abstract(abc.ABC):
    name: str

    @abc.abstractmethod
    def area(self) -> float: ...


@dataclass
class Leaf:
    number: complex


@dataclass
class Branch:
    leaf: Leaf


@dataclass
class Root:
    branches: list[Branch]


@dataclass
class Chicken:
    egg: Egg | None = None


@dataclass
class Egg:
    chicken: list[Chicken] = field(default_factory=list)


@dataclass
class Base:
    first: int
    second: int = 2


@dataclass(kw_only=True)
class Derived(Base):
    constant: ClassVar[complex] = 1j
    third: int
    second: int = 3


@dataclass
class Wrapped:
    _: KW_ONLY
    a: SpecialSku
    b: Annotated[Optional[Sku], "any mark"] = None  # noqa: UP045
    c: Union[None, Annotated[int, Attribute()]] = None  # noqa: UP007, RUF036
    d: Annotated[int, Attribute] = 0
    f: Annotated[Annotated[int, "inner"] | None, Attribute()] = None
    e: list[Annotated[SpecialSku, "item"]] = field(default_factory=list)


@dataclass
class Unresolved:
    field: DoesNotExist  # type: ignore[name-defined]  # noqa: F821


@dataclass
class WithInitVar:
    a: int
    b: InitVar[int]


@dataclass
class WithOptionalInitVar:
    a: int
    b: InitVar[int] = 5


@dataclass(init=False)
class OwnConstructor:
    a: int

    def __init__(self, other: int) -> None:
        self.a = other


def one(hint: object, **options: Any) -> type:
    """A dataclass with one field of a type."""
    return dataclass(type("Case", (), {"__annotations__": {"value": hint}, "__module__": __name__, **options}))


def refusal(cls: type) -> str:
    with pytest.raises(ConfigurationError) as caught:
        check_type(cls)
    return str(caught.value)


UNSUPPORTED = [
    (complex, "complex"),
    (dict[str, int], "dict[str, int]"),
    (dict, "dict"),
    (set[int], "set[int]"),
    (list, "list"),
    (tuple, "tuple"),
    (tuple[int, str], "tuple[int, str]"),
    (tuple[int], "tuple[int]"),
    (list[list[int]], "list[int]"),
    (list[complex], "complex"),
    (Sequence[int], "collections.abc.Sequence[int]"),
    (int | str, "int | str"),
    (int | str | None, "int | str | None"),
    (None, "NoneType"),
    (object, "object"),
    (Any, "Any"),
    (bytearray, "bytearray"),
    (type("Special", (str,), {}), "Special"),
]


@pytest.mark.parametrize(("hint", "named"), UNSUPPORTED)
def test_a_type_that_is_not_supported_is_named_with_its_field_and_what_is(hint: object, named: str) -> None:
    assert refusal(one(hint)) == f"Case.value: {named} cannot be mapped to XML; {SUPPORTED}"


OTHERWISE_WRONG = [
    (list[int] | None, "no list and an empty list look the same"),
    (tuple[int, ...] | None, "no list and an empty list look the same"),
    (T, "the type variable T cannot be mapped"),
    (Page[int], "Page[int] is a generic class with arguments"),
    (Flags, "Flags is a Flag"),
    (Mixed, "the values of Mixed must be all str or all int"),
    (Truths, "the values of Truths must be all str or all int"),
    (Empty, "the values of Empty must be all str or all int, and at least one"),
    (Literal[1, 2], "a Literal may have only strings, not 1"),
    (Literal["a", None], "a Literal may have only strings, not None"),
    (Annotated[list[int], Attribute()], "an attribute has a single value of a simple type"),
    (list[Annotated[int, Attribute()]], "an attribute has a single value of a simple type"),
    (Annotated[Base, Attribute()], "an attribute has a single value of a simple type"),
    (Annotated[Xml, Attribute()], "an attribute has a single value of a simple type"),
]


@pytest.mark.parametrize(("hint", "reason"), OTHERWISE_WRONG)
def test_a_type_that_cannot_be_mapped_is_an_error_with_the_reason(hint: object, reason: str) -> None:
    text = refusal(one(hint))
    assert text.startswith("Case.value: ")
    assert reason in text


def test_a_type_deep_inside_is_found_when_the_outermost_is_checked() -> None:
    assert refusal(Root).startswith("Leaf.number: complex cannot be mapped")
    assert plan_of(Root).cls is Root


def test_a_generic_class_is_distinguished_from_its_arguments() -> None:
    assert "Page.items: the type variable T cannot be mapped to XML" in refusal(Page)


def test_an_annotation_that_cannot_be_resolved_says_what_to_do() -> None:
    text = refusal(Unresolved)
    assert text.startswith("Unresolved: its annotations cannot be resolved: name 'DoesNotExist' is not defined")
    assert "at the top level of its module" in text


def test_only_dataclasses_are_mapped() -> None:
    assert refusal(int).startswith("int is not a dataclass nor a pydantic model; only dataclasses and models")
    assert "is not a dataclass" in refusal(Base(1))  # type: ignore[arg-type]
    assert "is not a dataclass" in refusal(list[Base])
    assert refusal(Abstract) == "Abstract is abstract; only classes that have objects are mapped to XML"


def test_a_class_that_cannot_be_made_from_its_fields_is_refused() -> None:
    assert "missing a required argument: 'b'" in refusal(WithInitVar)
    assert refusal(OwnConstructor).startswith("OwnConstructor cannot be made from its fields alone: ")
    check_type(WithOptionalInitVar)
    assert from_xml(to_xml(WithOptionalInitVar(1), ""), WithOptionalInitVar) == WithOptionalInitVar(1)


@pytest.mark.parametrize("name", ["", "a b", "p:a", 7, None, "1"])
def test_a_field_needs_a_name_that_is_one_in_xml(name: object) -> None:
    text = refusal(one(int, value=field(metadata={"name": name})))
    assert text == f"Case.value: {name!r} is not a name in XML"


def test_two_fields_may_not_share_a_name_but_an_element_and_an_attribute_may() -> None:
    @dataclass
    class Twice:
        a: int
        b: int = field(metadata={"name": "a"})

    @dataclass
    class Both:
        a: int
        b: Annotated[int, Attribute()] = field(metadata={"name": "a"})

    assert refusal(Twice) == "Twice: a and b have the same XML name"
    assert from_xml(to_xml(Both(1, 2), ""), Both) == Both(1, 2)


def test_attributes_have_limits_of_their_own() -> None:
    hint = Annotated[int | None, Attribute()]
    assert "cannot have another default than None" in refusal(one(hint, value=5))
    assert "cannot have another default than None" in refusal(one(hint, value=field(default_factory=int)))
    check_type(one(hint, value=None))
    check_type(one(hint))
    assert "xmlns declares a namespace" in refusal(
        one(Annotated[str, Attribute()], value=field(metadata={"name": "xmlns"}))
    )


def test_classes_may_refer_to_each_other_and_to_themselves() -> None:
    check_type(Chicken)
    value = Chicken(Egg([Chicken(), Chicken(Egg())]))
    assert from_xml(to_xml(value, "urn:x"), Chicken, "urn:x") == value


def test_fields_of_base_classes_come_first() -> None:
    xml = to_xml(Derived(1, third=3), "")
    assert xml == b"<Derived><first>1</first><second>3</second><third>3</third></Derived>"
    assert from_xml(b"<Derived><third>4</third><first>1</first></Derived>", Derived) == Derived(1, third=4)


def test_optional_and_annotated_wrappers_are_removed_from_a_type() -> None:
    value = Wrapped(a=SpecialSku(Sku("a")), b=Sku("b"), c=3, d=4, f=5, e=[SpecialSku(Sku("e"))])
    xml = to_xml(value, "")
    assert xml == b'<Wrapped c="3" d="4" f="5"><a>a</a><b>b</b><e>e</e></Wrapped>'
    assert from_xml(xml, Wrapped) == value


def test_an_alias_is_mapped_like_its_type() -> None:
    typing_extensions = pytest.importorskip("typing_extensions")
    days = typing_extensions.TypeAliasType("days", list[date])
    cls = one(days)
    value = cls([date(2024, 1, 2)])
    assert from_xml(to_xml(value, ""), cls) == value


def test_a_plan_is_made_once_and_a_refusal_is_repeated() -> None:
    assert plan_of(Chicken) is plan_of(Chicken)
    assert refusal(Leaf) == refusal(Leaf)
    with pytest.raises(ConfigurationError, match=r"Leaf\.number"):
        to_xml(Leaf(1j), "")
    with pytest.raises(ConfigurationError, match=r"Leaf\.number"):
        from_xml(b"<Leaf/>", Leaf)


def test_a_plan_tells_what_must_be_there() -> None:
    plan = plan_of(Wrapped)
    assert [member.name for member in plan.attributes + plan.elements if member.required] == ["a"]
    assert [member.name for member in plan_of(Root).elements if member.required] == []


def test_names_outside_of_ascii_are_names_in_xml() -> None:
    @dataclass
    class Bestellung:
        größe: int  # noqa: PLC2401

    assert to_xml(Bestellung(3), "").decode() == "<Bestellung><größe>3</größe></Bestellung>"
    assert from_xml(to_xml(Bestellung(3), "urn:x"), Bestellung, "urn:x") == Bestellung(3)
