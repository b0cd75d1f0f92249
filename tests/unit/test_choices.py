"""A value of which only some are possible is read in one way, and the error lists what there is."""

from __future__ import annotations

import enum

import pytest

from mercury.choices import chosen, member
from mercury.errors import ConfigurationError


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


def test_a_value_that_is_there_is_found() -> None:
    assert member(Colour, "blue", "colour") is Colour.BLUE
    assert chosen({"yes": True, "no": False}, "no", "answer") is False


@pytest.mark.parametrize("given", ["green", "", "BLUE", 7, None, [], {"red": 1}])
def test_another_value_of_any_type_is_refused_with_what_there_is(given: object) -> None:
    with pytest.raises(ConfigurationError) as refused:
        member(Colour, given, "colour")
    assert str(refused.value) == f"colour: {given!r} is not one of red, blue"


def test_the_error_about_a_long_value_is_short() -> None:
    with pytest.raises(ConfigurationError) as refused:
        member(Colour, "x" * 1_000_000, "colour")
    assert len(str(refused.value)) < 100
