"""`mercury trial` as a user runs it: on Mercury's own pair, and on programs without Mercury."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from tests.acceptance.processes import MERCURY, Running, eventually, mercury
from tests.trial.planted import planted, results

ROOT = Path(__file__).resolve().parents[2]
OUTBOX = ROOT / "samples/plain_outbox/trial.toml"


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    file = tmp_path / "pair.toml"
    # No limit: the machine of a test may be busy.
    file.write_text('[deployment]\nkind = "pair"\nlimit = 60\npatience = 120\n')
    return file


def test_pair_loses_and_repeats_nothing_when_its_active_server_is_killed_before_and_after_a_commit(
    pair: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report.html"
    options = ("--only", "consume/[ab]*/kill:server-active/*", "--report", str(report), "--output", "json")
    ended = mercury("trial", str(pair), *options)
    assert ended.code == 0, ended
    result = ended.value
    assert (result["ran"], result["verdicts"]["right"], result["stream"]["verdict"]) == (2, 2, "right")
    for branch in result["branches"]:
        assert any(said.startswith("SIGKILL to server-") for _, said in branch["events"])
        # The other member takes over when the lease of one second is over, and not before.
        assert branch["gap"]["max"] > 0.5
    page = report.read_text()
    assert "Nothing was lost, repeated, altered or out of order in 2 branches." in page
    assert page.count('class="fault"') >= 2
    assert not re.search(r"(?:src|href)=", page), "the report loads no other file"


@pytest.mark.parametrize(
    ("kind", "only", "fault"),
    [
        ("relay", "relay/before/kill:relay-active/", "SIGKILL to relay-"),
        ("standby", "consume/before/database-failover:", "the standby of the database is promoted"),
        ("stage", "move/before/disk-full:server-active/", "server-a writes to no file"),
    ],
)
def test_relay_standby_database_and_stage_lose_and_repeat_nothing(
    tmp_path: Path, kind: str, only: str, fault: str
) -> None:
    file = tmp_path / "trial.toml"
    file.write_text(f'[deployment]\nkind = "{kind}"\nlimit = 60\npatience = 120\n')
    ended = mercury("trial", str(file), "--only", only, "--output", "json")
    assert ended.code == 0, ended
    (branch,) = ended.value["branches"]
    assert any(said.startswith(fault) for _, said in branch["events"])
    assert (branch["verdict"], ended.value["stream"]["verdict"], ended.value["left"]) == ("right", "right", 0)


@pytest.mark.parametrize("name", ["members with different stores", "relay that sends in another transaction"])
def test_planted_defect_is_found(name: str) -> None:
    defect = planted()[name]
    (found,) = results(defect)
    assert found.verdict in defect.verdicts, found.detail


@pytest.mark.parametrize(
    ("mark", "branch", "verdict"),
    [("after", "answer/before/kill:client-active/", "repeated"), ("before", "post/before/kill:client-active/", "lost")],
)
def test_outbox_without_mercury_repeats_or_loses_a_message_when_its_client_is_killed(
    tmp_path: Path, mark: str, branch: str, verdict: str
) -> None:
    file = tmp_path / "trial.toml"
    file.write_text(OUTBOX.read_text().replace('"--mark", "after"', f'"--mark", "{mark}"'))
    ended = mercury("trial", str(file), "--only", branch, "--output", "json")
    assert ended.code == 1, ended
    (found,) = ended.value["branches"]
    assert (found["verdict"], found["detail"]) == (verdict, f"{verdict}: 2")


def test_interrupt_ends_all_programs_and_reports_what_ran(tmp_path: Path) -> None:
    report, kept = tmp_path / "report.html", tmp_path / "kept"
    options = ("--only", "pause:server", "--report", str(report), "--keep", str(kept), "--output", "json")
    with Running(MERCURY, "trial", str(OUTBOX), *options) as running:
        eventually(lambda: (kept / "1-1/server.log").exists(), "the programs are started")
        running.signal(signal.SIGINT)
        ended = running.ends()
    assert ended.code == 130, ended
    assert ended.value["interrupted"] is True
    assert "interrupted" in report.read_text()
    assert processes_with(str(kept)) == []


def processes_with(text: str) -> list[str]:
    """The command lines of the processes that name a folder."""
    found = []
    for each in os.listdir("/proc"):
        try:
            line = Path("/proc", each, "cmdline").read_bytes() if each.isdigit() else b""
        except OSError:
            continue
        if text.encode() in line:
            found.append(line.decode())
    return found


def test_tree_and_example_are_printed() -> None:
    listed = mercury("trial", "--list", str(OUTBOX), "--only", "kill:client-active/")
    assert listed.out.splitlines()[:3] == ["post", "  before", "       4  kill:client-active  (text)"]
    names = mercury("trial", "--list", str(OUTBOX), "--branches", "5", "--output", "json").value
    assert len(names) == 5
    assert "[deployment]" in mercury("trial", "--example").out


def test_trial_that_cannot_run_says_why(tmp_path: Path, pair: Path) -> None:
    mercury("trial").refused("--example")
    mercury("trial", str(tmp_path / "none.toml")).refused("none.toml", "No such file")
    mercury("trial", str(pair), "--only", "nothing").refused("'nothing'", "--list")
    mercury("trial", str(pair), "--report", str(tmp_path / "no/report.html")).refused("--report", "there is no folder")
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    mercury("trial", str(OUTBOX), "--branches", "1", "--keep", str(kept)).refused("it is not empty")
    file = tmp_path / "trial.toml"
    file.write_text(OUTBOX.read_text().replace("samples.plain_outbox.server", "no.such.server"))
    mercury("trial", str(file), "--branches", "1").refused("server has ended with code 1", "No module named")
