"""Sample messages of a dataclass."""

from __future__ import annotations

import datetime
import decimal
import enum
from dataclasses import dataclass, field

import pytest

from mercury.cli.sample_values import NoSample, sample_of


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass
class Item:
    name: str
    price: decimal.Decimal


@dataclass
class Order:
    id: int
    items: list[Item]
    size: Size
    on: datetime.date
    note: str | None
    anything: object = None
    total: float = field(default=0.0)


@dataclass
class Endless:
    inner: Endless


@dataclass
class Strange:
    thing: object


def test_each_field_has_a_value_of_its_type() -> None:
    made = sample_of(Order, 3)
    item = Item("name 3", decimal.Decimal(3))
    assert made == Order(3, [item], Size.SMALL, datetime.date(2026, 1, 1), "note 3", None, 3.0)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (bytes, "bytes is no dataclass"),
        (Strange, "the field thing is of the type object"),
        (Endless, "contains itself"),
    ],
)
def test_a_type_without_a_sample_is_named_in_the_error(kind: type, why: str) -> None:
    with pytest.raises(NoSample, match=why):
        sample_of(kind, 1)
