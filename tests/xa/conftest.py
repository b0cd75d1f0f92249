"""The forms of an atomic commit that the tests are run on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .places import Places, by_form

#: Those with a second database, and all.
XA = ("postgres", "sqlite", "two-phase")
FORMS = (*XA, "same")


@pytest.fixture(params=FORMS)
def any_places(
    request: pytest.FixtureRequest, postgres_database: Callable[..., str], tmp_path: Path
) -> Iterator[Places]:
    """One after the other: the application's database beside the store, in three forms, and the store's own."""
    made = by_form(request.param, postgres_database, tmp_path)
    yield made
    made.close()


@pytest.fixture(params=XA)
def places(request: pytest.FixtureRequest, postgres_database: Callable[..., str], tmp_path: Path) -> Iterator[Places]:
    """One after the other: the application's database beside the store, in three forms."""
    made = by_form(request.param, postgres_database, tmp_path)
    yield made
    made.close()
