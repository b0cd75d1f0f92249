"""The forms of an atomic commit that the tests run with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.postgres import PostgresServer

from .places import Places, fill_application, fill_both, fill_store

#: Those with a second database, and all.
XA = ("postgres", "sqlite", "two-phase")
FORMS = (*XA, "same")


@pytest.fixture(scope="session")
def databases(postgres_server: PostgresServer) -> Iterator[Callable[[str], str]]:
    """Databases by name, made once: to make and remove some for each test takes longer than the tests."""
    made: dict[str, str] = {}
    fills = {"app": fill_application, "both": fill_both}

    def find(name: str) -> str:
        if name not in made:
            made[name] = postgres_server.create()
            fills.get(name, fill_store)(made[name])  # not as a copy: a copied store would have the same id
        return made[name]

    yield find
    for url in made.values():
        postgres_server.drop(url)


def _places(form: str, find: Callable[[str], str], folder: Path) -> Iterator[Places]:
    match form:
        case "postgres":
            made = Places(find("store"), find("app"))
        case "sqlite":
            made = Places(f"sqlite:///{folder}/store.db", find("app"))
        case "two-phase":
            made = Places(find("store"), find("app"), find("log"))
        case _:
            made = Places(find("both"), find("both"))
    yield made
    made.clean()
    made.close()


@pytest.fixture(params=FORMS)
def any_places(request: pytest.FixtureRequest, databases: Callable[[str], str], tmp_path: Path) -> Iterator[Places]:
    """One after the other: the application's database beside the store, in three forms, and the store's own."""
    yield from _places(request.param, databases, tmp_path)


@pytest.fixture(params=XA)
def places(request: pytest.FixtureRequest, databases: Callable[[str], str], tmp_path: Path) -> Iterator[Places]:
    """One after the other: the application's database beside the store, in three forms."""
    yield from _places(request.param, databases, tmp_path)
