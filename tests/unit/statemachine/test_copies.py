"""Copies of machines and records: what changes in one does not change in the other."""

from __future__ import annotations

from dataclasses import dataclass, field

from mercury.statemachine.copies import shallow


@dataclass(kw_only=True)
class Record:
    """A record with each kind of field."""

    name: str
    number: int | None = None
    rows: list[int] = field(default_factory=list)
    seen: int = field(default=0, init=False)


@dataclass(kw_only=True)
class LongerRecord(Record):
    """A record with the fields of another one."""

    more: str = ""


def test_copy_has_all_fields_and_is_changed_alone() -> None:
    record = LongerRecord(name="a", number=1, rows=[1], more="b")
    record.seen = 2

    copy = shallow(record)
    assert type(copy) is LongerRecord
    assert (copy, copy.seen, copy.rows is record.rows) == (record, 2, True)

    copy.name, copy.number, copy.seen, copy.more = "x", None, 3, "y"
    assert (record.name, record.number, record.seen, record.more) == ("a", 1, 2, "b")


def test_copy_leaves_the_attributes_of_both_where_they_are_quick() -> None:
    asked = []

    @dataclass
    class Watched:
        name: str

        @property
        def __dict__(self) -> dict[str, object]:  # type: ignore[override]
            asked.append("__dict__")
            return {"name": "a"}

    assert shallow(Watched("a")).name == "a"
    assert not asked  # CPython would keep the attributes in a dictionary from now on
