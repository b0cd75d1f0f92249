"""Values as statements of PostgreSQL take them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any


def as_array(values: Sequence[Any]) -> str | Sequence[bytes | None]:
    """The values of one column as the text of a PostgreSQL array; faster than the driver's conversion.

    Bytes are returned as a list: the driver sends them in binary.
    """
    kinds = set(map(type, values))
    if bytes in kinds:
        return values
    if kinds == {str}:
        joined = '","'.join(values)
        if "\\" not in joined and joined.count('"') == 2 * len(values) - 2:  # nothing to escape
            return f'{{"{joined}"}}'
    elif kinds <= _IN_PLACE:
        joined = ",".join(map(repr, values))
        return f"{{{joined.replace('None', _NULL) if None in values else joined}}}"
    elif kinds == _TEXT_OR_NULL:
        joined = "".join([value for value in values if value is not None])
        if "\\" not in joined and '"' not in joined:
            return f"{{{','.join([_NULL if value is None else _QUOTED % value for value in values])}}}"
    return f"{{{','.join([_element(value) for value in values])}}}"


_NULL, _QUOTED = "NULL", '"%s"'
#: The types whose values are written as Python writes them, and NULL.
_IN_PLACE = frozenset({int, float, type(None)})
_TEXT_OR_NULL = frozenset({str, type(None)})

#: Faster than `_element`, for the most frequent types.
_NUMBERS: Mapping[type, Callable[[Any], str]] = MappingProxyType(
    {int: repr, float: repr, bool: {False: "f", True: "t"}.__getitem__}
)


def _element(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"'
        case bool():
            return "t" if value else "f"
        case int() | float():
            return repr(value)
    raise TypeError(f"no element of an array: {type(value).__name__}")


def single_values(row: Mapping[str, Any], columns: Iterable[str]) -> dict[str, Any]:
    """The values of a row; what is not bytes as text, as in arrays: then NULL changes no type of the statement."""
    return {
        name: value
        if (kind := type(value := row[name])) is str or value is None or kind is bytes
        else _NUMBERS.get(kind, _element)(value)
        for name in columns
    }
