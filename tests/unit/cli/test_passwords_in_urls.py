"""A user's name and password in a URL that a command connects to: refused, and not shown."""

from __future__ import annotations

import pytest

from mercury.cli.documents import fetch_all
from mercury.cli.process_calls import call
from mercury.errors import ConfigurationError, StorageError
from mercury.settings import Settings

URLS = (
    "http://till:s3cret@host.example",
    "https://till:s3cret@host.example:8443/x",
    "http://till:s3cret@host.example:x",
    "http://till:s3/cr@et@host.example",
)


@pytest.mark.parametrize("url", URLS)
def test_call_of_a_process_shows_no_password_of_its_url(url: str) -> None:
    with pytest.raises(ConfigurationError, match="URL") as error:
        call(url, "token", "", "sequences.list", {})
    assert "cret" not in str(error.value)
    assert "s3" not in str(error.value)


@pytest.mark.parametrize("url", URLS)
def test_fetching_a_document_shows_no_password_of_its_url(url: str) -> None:
    with pytest.raises(ConfigurationError, match="URL") as error:
        fetch_all(url, Settings(), lambda _: [])
    assert "cret" not in str(error.value)
    assert "s3" not in str(error.value)


def test_host_with_a_name_that_cannot_be_looked_up_does_not_answer() -> None:
    url = f"http://{'a' * 64}.example"
    with pytest.raises(StorageError, match="nothing answers at"):
        call(url, "token", "", "sequences.list", {})
