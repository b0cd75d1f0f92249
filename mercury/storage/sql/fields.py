"""The mapping of a field of a record to a column; `record_columns` describes each kind of record with these parts."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import BigInteger, Boolean, Column, Double, LargeBinary, Text
from sqlalchemy.types import TypeEngine

from mercury.storage.sql.dialect import POSITION
from mercury.storage.sql.prepared import Row
from mercury.storage.sql.values import leniently, read_ranges, write_ranges

Values: TypeAlias = dict[str, Any]
K = TypeVar("K", bound=enum.Enum)

#: The prefix of names of fields that belong to the record's machine.
MACHINE = "machine."


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a record, and the column that keeps it."""

    name: str
    type: TypeEngine[Any]
    nullable: bool = False
    primary_key: bool = False
    #: The path to the value in the record, with dots.
    of: str
    #: An attribute of the value, with a leading dot, if only that attribute is stored.
    kept: str = ""
    #: Converts the value for the column; ``None`` = no conversion.
    write: Callable[[Any], Any] | None = None
    #: The reverse.
    read: Callable[[Any], Any] | None = None
    #: `read` also converts NULL; otherwise NULL is ``None``.
    reads_null: bool = False
    #: The column is only for queries: computed from the whole record, and never read back.
    derived: Callable[[Any], Any] | None = None
    #: The column never changes after the insert.
    constant: bool = False
    #: No checksum covers the column. So are all columns since schema 0002: a process of the version before neither
    #: writes nor reads them, and would take a row for damaged.
    unchecked: bool = False
    #: The value for a damaged row whose column cannot be read.
    unreadable: object = None

    def column(self) -> Column[Any]:
        return Column(self.name, self.type, nullable=self.nullable, primary_key=self.primary_key)


#: A column of a table: for a field of a record, or for the store itself.
Described: TypeAlias = "Field | Column[Any]"


def columns(described: Sequence[Described]) -> list[Column[Any]]:
    """The columns of a table, in the order described."""
    return [each.column() if isinstance(each, Field) else each for each in described]


@dataclass(frozen=True, slots=True)
class _Part:
    """The fields of a record or of its machine, by attribute name."""

    names: tuple[tuple[str, str], ...]
    reads: tuple[tuple[str, Callable[[Any], Any]], ...]
    reads_null: tuple[tuple[str, Callable[[Any], Any]], ...]
    unreadable: Mapping[str, object]

    @classmethod
    def of(cls, fields: Sequence[tuple[str, Field]]) -> _Part:
        read = [(of, field, field.read) for of, field in fields if field.read is not None]
        return cls(
            names=tuple((of, field.name) for of, field in fields),
            reads=tuple((of, read) for of, field, read in read if not field.reads_null),
            reads_null=tuple((of, read) for of, field, read in read if field.reads_null),
            unreadable=MappingProxyType({of: field.unreadable for of, field, _ in read}),
        )

    def read(self, row: Row) -> Values:
        found = {of: row[name] for of, name in self.names}
        for of, read in self.reads:
            if (value := found[of]) is not None:
                found[of] = read(value)
        for of, read in self.reads_null:
            found[of] = read(found[of])
        return found

    def read_leniently(self, row: Row) -> Values:
        found = {of: row[name] for of, name in self.names}
        for of, read in (*self.reads, *self.reads_null):
            known = leniently(read, found[of])
            found[of] = self.unreadable[of] if known is None else known
        return found


@dataclass(frozen=True, slots=True)
class _Written:
    """Columns that are written together."""

    kept: tuple[str, ...]
    get: Callable[[Any], tuple[Any, ...]]
    writes: tuple[tuple[str, Callable[[Any], Any]], ...]
    derived: tuple[tuple[str, Callable[[Any], Any]], ...]

    @classmethod
    def of(cls, fields: Sequence[Field]) -> _Written:
        kept = [field for field in fields if field.derived is None]
        return cls(
            kept=tuple(field.name for field in kept),
            get=attrgetter(*(field.of + field.kept for field in kept)),
            writes=tuple((field.name, field.write) for field in kept if field.write is not None),
            derived=tuple((field.name, field.derived) for field in fields if field.derived is not None),
        )

    def values(self, record: object) -> Values:
        values = dict(zip(self.kept, self.get(record), strict=True))
        for name, write in self.writes:
            values[name] = write(values[name])
        for name, derive in self.derived:
            values[name] = derive(record)
        return values


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one kind of record, with conversions to and from rows."""

    names: tuple[str, ...]
    #: The names of columns that never change after the insert.
    constant: tuple[str, ...]
    #: The names of columns that no checksum covers.
    unchecked: frozenset[str]
    _all: _Written
    _changing: _Written
    _own: _Part
    _machine: _Part

    @classmethod
    def of(cls, described: Sequence[Described]) -> Fields:
        fields = [each for each in described if isinstance(each, Field)]
        kept = [field for field in fields if field.derived is None]
        own = [(field.of, field) for field in kept if not field.of.startswith(MACHINE)]
        machine = [(field.of.removeprefix(MACHINE), field) for field in kept if field.of.startswith(MACHINE)]
        return cls(
            names=tuple(field.name for field in fields),
            constant=tuple(field.name for field in fields if field.constant),
            unchecked=frozenset(field.name for field in fields if field.unchecked),
            _all=_Written.of(fields),
            _changing=_Written.of([field for field in fields if not field.constant]),
            _own=_Part.of(own),
            _machine=_Part.of(machine),
        )

    def values(self, record: object) -> Values:
        """The column values of a record."""
        return self._all.values(record)

    def changing(self, record: object) -> Values:
        """The values of a record's columns that may have changed since its insert."""
        return self._changing.values(record)

    def of_record(self, row: Row, *, damaged: bool = False) -> Values:
        """The fields of a record from a row, by name, without those of its machine.

        :param damaged: use the default for a column that cannot be read, instead of raising.
        """
        return self._own.read_leniently(row) if damaged else self._own.read(row)

    def of_machine(self, row: Row) -> Values:
        """The fields of the record's machine from a row, by name."""
        return self._machine.read(row)


# --- columns of each type --------------------------------------------------------------------------------------------


def text(name: str, of: str | None = None, **more: Any) -> Field:
    return Field(name=name, of=of or name, type=Text(), **more)


def number(name: str, of: str | None = None, **more: Any) -> Field:
    return Field(name=name, of=of or name, type=BigInteger(), **more)


def time(name: str, of: str | None = None, **more: Any) -> Field:
    return Field(name=name, of=of or name, type=Double(), **more)


def flag(name: str, of: str | None = None, **more: Any) -> Field:
    return Field(name=name, of=of or name, type=Boolean(create_constraint=False), **more)


def binary(name: str, of: str | None = None, **more: Any) -> Field:
    return Field(name=name, of=of or name, type=LargeBinary(), **more)


def nullable(field: Callable[..., Field], name: str, of: str | None = None, **more: Any) -> Field:
    """A field that may be ``None``, stored as NULL."""
    return field(name, of, nullable=True, **more)


def choice(name: str, kind: type[K], of: str | None = None, **more: Any) -> Field:
    """A member of an enumeration, stored as its value.

    ``_value_`` is that value as a plain attribute; ``value`` takes two calls in Python.
    """
    return text(name, of, **{"kept": "._value_", "read": kind} | more)


def nullable_choice(name: str, kind: type[K], of: str | None = None) -> Field:
    return text(name, of, write=_value_of, read=kind, nullable=True)


def ranges(name: str, of: str | None = None) -> Field:
    """Ranges of numbers, stored as text such as ``1-7 9`` instead of a row per number."""
    return text(name, of, write=write_ranges, read=read_ranges)


def structure(name: str, write: Callable[[Any], str], read: Callable[[str], Any], **more: Any) -> Field:
    """A value that is stored as text; ``None`` as NULL."""
    return text(name, write=_unless_none(write) if more.get("nullable") else write, read=read, **more)


def position() -> Column[int]:
    """The order of insertion, assigned by the store."""
    return Column("position", POSITION, primary_key=True, autoincrement=True)


def _value_of(member: enum.Enum | None) -> Any:
    return member.value if member is not None else None


def _unless_none(write: Callable[[Any], str]) -> Callable[[Any], str | None]:
    return lambda value: write(value) if value is not None else None
