"""`mercury demo`: orders from one database to another, while processes are killed and the network fails.

The demonstration's own result is compared with the content of both tables, read by plain SQL.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, text

from mercury.postgres.embedded import EmbeddedPostgres
from samples.queued_transaction.demo.kills import Victim, plan
from samples.queued_transaction.demo.main import folder
from samples.queued_transaction.demo.options import Mode, Options, Store
from samples.queued_transaction.demo.rows import orders
from tests.acceptance.processes import MERCURY, Ended, Running, each, environment, eventually, mercury

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc to find processes in")

#: Seconds: for four runs on a busy machine.
PATIENCE = 600.0

ORDERS, KILLS = 24, 2


@dataclass(frozen=True)
class Truth:
    """The result according to the tables, by SQL alone."""

    delivered: int
    lost: int
    duplicated: int
    altered: int
    out_of_order: int
    confirmations: int
    in_doubt: int


def demo(*options: str, **settings: str) -> Ended:
    ended = subprocess.run(
        [MERCURY, "demo", *options, "--output", "json"],
        env=environment(settings),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def ask(connection: Connection, query: str) -> int:
    return int(connection.execute(text(query)).scalar_one())


def truth(databases: dict[str, str]) -> Truth:
    """Copy the server's rows into the client's database, and count the differences there."""
    client, server = create_engine(databases["client"]), create_engine(databases["server"])
    with client.connect() as here, server.connect() as there:
        columns = "customer, placed_on, amount, express, deliver_after, note, body"
        received = there.execute(text(f"select arrival, order_number, {columns} from received_orders")).mappings().all()
        here.execute(
            text(f"create temporary table got as select 0::bigint arrival, number, {columns} from orders limit 0")
        )
        places = ", ".join(f":{name.strip()}" for name in columns.split(","))
        if received:
            here.execute(text(f"insert into got values (:arrival, :order_number, {places})"), list(map(dict, received)))
        found = Truth(
            delivered=ask(here, "select count(distinct number) from got"),
            lost=ask(here, "select count(*) from orders where number not in (select number from got)"),
            duplicated=ask(here, "select count(*) from (select 1 from got group by number having count(*) > 1) twice"),
            altered=ask(
                here,
                f"select count(*) from (select number, {columns} from got"
                f" except select number, {columns} from orders) x",
            ),
            # First arrivals only: what comes again comes late.
            out_of_order=ask(
                here,
                "select count(*) from (select number, lag(number) over (order by min(arrival)) before from got"
                " group by number) x where before > number",
            ),
            confirmations=ask(here, "select count(distinct order_number) from confirmations"),
            in_doubt=ask(here, "select count(*) from pg_prepared_xacts"),
        )
    client.dispose()
    server.dispose()
    return found


def of(value: dict[str, Any]) -> Truth:
    """The demonstration's own result."""
    names = ("delivered", "lost", "duplicated", "altered", "out_of_order", "confirmations")
    return Truth(**{name: value[name] for name in names}, in_doubt=value["prepared_left"])


# --- all four stores, and another run beside them ------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs() -> Iterator[dict[str, Ended]]:
    """A run with all four stores, and another one in parallel; their files are removed."""
    small = ("--orders", str(ORDERS), "--kills", str(KILLS), "--keep")
    cases = {
        "compare": ("--compare", "--mode", "in-out", "--seed", "7", *small),
        "beside": ("--store", "same-db", "--mode", "in-only", "--seed", "8", *small),
    }
    with temporary_folder() as folder:
        try:
            yield dict(each(cases, lambda name: demo(*cases[name], TMPDIR=str(folder))))
        finally:
            for server in folder.glob("*/work/pg"):
                EmbeddedPostgres(server).stop()


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A temporary folder with a short path that the server's user can enter."""
    folder = Path(tempfile.mkdtemp(prefix="mercury-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def short(ended: Ended) -> str:
    """The end of a demonstration's output, for a failure's message."""
    try:
        values = ended.value if isinstance(ended.value, list) else [ended.value]
    except json.JSONDecodeError:
        return ended.out + ended.err
    left_out = ("report", "folder", "databases")
    return "\n".join(str({name: value[name] for name in value if name not in left_out}) for value in values)


def value_of(runs: dict[str, Ended], store: str) -> dict[str, Any]:
    ended = runs["compare"]
    assert (ended.code, ended.err) == (0, ""), short(ended)
    (found,) = [value for value in ended.value if value["store"] == store]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("store", ["memory", "sql", "same-db", "xa"])
def test_report_of_a_run_agrees_with_the_tables(store: str, runs: dict[str, Ended]) -> None:
    value = value_of(runs, store)
    assert of(value) == truth(value["databases"])
    assert (value["store"], value["mode"], value["orders"]) == (store, "in-out", ORDERS)
    assert value["seconds"] > 0
    assert value["retransmissions"] > 0


@pytest.mark.parametrize("store", ["same-db", "xa"])
def test_orders_arrive_exactly_once_and_in_order_though_processes_are_killed(
    store: str, runs: dict[str, Ended]
) -> None:
    value = value_of(runs, store)
    assert truth(value["databases"]) == Truth(ORDERS, 0, 0, 0, 0, confirmations=ORDERS, in_doubt=0)
    assert (value["kills"], value["verdict"], value["as_guaranteed"]) == (KILLS, "exactly once", True)


def test_messages_in_memory_are_lost_with_their_process(runs: dict[str, Ended]) -> None:
    value = value_of(runs, "memory")
    assert truth(value["databases"]).lost > 0
    assert value["kills_between_commits"] > 0
    assert "loses" in value["verdict"]
    assert value["as_guaranteed"]


def test_with_two_commits_an_order_is_lost_at_the_client_and_repeated_at_the_server(runs: dict[str, Ended]) -> None:
    value = value_of(runs, "sql")
    found = truth(value["databases"])
    assert (found.lost, found.duplicated) != (0, 0)
    assert value["kills_between_commits"] >= 2
    assert value["verdict"] == "loses and repeats"
    assert value["as_guaranteed"]


def test_another_run_beside_it_does_not_disturb_it(runs: dict[str, Ended]) -> None:
    beside = runs["beside"]
    assert (beside.code, beside.err) == (0, ""), short(beside)
    value = beside.value
    assert truth(value["databases"]) == Truth(ORDERS, 0, 0, 0, 0, confirmations=0, in_doubt=0)
    others = {
        url for store in ("memory", "sql", "same-db", "xa") for url in value_of(runs, store)["databases"].values()
    }
    assert others.isdisjoint(value["databases"].values())


def test_the_report_is_there(runs: dict[str, Ended]) -> None:
    reports = [value_of(runs, store)["report"] for store in ("memory", "sql", "same-db", "xa")]
    assert len(set(reports)) == 4
    for report in reports:
        assert "received_orders" in Path(report).read_text()


# --- one's own servers ---------------------------------------------------------------------------------------------


def test_servers_that_are_named_are_used_and_left_as_they_were(
    postgres_database: Callable[..., str], tmp_path: Path
) -> None:
    url = postgres_database()

    def names() -> set[str]:
        engine = create_engine(url)
        with engine.connect() as connection:
            found = set(
                connection.execute(text("select datname from pg_database where datname like 'demo%'")).scalars()
            )
        engine.dispose()
        return found

    before = names()
    ended = demo(
        *("--store", "xa", "--orders", "10", "--kills", "0", "--loss", "0", "--duplicate", "0"),
        *("--client-postgres", url, "--server-postgres", url, "--out", str(tmp_path)),
    )
    assert (ended.code, ended.err) == (0, "")
    assert (ended.value["delivered"], ended.value["verdict"], ended.value["kills"]) == (10, "exactly once", 0)
    assert ended.value["report"] == str(tmp_path / "report.html")
    assert "databases" not in ended.value
    assert names() == before


# --- the end -------------------------------------------------------------------------------------------------------


def marked(mark: str) -> list[str]:
    """The processes that have a given variable in their environment, with their command lines."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"MARK={mark}\0".encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_it_leaves_nothing_behind_when_it_is_interrupted(number: signal.Signals, tmp_path: Path) -> None:
    mark = tmp_path.name
    with temporary_folder() as folder:
        with Running(MERCURY, "demo", "--output", "json", MARK=mark, TMPDIR=str(folder)) as running:
            eventually(lambda: any("queued_transaction.client" in line for line in marked(mark)), "the client runs")
            running.signal(number)
            eventually(lambda: not any("queued_transaction.client" in line for line in marked(mark)), "it is ended")
            running.signal(number)  # nervous
            ended = running.ends()
        assert (ended.code, ended.out, ended.err) == (130, "", "")
        assert marked(mark) == []
        assert list(folder.iterdir()) == []


WRONG = {
    ("--store", "oracle"): "'oracle' is not one of",
    ("--mode", "out"): "'out' is not one of",
    ("--orders", "0"): "--orders",
    ("--kills", "-1"): "--kills",
    ("--loss", "0.6", "--duplicate", "0.6"): "a tenth of the requests",
    ("--client-postgres", "mysql://localhost/x"): "--client-postgres: not a PostgreSQL database",
    ("--client-postgres", "postgresql://127.0.0.1:1/x", "--server-postgres", "postgresql://127.0.0.1:1/x"): "refused",
}


def test_options_that_make_no_sense_are_refused() -> None:
    for options, ended in each(WRONG, lambda options: mercury("demo", *options)):
        assert (ended.code, ended.out) == (2, ""), ended
        assert WRONG[options] in " ".join(ended.err.split()), ended


# --- kills and rows ------------------------------------------------------------------------------------------------


def options(store: Store, orders: int, kills: int, seed: int) -> Options:
    return Options(
        store=store,
        mode=Mode.IN_ONLY,
        orders=orders,
        kills=kills,
        loss=0.1,
        duplicate=0.1,
        seed=seed,
        keep=False,
        client_postgres=None,
        server_postgres=None,
        out=None,
    )


@pytest.mark.parametrize("store", Store)
@pytest.mark.parametrize("kills", [0, 1, 2, 6, 20])
def test_kills_fall_while_there_is_work_and_hit_both_sides(store: Store, kills: int) -> None:
    for seed in range(50):
        found = plan(options(store, 100, kills, seed))
        assert found == plan(options(store, 100, kills, seed))
        assert len(found) == kills
        assert [kill.after for kill in found] == sorted(kill.after for kill in found)
        assert all(0 <= kill.after < 90 for kill in found)
        victims = Counter(kill.victim for kill in found)
        assert kills == 0 or victims[Victim.CLIENT] > 0
        assert kills < 2 or victims[Victim.SERVER] > 0
        between = {kill.victim for kill in found if kill.between_commits}
        assert between == (set(victims) if store.two_commits else set())


def test_there_are_more_kills_than_orders() -> None:
    assert len(plan(options(Store.XA, 1, 5, 0))) == 5


def test_the_same_seed_gives_the_same_orders_and_they_are_unpleasant() -> None:
    rows = list(orders(7, 300))
    assert rows == list(orders(7, 300))
    assert rows != list(orders(8, 300))
    assert [row["number"] for row in rows] == list(range(1, 301))
    sizes = [len(row["body"]) for row in rows]
    assert min(sizes) < 200
    assert max(sizes) > 80_000
    for name in ("express", "deliver_after", "note"):
        assert any(row[name] is None for row in rows)
    assert not all(row["customer"].isascii() for row in rows)
    assert json.dumps([row["note"] for row in rows]).count("\\r")


def test_reports_of_earlier_stores_stay_where_it_said_when_a_later_run_breaks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    options = Options(
        store=Store.XA,
        mode=Mode.IN_ONLY,
        orders=10,
        kills=0,
        loss=0.0,
        duplicate=0.0,
        seed=1,
        keep=False,
        client_postgres=None,
        server_postgres=None,
        out=None,
    )
    with pytest.raises(KeyboardInterrupt), folder(options) as (work, out):
        told = out / "memory" / "report.html"
        told.parent.mkdir(parents=True)
        told.write_text("all is well")
        raise KeyboardInterrupt
    assert told.exists()
    assert not work.exists()
