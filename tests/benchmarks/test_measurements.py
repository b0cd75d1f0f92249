"""No figure comes from work that was not done: each measurement ends in an error if nothing, or too little, was run."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import psycopg
import pytest
from psycopg.rows import TupleRow

from benchmarks import rounds, statement_log, ways
from benchmarks.child import Child, ChildEnded
from benchmarks.costs import MERCURY, SEED, check_simulation
from benchmarks.machine import peak_memory
from benchmarks.rounds import LOOK, Bench, GivenUp, Usage, check_rows, wait_for
from benchmarks.ways import Running, Way
from mercury.postgres.embedded import EmbeddedPostgres


def simulated(**other: int) -> str:
    return json.dumps({"seeds": 2, "messages": 2 * SEED, "requests": 900, "violations": 0, **other})


def test_simulation_that_ran_all_seeds_counts() -> None:
    check_simulation(simulated(), "", 2)


@pytest.mark.parametrize(
    "output",
    [
        "",
        "2 seeds, 200 messages",
        simulated(seeds=1),
        simulated(violations=1),
        simulated(messages=2 * SEED - 1),
        simulated(requests=0),
    ],
)
def test_simulation_that_did_less_gives_no_figure(output: str) -> None:
    with pytest.raises(GivenUp):
        check_simulation(output, "", 2)


def test_command_line_that_is_measured_runs_the_simulation() -> None:
    command = [*MERCURY, "simulate", "--seeds", "1", "--processes", "1", "--output", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    check_simulation(done.stdout, done.stderr, 1)


@pytest.fixture
def sleeper() -> Iterator[Child]:
    child = Child([sys.executable, "-c", "import time; time.sleep(600)"], obeys=False)
    yield child
    child.stop()


def usage(child: Child) -> Usage:
    bench = cast(Bench, SimpleNamespace(postmaster=os.getpid()))
    return Usage(bench, Running(child, {"client": [], "server": [child]}), None, commits=False)


def test_use_of_a_process_that_has_ended_is_not_known(sleeper: Child) -> None:
    measured = usage(sleeper)
    assert measured.end(10)["rows"] == 10
    sleeper.stop()
    with pytest.raises(ChildEnded):
        measured.end(10)


def test_use_of_no_row_is_no_figure(sleeper: Child) -> None:
    with pytest.raises(GivenUp, match="before the measurement began"):
        usage(sleeper).end(0)


def test_memory_of_a_side_without_processes_is_not_asked_for(sleeper: Child) -> None:
    found = usage(sleeper).end(10)["peak_mb"]
    assert isinstance(found, dict)
    assert set(found) == {"client", "server"}
    bench = cast(Bench, SimpleNamespace(postmaster=os.getpid()))
    worker_only = Running(sleeper, {"client": [sleeper], "server": []})
    found = Usage(bench, worker_only, None, commits=False).end(10)["peak_mb"]
    assert isinstance(found, dict)
    assert set(found) == {"client"}


def test_disturbed_round_is_repeated_as_often_as_the_run_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(postgres=cast(EmbeddedPostgres, None), folder=Path(), rows=10, repeats=2, spare=3)
    measured: list[str] = []

    def busy(_bench: Bench, kind: ways.Kind) -> list[dict[str, object]]:
        measured.append(kind.name)
        return [{"foreign_cpus": 1.0}]

    monkeypatch.setattr(rounds, "_measure", busy)
    (kind, *_) = ways.kinds()
    (first,) = rounds.one_round(bench, kind, 0)
    (second,) = rounds.one_round(bench, kind, 1)
    assert (first["attempt"], second["attempt"]) == (3, 2)
    assert first["disturbed"]
    assert second["disturbed"]
    assert len(measured) == 5


def test_descendant_that_is_named_too_counts_once(sleeper: Child) -> None:
    both = peak_memory([os.getpid(), sleeper.pid])
    assert both < peak_memory([os.getpid()]) + peak_memory([sleeper.pid])


def file_with(path: Path, rows: list[tuple[int, str]]) -> Way:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(ways.SQLITE_RECEIVED)
        connection.executemany("insert into received(id, text) values (?, ?)", rows)
        connection.commit()
    return Way(name="file", processes={}, application=[], arrivals=partial(ways._in_memory, False), file=str(path))


WHOLE = "x" * 300


def test_rows_that_came_once_in_order_and_whole_pass(tmp_path: Path) -> None:
    check_rows(file_with(tmp_path / "rows.db", [(1, WHOLE), (2, WHOLE)]), 2)


@pytest.mark.parametrize(
    "rows",
    [
        [(1, WHOLE)],
        [(1, WHOLE), (2, WHOLE), (2, WHOLE)],
        [(2, WHOLE), (1, WHOLE)],
        [(1, WHOLE), (2, "short")],
    ],
    ids=["missing", "twice", "out of order", "short"],
)
def test_rows_that_did_not_come_as_sent_give_no_figure(tmp_path: Path, rows: list[tuple[int, str]]) -> None:
    with pytest.raises(GivenUp):
        check_rows(file_with(tmp_path / "rows.db", rows), 2)


def test_log_without_statements_is_not_taken_for_idle_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statement_log, "_switch", lambda *_: None)
    (tmp_path / "log").write_text("")
    postgres = cast(EmbeddedPostgres, SimpleNamespace(log=tmp_path / "log"))
    with (
        pytest.raises(statement_log.NothingLogged),
        statement_log.logged_statements(postgres, "postgresql:///any_server"),
    ):
        pass


def test_number_that_a_rolled_back_insert_used_is_no_arrived_row(
    postgres_database: Callable[..., str], sleeper: Child
) -> None:
    url = postgres_database()
    ways.make_tables(url, url)
    insert = "insert into received(id, text) values (1, 'text')"
    with ways.connect(url) as connection:
        connection.execute(insert)
        connection.rollback()
        connection.execute(insert)
    with ways._in_postgres(url, "received", Running(sleeper, {"client": [], "server": []})) as arrived:
        assert arrived(2) == 1


def test_looks_for_arrived_rows_start_no_sessions(
    postgres_database: Callable[..., str], sleeper: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each session takes milliseconds of CPU, which the measured processes then do not get."""
    url = postgres_database()
    ways.make_tables(url, url)
    started: list[str] = []
    connect = ways.connect

    def counted(url: str, *, autocommit: bool = False) -> psycopg.Connection[TupleRow]:
        started.append(url)
        return connect(url, autocommit=autocommit)

    monkeypatch.setattr(ways, "connect", counted)
    way = Way(name="looks", processes={}, application=[], arrivals=partial(ways._in_postgres, url, "received"))
    with pytest.raises(GivenUp, match="0 of 1 rows"):
        wait_for(way, Running(sleeper, {"client": [], "server": []}), 1, 10 * LOOK)
    assert started == [url]
