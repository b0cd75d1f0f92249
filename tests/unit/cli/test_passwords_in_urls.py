"""A user's name and password in a URL that a command connects to, and tokens that no request can show: refused, and not
shown."""

from __future__ import annotations

import pytest

from mercury.cli.documents import fetch_all
from mercury.cli.process_calls import bearer, call
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


@pytest.mark.parametrize(
    "token", ["s3cret-of-operators\n", "s3cret\r\nX-Other: 1", "s3cret\x00", "s3cret-\u20ac-\u200f"]
)
def test_token_that_no_request_can_show_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(ConfigurationError, match="the token") as error:
        call("http://127.0.0.1:9", token, "", "sequences.list", {})
    assert "s3cret" not in str(error.value)
    assert "\u20ac" not in str(error.value)


def test_token_of_the_characters_of_headers_is_shown_as_it_is() -> None:
    assert bearer("0123 \xe9 ~") == {"Authorization": "Bearer 0123 \xe9 ~"}
