"""The active member dies in the middle of a two-phase commit, and its standby finishes it and takes over."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.acceptance.processes import PATIENCE, eventually

from .active_member import member, order
from .places import Places


@pytest.fixture
def pair(request: pytest.FixtureRequest, databases: Callable[[str], str]) -> Iterator[Places]:
    made = Places(databases("store"), databases("app"), databases("log") if request.param == "two-phase" else None)
    yield made
    made.clean()
    made.close()


@pytest.mark.parametrize(
    ("pair", "step", "kept"),
    [
        # Where the store prepares too, what is prepared holds the row of the lease: recovery comes before the lease.
        pytest.param("two-phase", "prepare", [], id="prepared everywhere"),
        pytest.param("two-phase", "commit_decision", [1], id="decided and committed nowhere"),
        pytest.param("postgres", "prepare", [], id="prepared beside the store"),
    ],
    indirect=["pair"],
)
def test_standby_finishes_what_the_active_member_has_prepared_and_takes_over(
    pair: Places, step: str, kept: list[int]
) -> None:
    urls = [pair.store, pair.app, *([pair.log] if pair.log else [])]
    command = [sys.executable, "-m", "tests.xa.active_member", step, *urls]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as active:
        try:
            assert active.stdout is not None
            assert active.stdout.readline() == "active\n"
            with member(*urls) as standby:
                assert standby.running_runtime is None
                active.communicate("go\n", timeout=PATIENCE)
                assert active.returncode == -9
                assert pair.prepared() != [], "it has died with something prepared"
                eventually(lambda: standby.running_runtime, "the standby takes over")
                eventually(lambda: pair.prepared() == [], "nothing is left prepared")
                assert (pair.placed(), pair.sent()) == (kept, kept)
                order(standby, 2)
                assert (pair.placed(), pair.sent()) == ([*kept, 2], [*kept, 2])
        finally:
            active.kill()
