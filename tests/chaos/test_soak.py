"""A short soak, and whether its verdict detects each kind of violation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.forks import Fork
from tests.chaos.kinds import Mode
from tests.chaos.programs.tables import orders
from tests.chaos.soak import report
from tests.chaos.soak.memory import FEWEST, MIB, Memory
from tests.chaos.soak.orders import Progress, by_key
from tests.chaos.soak.process_output import ProcessOutput
from tests.chaos.soak.run import Outcome, Plan, run
from tests.chaos.verdict import Difference, Row, compare

PLAN = Plan(lasting=20, seed=3, every=1.2, rate=5, backlog=60)


def test_twenty_seconds_of_faults_lose_repeat_and_disorder_nothing() -> None:
    lines: list[str] = []
    outcome = run(PLAN, lines.append)
    shown = report.text(outcome)
    assert outcome.good, "\n".join([*lines, shown])
    assert outcome.progress.confirmed == outcome.progress.received == outcome.progress.made > 0
    assert sum(outcome.faults.values()) > 3
    assert outcome.largest_backlog <= PLAN.backlog
    assert report.as_json(outcome)["good"] is True
    assert shown.endswith("GOOD")


# --- the verdict -----------------------------------------------------------------------------------------------------

SENT: list[Row] = [tuple(row.values()) for row in orders(8)]


def test_keys_need_not_keep_an_order_among_each_other() -> None:
    other_keys_first = sorted(SENT, key=lambda row: (-(row[0] % 4), row[0]))
    assert compare(SENT, other_keys_first, by_key) == Difference()


def test_disorder_within_a_key_is_detected() -> None:
    assert compare(SENT, SENT[::-1], by_key) == Difference(out_of_order=4)


def outcome(**given: object) -> Outcome:
    return Outcome(plan=PLAN, progress=Progress(), output=ProcessOutput(), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    [
        {"difference": Difference(lost=1)},
        {"prepared": 1},
        {"misled": ["an error over a committed order"]},
        {"errors": ["a dead letter"]},
        {"memories": [Memory("server 1", 1, [100 * MIB + number * MIB for number in range(FEWEST)])]},
    ],
    ids=lambda given: next(iter(given)),
)
def test_anything_wrong_makes_it_wrong(given: dict[str, object]) -> None:
    assert outcome().good
    assert not outcome(**given).good
    assert report.text(outcome(**given)).endswith("WRONG")


def test_memory_that_settles_is_flat() -> None:
    warm = [50 * MIB + min(number, FEWEST // 5) * MIB for number in range(FEWEST)]
    assert Memory("client 1", 1, warm).flat


def test_memory_of_a_short_run_is_not_judged() -> None:
    short = Memory("client 1", 1, [MIB, 90 * MIB])
    assert not short.enough
    assert outcome(memories=[short]).good


# --- the processes' output -------------------------------------------------------------------------------------------


def fork(folder: Path, out: str, err: str = "") -> Fork:
    (folder / "out").write_text(out)
    (folder / "err").write_text(err)
    return Fork(4242, "client 1", folder / "out", folder / "err")


CAUGHT = "caught leaving sqlalchemy.exc.OperationalError 77-3 server closed the connection\n"
UNKNOWN = "caught leaving mercury.errors.OutcomeUnknown 77-4 nobody can be asked\n"


def test_every_error_is_counted_once(tmp_path: Path) -> None:
    output = ProcessOutput()
    output.read("client 1", fork(tmp_path, CAUGHT + UNKNOWN))
    output.read("client 1", fork(tmp_path, CAUGHT + UNKNOWN + CAUGHT), ended=True)
    assert output.caught == {
        "the commit: sqlalchemy.exc.OperationalError": 2,
        "the commit: mercury.errors.OutcomeUnknown": 1,
    }


def test_an_error_over_what_is_committed_is_found_unless_it_says_that_it_is_unknown(tmp_path: Path) -> None:
    output = ProcessOutput()
    output.read("client 1", fork(tmp_path, CAUGHT + UNKNOWN))
    assert output.misled({"77-1", "77-4"}) == []
    (found,) = output.misled({"77-1", "77-3", "77-4"})
    assert "OperationalError" in found
    assert "77-3" in found


def test_an_error_of_the_driver_out_of_a_commit_is_found(tmp_path: Path) -> None:
    output = ProcessOutput()
    output.read("client 1", fork(tmp_path, CAUGHT.replace("leaving", "within") + UNKNOWN))
    assert output.foreign == []
    output.read("client 1", fork(tmp_path, CAUGHT.replace("leaving", "within") + UNKNOWN + CAUGHT))
    assert output.foreign == ["the commit: sqlalchemy.exc.OperationalError"]


def test_warnings_of_a_kind_are_counted_together(tmp_path: Path) -> None:
    log = (
        "    12 WARNING mercury.engine: nothing came from http://127.0.0.1:4711/x for 3 s\n"
        "    13 INFO mercury.engine: all is well\n"
        "    14 WARNING mercury.engine: nothing came from http://127.0.0.1:42/y for 4 s\n"
        "    15 ERROR mercury.engine: a defect\nTraceback (most recent call last):\n  File x\nKeyError: 5\n"
    )
    output = ProcessOutput()
    output.read("server 2", fork(tmp_path, "", log))
    assert sorted(output.warned.values()) == [1, 2]
    assert dict(output.tracebacks) == {"server: KeyError: …": 1}


@pytest.mark.parametrize(("mode", "left"), [(Mode.IN_ONLY, 3), (Mode.IN_OUT, 5)], ids=lambda each: str(each))
def test_rows_in_transit_are_those_that_are_not_done(mode: Mode, left: int) -> None:
    assert Progress(made=10, sent=9, received=7, confirmed=5).backlog(mode) == left
