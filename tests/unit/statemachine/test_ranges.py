"""RangeSet: sets of message numbers as ranges, and the cost of an operation."""

from __future__ import annotations

import random
from math import log2
from typing import Any, SupportsIndex

import pytest

from mercury.statemachine.ranges import RangeSet


def built(*ranges: tuple[int, int]) -> RangeSet:
    return RangeSet(ranges)


# --- adding and removing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        ((1, 1), ((1, 1), (3, 5), (8, 9))),
        ((2, 2), ((2, 5), (8, 9))),
        ((6, 6), ((3, 6), (8, 9))),
        ((6, 7), ((3, 9),)),
        ((7, 7), ((3, 5), (7, 9))),
        ((10, 10), ((3, 5), (8, 10))),
        ((11, 12), ((3, 5), (8, 9), (11, 12))),
        ((1, 20), ((1, 20),)),
        ((4, 8), ((3, 9),)),
    ],
)
def test_a_range_that_is_added_melts_with_its_neighbours(
    added: tuple[int, int], expected: tuple[tuple[int, int], ...]
) -> None:
    ranges = built((3, 5), (8, 9))
    assert ranges.add(*added)
    assert ranges.as_tuples() == expected


@pytest.mark.parametrize("added", [(3, 3), (4, 5), (3, 5), (9, 9)])
def test_adding_what_is_there_says_so(added: tuple[int, int]) -> None:
    ranges = built((3, 5), (8, 9))
    assert not ranges.add(*added)
    assert not ranges.update([added, added])
    assert ranges == built((3, 5), (8, 9))


@pytest.mark.parametrize("bad", [(0, 1), (-4, -2), (3, 2)])
def test_invalid_range_of_message_numbers_is_an_error(bad: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="not a range of message numbers"):
        RangeSet().add(*bad)


@pytest.mark.parametrize(
    ("removed", "expected"),
    [
        ((1, 2), ((3, 5), (8, 9))),
        ((3, 3), ((4, 5), (8, 9))),
        ((4, 4), ((3, 3), (5, 5), (8, 9))),
        ((5, 8), ((3, 4), (9, 9))),
        ((6, 7), ((3, 5), (8, 9))),
        ((1, 99), ()),
        ((9, 4), ((3, 5), (8, 9))),
        ((5, 3), ((3, 5), (8, 9))),
    ],
)
def test_removal_leaves_the_other_numbers(removed: tuple[int, int], expected: tuple[tuple[int, int], ...]) -> None:
    ranges = built((3, 5), (8, 9))
    ranges.discard(*removed)
    assert ranges.as_tuples() == expected


def test_one_number_is_removed_by_itself() -> None:
    ranges = built((3, 5))
    ranges.discard(4)
    assert ranges.as_tuples() == ((3, 3), (5, 5))


# --- questions -------------------------------------------------------------------------------------------------------


def test_gaps_are_what_is_missing_between_two_numbers() -> None:
    ranges = built((3, 5), (8, 9))
    assert list(ranges.gaps(1, 12)) == [(1, 2), (6, 7), (10, 12)]
    assert list(ranges.gaps(4, 8)) == [(6, 7)]
    assert list(ranges.gaps(3, 5)) == []
    assert list(ranges.gaps(9, 2)) == []
    assert list(RangeSet().gaps(1, 3)) == [(1, 3)]


def test_coverage_is_asked_of_whole_ranges() -> None:
    ranges = built((1, 5), (8, 9))
    assert ranges.covers(1, 5)
    assert ranges.covers(2, 4)
    assert not ranges.covers(1, 6)
    assert not ranges.covers(5, 8)
    assert ranges.covers(7, 6), "an empty range is covered"


def test_membership_and_the_other_questions() -> None:
    ranges = built((1, 5), (8, 9))
    assert [number for number in range(-1, 12) if number in ranges] == [1, 2, 3, 4, 5, 8, 9]
    assert (ranges.first_missing(), ranges.highest, ranges.count, len(ranges), bool(ranges)) == (6, 9, 7, 2, True)
    assert list(ranges.numbers()) == [1, 2, 3, 4, 5, 8, 9]
    assert list(ranges) == [(1, 5), (8, 9)]
    assert repr(ranges) == "RangeSet([(1, 5), (8, 9)])"


def test_nothing_has_no_highest_and_misses_the_first() -> None:
    ranges = RangeSet()
    assert (ranges.first_missing(), ranges.highest, ranges.count, len(ranges), bool(ranges)) == (1, 0, 0, 0, False)
    assert built((2, 9)).first_missing() == 1


def test_a_copy_lives_by_itself() -> None:
    ranges = built((1, 5))
    copy = ranges.copy()
    copy.add(9)
    assert ranges.as_tuples() == ((1, 5),)
    assert ranges != copy


def test_a_set_that_changes_is_no_key() -> None:
    with pytest.raises(TypeError):
        hash(RangeSet())


def test_equality_is_for_sets_of_ranges_only() -> None:
    assert RangeSet() != ()
    assert built((1, 2)) != built((1, 3))
    assert built((1, 3)) != built((2, 3))


# --- cost ------------------------------------------------------------------------------------------------------------


class CountedNumber(int):
    """A number that counts how often it is compared."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        CountedNumber.compared += 1
        return int(self) < int(other)

    def __gt__(self, other: int) -> bool:
        CountedNumber.compared += 1
        return int(self) > int(other)


class CountedList(list[Any]):
    """A list that counts how often its structure is changed, and how many items it copies out."""

    changed = 0
    copied = 0

    def insert(self, index: SupportsIndex, item: Any) -> None:
        CountedList.changed += 1
        super().insert(index, CountedNumber(item))

    def __setitem__(self, index: Any, item: Any) -> None:
        CountedList.changed += 1
        counted = [CountedNumber(one) for one in item] if isinstance(index, slice) else CountedNumber(item)
        super().__setitem__(index, counted)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            CountedList.copied += len(range(*index.indices(len(self))))
        return super().__getitem__(index)


def counted(count: int) -> RangeSet:
    """``count`` ranges of one number each, with gaps of one: 2, 4, 6, ..."""
    ranges = RangeSet()
    ranges._lows = CountedList(CountedNumber(2 * number) for number in range(1, count + 1))
    ranges._highs = CountedList(CountedNumber(2 * number) for number in range(1, count + 1))
    return ranges


@pytest.mark.parametrize("count", [10, 1_000, 100_000])
def test_no_step_costs_more_than_a_search_and_one_change_of_each_list(count: int) -> None:
    chosen = random.Random(count)
    steps = [
        lambda ranges, number: ranges.add(number),
        lambda ranges, number: ranges.add(number, number + 5),
        lambda ranges, number: ranges.discard(number),
        lambda ranges, number: ranges.discard(number, number + 5),
        lambda ranges, number: number in ranges,
        lambda ranges, number: ranges.covers(number, number + 5),
        lambda ranges, number: ranges.first_missing(),
        lambda ranges, number: next(ranges.gaps(number, number + 5), None),
    ]
    ranges = counted(count)
    compared = changed = 0
    for _ in range(200):
        for step in steps:
            CountedNumber.compared = CountedList.changed = CountedList.copied = 0
            step(ranges, chosen.randint(1, 2 * count + 10))
            assert CountedNumber.compared <= 4 * (log2(count) + 2) + 8
            assert CountedList.changed <= 2
            assert CountedList.copied == 0
            compared += CountedNumber.compared
            changed += CountedList.changed
    assert compared > 1000, "the counters do count"
    assert changed > 100


def test_walking_gaps_costs_as_many_steps_as_there_are_ranges_on_the_way() -> None:
    ranges = counted(100_000)
    CountedNumber.compared = CountedList.copied = 0
    assert len(list(ranges.gaps(100_001, 100_020))) == 10
    assert CountedNumber.compared <= 4 * (log2(100_000) + 2) + 40
    assert CountedList.copied == 0


def test_huge_ranges_cost_no_more_than_small_ones() -> None:
    highest = 2**63 - 1
    ranges = built((1, highest))
    ranges.discard(highest // 2)
    assert len(ranges) == 2
    assert ranges.count == highest - 1
    assert ranges.first_missing() == highest // 2


@pytest.mark.slow
def test_a_million_numbers_in_random_order_with_one_gap_end_as_two_ranges() -> None:
    numbers = [number for number in range(1, 1_000_001) if number != 654_321]
    random.Random(20_100_714).shuffle(numbers)
    ranges = RangeSet()
    for number in numbers:
        assert ranges.add(number)
    assert ranges.as_tuples() == ((1, 654_320), (654_322, 1_000_000))
    assert (ranges.count, ranges.first_missing()) == (999_999, 654_321)
