"""Two processes with the role active-standby on one PostgreSQL: one serves, the other takes over."""

from __future__ import annotations

import http.client
import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mercury import ConfigurationError, MemberRole, Mercury, NotActive, Settings
from mercury.storage.xa.coordinator import Coordinator
from tests.acceptance.app import Note
from tests.acceptance.processes import PATIENCE, Serving, eventually, get, mercury

LEASE = 1.0
ENVELOPE = b'<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body/></s:Envelope>'


def member(store: str, journal: Path) -> Serving:
    return Serving(
        "tests.acceptance.app:app",
        *("--role", "active-standby"),
        MERCURY_STORE=store,
        MERCURY_ROLE_LEASE=str(LEASE),
        JOURNAL=str(journal),
    )


def health(server: Serving) -> tuple[int, dict[str, Any]]:
    status, body = get(server.netloc, "/readyz")
    return status, json.loads(body)


def is_active(server: Serving) -> bool:
    return bool(health(server)[1].get("member") == "active")


def epoch(server: Serving) -> int:
    return int(health(server)[1]["epoch"])


def posted(server: Serving) -> tuple[int, str | None]:
    """The status and Retry-After of the answer to a SOAP request."""
    host, _, port = server.netloc.partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
    try:
        connection.request("POST", "/services/desk", ENVELOPE, {"Content-Type": "text/xml"})
        reply = connection.getresponse()
        return reply.status, reply.headers["Retry-After"]
    finally:
        connection.close()


def noted(journal: Path) -> list[str]:
    return journal.read_text().split() if journal.exists() else []


def test_standby_takes_over_from_members_that_stop_die_and_wake_again(
    postgres_database: Callable[..., str], tmp_path: Path
) -> None:
    store, journal = postgres_database(), tmp_path / "journal"
    with member(store, journal) as first, member(store, journal) as second:
        status, said = health(first)
        assert (status, said["status"], said["role"], said["member"]) == (200, "ok", "active-standby", "active")
        status, said = health(second)
        assert (status, said["status"], said["member"], said["epoch"]) == (503, "standby", "standby", None)
        assert get(second.netloc, "/healthz")[0] == 200, "a standby is alive"
        assert posted(second) == (503, "1")

        # A member that is paused for longer than its lease, and wakes.
        before = epoch(first)
        first.signal(signal.SIGSTOP)
        eventually(lambda: is_active(second), "the second member takes over")
        assert epoch(second) > before
        with Mercury("memory:") as client:
            client.to(f"{second.url}/services/desk").send(Note("a"))
            eventually(lambda: noted(journal) == ["a"], "the second member handles a message")
        first.signal(signal.SIGCONT)
        eventually(lambda: health(first)[1]["member"] == "standby", "the first member is a standby again")
        assert posted(first) == (503, "1")
        assert is_active(second)

        # A member that is killed.
        second.signal(signal.SIGKILL)
        eventually(lambda: is_active(first), "the first member takes over")
        assert re.search(r"active member +epoch \d+, lease ", mercury("status", "--store", store).out)

        # A member that stops in an orderly way.
        settings = Settings(role=MemberRole.ACTIVE_STANDBY, role_lease=LEASE)
        with Mercury(store, settings=settings) as third:
            assert third.running_runtime is None
            first.signal(signal.SIGTERM)
            assert first.ends().code == 0
            eventually(lambda: third.running_runtime, "the third member takes over")


def test_standby_sends_nothing_and_says_so(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/store.db"
    settings = Settings(role=MemberRole.ACTIVE_STANDBY)
    with Mercury(store, settings=settings) as active, Mercury(store, settings=settings) as standby:
        here, there = (each.to("http://127.0.0.1:1/services/desk") for each in (active, standby))
        here.send(Note("a"))
        with pytest.raises(NotActive, match="not the active member"):
            there.send(Note("b"))
        assert standby.why_not_running is not None
        assert "standby" in standby.why_not_running


def test_member_that_takes_over_does_not_wait_again_for_a_database_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has waited before it asked for the lease, which would end meanwhile."""
    checked = list[Coordinator]()

    def check(self: Coordinator) -> list[str]:
        checked.append(self)
        return ["ledger"]

    monkeypatch.setattr(Coordinator, "check", check)
    store = f"sqlite:///{tmp_path}/store.db"
    settings = Settings(role=MemberRole.ACTIVE_STANDBY)
    first, second = (
        Mercury(store, settings=settings, resources={"ledger": "postgresql+psycopg://mercury@127.0.0.1:1/ledger"})
        for _ in range(2)
    )
    first.start()
    with second:
        first.stop()
        eventually(lambda: second.running_runtime, "the second member takes over")
    assert checked == [first.coordinator, second.coordinator]


def test_process_without_the_role_does_not_start_beside_an_active_member(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/store.db"
    another = Mercury(store)
    wanted = pytest.raises(ConfigurationError, match="this one needs role = active-standby too")
    with Mercury(store, settings=Settings(role=MemberRole.ACTIVE_STANDBY)), wanted:
        another.start()
    another.start()  # it has given its lease back
    another.stop()


def test_store_that_no_other_process_can_use_has_no_standby() -> None:
    mercury = Mercury("memory:", settings=Settings(role=MemberRole.ACTIVE_STANDBY))
    with pytest.raises(ConfigurationError, match="role: active-standby needs a store that several processes share"):
        mercury.start()
    mercury.stop()


def test_workers_at_one_port_cannot_be_standbys() -> None:
    ended = mercury("serve", "tests.acceptance.app:app", "--role", "active-standby", "--workers", "2")
    ended.refused("--workers", "active-standby")
