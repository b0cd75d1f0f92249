from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.processes import Serving


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    """One server for all tests of a module."""
    with Serving() as running:
        yield running
