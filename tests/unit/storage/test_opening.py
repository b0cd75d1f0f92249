"""Opening a store by its URL."""

from __future__ import annotations

from pathlib import Path

import pytest

from mercury.errors import ConfigurationError
from mercury.storage.memory import MemoryStore
from mercury.storage.opening import name_resources, open_sql_store, open_store


def test_memory_is_opened_anew_each_time() -> None:
    first, second = open_store("memory:"), open_store("memory:")
    assert isinstance(first, MemoryStore)
    assert first is not second


@pytest.mark.parametrize("url", ["", "memory", "nonsense://db/orders", "postgres"])
def test_table_that_names_no_store_is_reported(url: str) -> None:
    with pytest.raises(ConfigurationError, match="not a store"):
        open_store(url)


#: URLs with a mistake, and what is said about it.
MISTYPED = {
    "postgresql+psycopg://till:s3cret@db:54e2/shop": "postgresql+psycopg: the port behind the host is not a number",
    "postgresql+psycopg://till:s3cret@db:/shop": "postgresql+psycopg: the port behind the host is not a number",
    "postgresql+psycopg//till:s3cret@db/shop": "postgresql+psycopg has to be followed by ://",
    "postgresql+psycopg:/till:s3cret@db/shop": "postgresql+psycopg has to be followed by ://",
    "postgresql psycopg://till:s3cret@db/shop": "what stands before :// is no scheme",
    "till s3cret": "it has no ://",
    "postgresql+psycopg://till:s3@cret@db/shop": "postgresql+psycopg: an @ in a name or a password is written %40",
    "postgresql+psycopg://till:s3@cret:7@db/shop": "an @ in a name or a password is written %40",
}


@pytest.mark.parametrize(("url", "why"), MISTYPED.items())
def test_mistyped_url_is_refused_with_what_is_wrong_and_without_its_password(url: str, why: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_store(url)
    assert str(caught.value).startswith("not a store: ")
    assert why in str(caught.value)
    assert "cret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(("url", "why"), MISTYPED.items())
def test_mistyped_url_of_a_database_that_takes_part_is_refused_likewise(url: str, why: str, tmp_path: Path) -> None:
    store = open_sql_store(f"sqlite:///{tmp_path}/store.db")
    try:
        with pytest.raises(ConfigurationError) as caught:
            name_resources(store, {"orders": url})
    finally:
        store.close()
    assert str(caught.value).startswith("resources: the value of 'orders' is not the URL of a database: ")
    assert why in str(caught.value)
    assert "cret" not in str(caught.value)
