"""The kinds of stores that have a URL, and URLs of empty stores of each kind. A new kind is an entry of `KINDS`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import MappingProxyType

import pytest

from mercury.testing.postgres import Fill

#: Returns the URL of another empty store of one kind at each call.
NewUrl = Callable[[], str]


def _memory(_request: pytest.FixtureRequest, _folder: Path, _fill: Fill | None) -> NewUrl:
    return lambda: "memory:"


def _sqlite(_request: pytest.FixtureRequest, folder: Path, _fill: Fill | None) -> NewUrl:
    numbers = count(1)
    return lambda: f"sqlite:///{folder}/store{next(numbers)}.db"


def _postgres(request: pytest.FixtureRequest, _folder: Path, fill: Fill | None) -> NewUrl:
    create: Callable[[Fill | None], str] = request.getfixturevalue("postgres_database")
    return lambda: create(fill)


KINDS = MappingProxyType({"memory": _memory, "sqlite": _sqlite, "postgres": _postgres})
#: All, and those in a database.
EVERY = tuple(KINDS)
SQL = tuple(kind for kind in KINDS if kind != "memory")


def urls_of(kind: str, request: pytest.FixtureRequest, folder: Path, fill: Fill | None = None) -> NewUrl:
    """Where empty stores of a kind are; they end with the test.

    :param folder: for files.
    :param fill: makes the tables of a database on a server: a copy is faster than a new database. The other kinds make
        them when the store is opened.
    """
    return KINDS[kind](request, folder, fill)
