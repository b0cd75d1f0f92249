"""Copies of machines and records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache
from typing import Any, TypeVar

T = TypeVar("T")


def shallow(value: T) -> T:
    """A second object of a dataclass, with the same fields. Records are copied at every read, so it must be cheap."""
    kind: Any = type(value)
    copied: T = _copier(kind)(value)
    return copied


@lru_cache(maxsize=64)
def _copier(kind: type[Any]) -> Callable[[Any], Any]:
    """Copies objects of one dataclass field by field, in code that is made from the fields, as that of ``__init__`` is.

    The ``__dict__`` would be a shorter way. But CPython keeps the attributes of an object in an array until its
    ``__dict__`` is asked for. From then on each use of an attribute, in the original too, takes five times as long.
    """
    lines = ["def copied(value):", "    own = new(kind)"]
    lines += [f"    own.{each.name} = value.{each.name}" for each in fields(kind)]
    names: dict[str, Any] = {"new": object.__new__, "kind": kind}
    exec("\n".join([*lines, "    return own"]), names)  # noqa: S102  only names of fields are in it
    made: Callable[[Any], Any] = names["copied"]
    return made
