"""The texts of PostgreSQL's statements that are made of table and column names of the schema: few, and cached."""

from __future__ import annotations

from functools import lru_cache

from sqlalchemy import BigInteger, Boolean, Double, LargeBinary, Table, Text


@lru_cache(maxsize=128)
def update_text(table: Table, key: str, columns: tuple[str, ...], *, one: bool = False) -> str:
    """An update by arrays, one for each column; by single values with ``one``, which costs the database less."""
    if one:
        values = ", ".join(f'"{name}" = {_placeholder(table, name, "")}' for name in columns if name != key)
        return f'update {table.name} set {values} where "{key}" = {_placeholder(table, key, "")}'  # noqa: S608
    sets = ", ".join(f'"{name}" = v."{name}"' for name in columns if name != key)
    names = ", ".join(f'"{name}"' for name in columns)
    arrays = ", ".join(_typed(table, name) for name in columns)
    return (
        f'update {table.name} t set {sets} from unnest({arrays}) as v({names}) where t."{key}" = any (array[v."{key}"])'  # noqa: S608
    )


@lru_cache(maxsize=128)
def binary_columns(table: Table) -> tuple[str, ...]:
    """The columns of bytes."""
    return tuple(column.name for column in table.columns if isinstance(column.type, LargeBinary))


@lru_cache(maxsize=128)
def insert_text(
    table: Table, *, ignore: bool = False, prefix: str = "", one: bool = False
) -> tuple[str, tuple[str, ...]]:
    """An insert of arrays, one for each column; of single values with ``one``, which costs the database less."""
    columns = tuple(column.name for column in table.columns if not (column.primary_key and column.name == "position"))
    names = ", ".join(f'"{name}"' for name in columns)
    if one:
        source = f"values ({', '.join(_placeholder(table, name, prefix) for name in columns)})"
    else:
        source = f"select * from unnest({', '.join(_typed(table, name, prefix) for name in columns)})"  # noqa: S608
    end = " on conflict do nothing" if ignore else ""
    return f"insert into {table.name} ({names}) {source}{end}", columns


@lru_cache(maxsize=16)
def insert_both_text(
    first: Table, second: Table, markers: Table | None, *, one: bool
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The names of the tables, the texts, and the columns of the first and of the second table."""
    statement, columns = insert_text(first, one=one)
    before, names = insert_text(second, prefix="second_", one=one)
    tables, texts = [second.name, first.name], [before, statement]
    if markers is not None:
        tables.insert(0, markers.name)
        texts.insert(0, insert_marker_text(markers))
    return tuple(tables), tuple(texts), columns, names


@lru_cache(maxsize=16)
def insert_marker_text(table: Table, *, ignore: bool = False) -> str:
    end = " on conflict do nothing" if ignore else ""
    return f"insert into {table.name} (id, made_at) values (%(id)s, extract(epoch from clock_timestamp())){end}"  # noqa: S608


def _placeholder(table: Table, name: str, prefix: str) -> str:
    return f"%({prefix}{name}){'b' if isinstance(table.columns[name].type, LargeBinary) else 's'}"


def _typed(table: Table, name: str, prefix: str = "") -> str:
    kinds: tuple[tuple[type, str], ...] = (
        (Text, "%({})s::text[]"),
        (Boolean, "%({})s::boolean[]"),
        (Double, "%({})s::double precision[]"),
        (BigInteger, "%({})s::bigint[]"),
        (LargeBinary, "%({})b::bytea[]"),
    )
    kind = table.columns[name].type
    return next(cast for known, cast in kinds if isinstance(kind, known)).format(prefix + name)
