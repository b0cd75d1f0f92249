"""The verdict of a key, by counting."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mercury.reconcile.verdicts import Judged, Row, Verdict, judged

Values = tuple[str | None, ...]


def judge(client: list[Values], server: list[Values], **more: int | None) -> Judged:
    rows = [Row(side=0, key=("k",), values=values, **more) for values in client]  # type: ignore[arg-type]
    rows += [Row(side=1, key=("k",), values=values) for values in server]
    (found,) = judged(rows)
    return found


def test_one_row_on_each_side_is_compared_column_by_column() -> None:
    assert judge([("a", None)], [("a", None)]).verdict is Verdict.DELIVERED
    found = judge([("a", None, "c")], [("b", None, None)])
    assert (found.verdict, found.altered) == (Verdict.ALTERED, (0, 2))
    assert (found.client, found.server) == (("a", None, "c"), ("b", None, None))
    assert judge([("a",)], [("a",)]).client is None  # what was delivered needs no values


def test_null_is_no_empty_text() -> None:
    assert judge([(None,)], [("",)]).verdict is Verdict.ALTERED


def test_counts_decide_first() -> None:
    a, b = ("a",), ("b",)
    assert judge([a], []).verdict is Verdict.MISSING
    assert judge([], [a, a]).verdict is Verdict.UNEXPECTED
    assert judge([a], [a, a]).verdict is Verdict.DUPLICATED
    assert judge([a, a], [a]).verdict is Verdict.MISSING
    assert judge([a, a], [b, b, b]).verdict is Verdict.DUPLICATED
    assert (judge([a], [a, a, a]).client_count, judge([a], [a, a, a]).server_count) == (1, 3)


def test_a_duplicate_that_was_altered_says_so_too() -> None:
    found = judge([("a", "x")], [("a", "x"), ("a", "y")])
    assert (found.verdict, found.altered, found.server) == (Verdict.DUPLICATED, (1,), ("a", "y"))
    assert judge([("a", "x")], [("a", "x"), ("a", "x")]).altered == ()


def test_rows_that_share_a_key_are_not_paired() -> None:
    """Whatever came from which: the same values as often is delivered, in any order."""
    assert judge([("1",), ("2",)], [("2",), ("1",)]).verdict is Verdict.DELIVERED
    assert judge([("1",), ("1",), ("2",)], [("1",), ("2",), ("2",)]).verdict is Verdict.ALTERED
    assert judge([(None,), ("2",)], [("2",), ("2",)]).verdict is Verdict.ALTERED


def test_out_of_order_comes_last_and_only_for_what_arrived() -> None:
    assert judge([("a",)], [("a",)], run=3).verdict is Verdict.OUT_OF_ORDER
    assert judge([("a",)], [("b",)], run=3).verdict is Verdict.ALTERED
    assert judge([("a",)], [], run=3).verdict is Verdict.MISSING


def test_the_time_on_the_way_is_from_the_first_sent_to_the_first_arrived() -> None:
    rows = [Row(side=0, key=("k",), values=(), time=100)]
    rows += [Row(side=1, key=("k",), values=(), time=time) for time in (900, 300)]
    (found,) = judged(rows)
    assert found.latency == 200
    (found,) = judged(rows[:1])
    assert found.latency is None


def test_long_values_are_kept_from_a_little_before_their_difference() -> None:
    text = "x" * 100_000
    found = judge([(f"{text}a{text}", text)], [(f"{text}b{text}", text)])
    assert found.altered == (0,)
    assert found.client is not None
    assert found.server is not None
    for values, letter in ((found.client, "a"), (found.server, "b")):
        assert f"…{'x' * 200}{letter}xxx" in (values[0] or "")
        assert "(200,001 characters, SHA-256 " in (values[0] or "")
        assert len(values[0] or "") < 5000
    assert found.client[1] == found.server[1]
    # The same beginning, and another end far behind: the hash tells them apart.
    missing = [judge([(f"{text}{letter}",)], []) for letter in "ab"]
    assert missing[0].client != missing[1].client


@given(
    st.lists(st.tuples(st.sampled_from(["x", "y", None])), max_size=5),
    st.lists(st.tuples(st.sampled_from(["x", "y", None])), max_size=5),
)
def test_one_column_is_judged_as_the_multisets_say(client: list[Values], server: list[Values]) -> None:
    if not client and not server:
        return
    found = judge(client, server)
    expected = {
        (True, False, False): Verdict.UNEXPECTED,
        (False, True, False): Verdict.MISSING,
        (False, False, True): Verdict.DUPLICATED,
    }.get((not client, bool(client) and len(server) < len(client), bool(client) and len(server) > len(client)))
    same = Counter(client) == Counter(server)
    assert found.verdict is (expected or (Verdict.DELIVERED if same else Verdict.ALTERED))
