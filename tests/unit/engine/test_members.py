"""The document with the members of a destination: what a process writes, and what it reads from any peer."""

from __future__ import annotations

import json

import pytest

from mercury.engine.address_book import FailoverSettings
from mercury.engine.members import LONGEST, MOST, MOST_BYTES, MemberList, Members, read_members
from mercury.errors import ConfigurationError

A, B, C = "http://a.example:8000", "http://b.example", "http://spare.example"


def test_document_names_this_process_and_those_that_the_store_names_until_they_are_gone() -> None:
    members = Members(FailoverSettings(public_address=f"{A}/"))
    assert json.loads(members.document("/services/de sk")) == {
        "members": [f"{A}/services/de%20sk"],
        "rebalance": False,
    }
    members.update([B, A, B])
    assert read_members(members.document("/s")) == MemberList(urls=(f"{A}/s", f"{B}/s"))
    members.update([A])
    assert read_members(members.document("/s")).urls == (f"{A}/s",)


def test_filter_leaves_members_out_and_rebalancing_is_passed_on() -> None:
    members = Members(FailoverSettings(public_address=A, members_filter=r"http://[ab]\..*", rebalance=True))
    members.update([B, C])
    assert read_members(members.document("/s")) == MemberList(urls=(f"{A}/s", f"{B}/s"), rebalance=True)
    alone = Members(FailoverSettings(public_address=C, members_filter="http://nothing"))
    assert read_members(alone.document("/s")).urls == ()


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"public_address": "a.example"}, "a.example"),
        ({"public_address": "http://a.example/path"}, "public_address"),
        ({"public_address": "http://user@a.example"}, "public_address"),
        ({"members_filter": "("}, "members_filter"),
    ],
)
def test_wrong_setting_is_refused(given: dict[str, str], name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        FailoverSettings(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["http://a/s,http://b/s", "http://a/s\nhttp://b/s\n", " http://a/s , http://b/s "])
def test_plain_text_is_a_list_too(text: str) -> None:
    assert read_members(text.encode()) == MemberList(urls=("http://a/s", "http://b/s"))


@pytest.mark.parametrize(
    "document",
    [
        b"\xff\xfe",
        b"{",
        b'{"members": "http://a/"}',
        b'{"members": [1]}',
        b'{"other": []}',
        b"{" + b'"a":{' * 100_000,
        b"x" * (MOST_BYTES + 1),
        json.dumps({"members": [f"http://{number}/" for number in range(MOST + 1)]}).encode(),
    ],
)
def test_document_that_is_none_or_too_large_is_refused(document: bytes) -> None:
    with pytest.raises(ValueError, match=r"it (has|is)"):
        read_members(document)


def test_address_that_is_too_long_is_left_out() -> None:
    assert read_members(f"http://a/s,http://{'b' * LONGEST}/s".encode()).urls == ("http://a/s",)
    assert read_members(b"").urls == ()
