"""How many rows are read at once, by the bytes of their bodies."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mercury.storage.sizes import fitting, within


@given(sizes=st.lists(st.integers(0, 9), max_size=8), most=st.integers(0, 20), taken=st.integers(0, 12))
def test_as_many_rows_fit_as_are_read(sizes: list[int], most: int, taken: int) -> None:
    """The two stores limit their reads by the one or by the other."""
    assert fitting(sizes, most, taken) == len(list(within(sizes, lambda size: size, most, taken)))


def test_the_first_row_of_any_size_fits_if_nothing_is_taken() -> None:
    assert fitting([100, 1], 10) == 1
    assert fitting([100, 1], 10, taken=1) == 0
