"""The kinds of stores that have a URL, and URLs of empty stores of each kind. A new kind is an entry of `KINDS`."""

from __future__ import annotations

import shutil
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


@pytest.fixture(scope="session")
def filled_files(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Fill], Path]:
    """SQLite files by what fills them, made once. Nobody may change them."""
    made: dict[Fill, Path] = {}

    def find(fill: Fill) -> Path:
        if fill not in made:
            folder = tmp_path_factory.mktemp("filled")
            fill(f"sqlite:///{folder}/store.db")
            assert [path.name for path in folder.iterdir()] == ["store.db"], "it is closed, so the file has everything"
            made[fill] = folder / "store.db"
        return made[fill]

    return find


def _sqlite(request: pytest.FixtureRequest, folder: Path, fill: Fill | None) -> NewUrl:
    numbers = count(1)

    def create() -> str:
        path = folder / f"store{next(numbers)}.db"
        if fill is not None:
            files: Callable[[Fill], Path] = request.getfixturevalue("filled_files")
            shutil.copyfile(files(fill), path)
        return f"sqlite:///{path}"

    return create


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
    :param fill: makes the tables of a database, which is then copied: that is faster than to make them again. Without
        it they are made when the store is opened.
    """
    return KINDS[kind](request, folder, fill)
