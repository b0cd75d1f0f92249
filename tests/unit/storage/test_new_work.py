"""What a notification says of the work that commits have made."""

from __future__ import annotations

from mercury.storage.api import Topic
from mercury.storage.sql.new_work import MOST_KEYS, NewWork

BOTH = frozenset((Topic.RMS, Topic.INVOKER))
RMS = frozenset((Topic.RMS,))


def test_it_is_read_as_it_was_written() -> None:
    work = NewWork(BOTH, frozenset(("a1", "b2")))
    assert NewWork.read(work.text()) == work


def test_versions_that_name_no_keys_are_understood_and_understand_it() -> None:
    assert NewWork.read("invoker,rms") == NewWork(BOTH)
    names = NewWork(RMS, frozenset(("a1",))).text().split(",")
    assert [name for name in names if name in {topic.value for topic in Topic}] == ["rms"]


def test_unknown_names_are_left_out() -> None:
    assert NewWork.read("rms,tea") == NewWork(RMS)
    assert not NewWork.read("")


def test_keys_are_named_only_if_nothing_else_is_due() -> None:
    assert NewWork.of({Topic.INVOKER}, {"a1"}) == NewWork(BOTH, frozenset(("a1",)))
    assert NewWork.of({Topic.RMS}, {"a1"}) == NewWork(RMS)
    assert NewWork.of((), {str(number) for number in range(MOST_KEYS + 1)}) == NewWork(RMS)


def test_several_commits_are_announced_together() -> None:
    first, second = NewWork(RMS, frozenset(("a1",))), NewWork(RMS, frozenset(("b2",)))
    assert first | second == NewWork(RMS, frozenset(("a1", "b2")))
    assert first | NewWork(frozenset((Topic.INVOKER,))) == NewWork(BOTH, frozenset(("a1",)))
    assert first | NewWork(RMS) == NewWork(RMS) | second == NewWork(RMS), "any key may have work"
    many = NewWork(RMS, frozenset(str(number) for number in range(MOST_KEYS)))
    assert first | many == NewWork(RMS)
