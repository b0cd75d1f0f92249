"""The place of a row that has not arrived, found in two real stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import make_url

from mercury.reconcile import Column, Config, Table, Verdict, Where, reconcile
from mercury.reconcile.differences import current_client_keys, find_differences
from mercury.reconcile.places import Found, Places
from mercury.reconcile.planning import make_plan
from mercury.reconcile.source import Consistency, held
from mercury.reconcile.stores import opened
from mercury.reconcile.verdicts import Judged
from mercury.statemachine.effects import Certainty
from mercury.storage.letters import DeadLetter, Direction
from mercury.storage.opening import open_store
from mercury.storage.records import InboundMessage
from mercury.storage.sql.schema import DECISION, RMS_KEPT
from mercury.testing.contract.builders import NOW, row
from tests.reconcile.shop import ORDERS, RECEIVED, changed, config, fill, keys, orders, received

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mercury.storage.api import StorageManager

ORDER = [f"order:{number}" for number in range(1, 11)]


@dataclass
class Between:
    """Two stores in SQLite files, and what a test puts there."""

    client_url: str
    server_url: str
    client: StorageManager
    server: StorageManager

    def waits(self, correlation: str, message_id: str | None = None, **more: object) -> None:
        with self.client.transaction() as tx:
            tx.rms.append(row(message_id or f"urn:{correlation}", correlation=correlation, **more))

    def transmitted(self, correlation: str, *, acknowledged: bool = False) -> None:
        self.waits(correlation)
        with changed(self.client_url) as connection:
            connection.execute(
                sa.text("update mercury_rms_message set attempts = 2, acknowledged = :a where correlation = :c"),
                {"a": acknowledged, "c": correlation},
            )

    def kept(self, correlation: str) -> None:
        """It was acknowledged, and its row is gone."""
        values = {"message_id": f"urn:{correlation}", "correlation": correlation, "created_at": NOW, "settled_at": NOW}
        with changed(self.client_url) as connection:
            connection.execute(sa.insert(RMS_KEPT).values(values))

    def buffered(self, correlation: str, store: StorageManager | None = None) -> None:
        number = int(correlation.rpartition(":")[2])
        message = InboundMessage(sequence="urn:rmd:1", number=number, message_id=f"urn:{correlation}")
        with (store or self.server).transaction() as tx:
            tx.invoker.add([message])

    def dies(self, store: StorageManager, correlation: str, *, known: bool) -> None:
        letter = DeadLetter(
            id=f"dead {correlation}",
            direction=Direction.INBOUND,
            reason="the handler failed <10> times",
            certainty=Certainty.NOT_DELIVERED,
            dead_at=NOW,
            message_id=f"urn:{correlation}",
            correlation=correlation if known else None,
        )
        with store.transaction() as tx:
            tx.dead_letters.add([letter])

    def decided(self, url: str) -> None:
        """A two-phase commit that is decided, and whose branches are not all finished."""
        values = {"gtrid": "g1", "outcome": "commit", "incarnation": "i1", "branches": "{}", "decided_at": NOW}
        with changed(url) as connection:
            connection.execute(sa.insert(DECISION).values(values))

    def decided_in(self, log: str, gtrid: str, branches: str) -> None:
        """The same, in a decision log of its own."""
        open_store(log).close()
        values = {"gtrid": gtrid, "outcome": "commit", "incarnation": "i1", "branches": branches, "decided_at": NOW}
        with changed(log) as connection:
            connection.execute(sa.insert(DECISION).values(values))

    def ids(self) -> dict[str, str]:
        """The ids of both stores by their side, and one that is neither's."""
        found = {"another": "another"}
        for side, url in (("client", self.client_url), ("server", self.server_url)):
            with changed(url) as connection:
                found[side] = connection.execute(sa.text("select id from mercury_store")).scalar_one()
        return found

    def places(self, correlations: list[str]) -> dict[str, Found]:
        with opened(self.client_url, self.server_url, responses=False) as places:
            return dict(places.of(correlations))


@contextmanager
def prepared_in(url: str, gid: str) -> Iterator[None]:
    """An empty transaction that is prepared in a database, until the block ends."""
    with psycopg.connect(make_url(url).set(drivername="postgresql").render_as_string(False), autocommit=True) as driver:
        driver.execute(f"begin; prepare transaction '{gid}'".encode())
        try:
            yield
        finally:
            driver.execute(f"rollback prepared '{gid}'".encode())


@pytest.fixture
def between(tmp_path: Path) -> Iterator[Between]:
    urls = [f"sqlite:///{tmp_path / name}" for name in ("client.sqlite", "server.sqlite")]
    stores = [open_store(url) for url in urls]
    yield Between(*urls, *stores)
    for store in stores:
        store.close()


def test_a_message_is_found_wherever_it_is_on_its_way(between: Between) -> None:
    between.waits(ORDER[0])
    between.transmitted(ORDER[1])
    between.transmitted(ORDER[2])  # arrived, and the acknowledgement is on its way
    between.buffered(ORDER[2])
    between.kept(ORDER[3])
    between.buffered(ORDER[3])
    between.transmitted(ORDER[4], acknowledged=True)  # waits for its response
    between.buffered(ORDER[4])
    between.dies(between.client, ORDER[5], known=True)
    between.kept(ORDER[6])
    between.dies(between.server, ORDER[6], known=False)
    between.kept(ORDER[7])  # consumed by the application
    assert {name: found.where for name, found in between.places(ORDER).items()} == {
        ORDER[0]: Where.WAITING_IN_RMS,
        ORDER[1]: Where.IN_FLIGHT,
        ORDER[2]: Where.IN_INVOKER_BUFFER,
        ORDER[3]: Where.IN_INVOKER_BUFFER,
        ORDER[4]: Where.IN_INVOKER_BUFFER,
        ORDER[5]: Where.DEAD_LETTER,
        ORDER[6]: Where.DEAD_LETTER,
    }
    reason = "the handler failed <10> times (not delivered; at the destination)"
    assert between.places([ORDER[6]])[ORDER[6]].reason == reason


def test_message_that_a_stage_has_acknowledged_is_not_lost(between: Between, tmp_path: Path) -> None:
    urls = [f"sqlite:///{tmp_path / name}" for name in ("empty.sqlite", "stage.sqlite")]
    empty, stage = (open_store(url) for url in urls)
    for number in range(4):
        between.kept(ORDER[number])
    between.buffered(ORDER[0], stage)
    between.buffered(ORDER[1])  # moved to the store
    between.dies(stage, ORDER[2], known=False)
    with opened(between.client_url, between.server_url, responses=False, stages=urls) as places:
        found = dict(places.of(ORDER[:4]))
    empty.close()
    stage.close()
    assert found == {
        ORDER[0]: Found(Where.IN_INVOKER_BUFFER, "in a stage"),
        ORDER[1]: Found(Where.IN_INVOKER_BUFFER),
        ORDER[2]: Found(Where.DEAD_LETTER, "the handler failed <10> times (not delivered; at a stage)"),
    }


def test_the_nearest_of_several_messages_of_a_row_counts(between: Between) -> None:
    between.dies(between.client, ORDER[0], known=True)
    between.waits(ORDER[0], "urn:again")
    assert between.places([ORDER[0]])[ORDER[0]].where is Where.WAITING_IN_RMS


def test_many_rows_are_read_a_few_at_a_time(between: Between) -> None:
    names = [f"order:{number}" for number in range(1300)]
    for name in names[::100]:
        between.waits(name)
    assert set(between.places(names)) == set(names[::100])


def test_absent_row_is_in_doubt_while_a_commit_of_the_server_is_unfinished(between: Between) -> None:
    between.decided(between.server_url)
    between.waits(ORDER[0])
    found = between.places(ORDER[:2])
    assert (found[ORDER[0]].where, found[ORDER[1]].where) == (Where.WAITING_IN_RMS, Where.IN_DOUBT)
    with opened(between.client_url, between.server_url, responses=False) as places:
        assert any("unfinished" in note for note in places.notes)


@pytest.mark.parametrize(
    ("side", "branches", "expected"),
    [
        pytest.param("server", '{"app": 7}', Where.IN_DOUBT, id="the rows of the server wait"),
        pytest.param("client", '{"store": 7, "app": 8}', Where.IN_DOUBT, id="the messages of the client wait"),
        pytest.param("client", '{"app": 8}', None, id="only the rows of the client wait"),
        pytest.param("another", '{"app": 7}', None, id="it is about another store"),
    ],
)
def test_absent_row_is_in_doubt_while_a_commit_in_the_decision_log_is_unfinished(
    between: Between, tmp_path: Path, side: str, branches: str, expected: Where | None
) -> None:
    stores = between.ids()
    log = f"sqlite:///{tmp_path}/log.sqlite"
    between.decided_in(log, f"mercury:{stores[side]}:i1.1", branches)
    logs = {"source_log": log, "destination_log": log}
    with opened(between.client_url, between.server_url, responses=False, **logs) as places:
        found = places.of(ORDER[:1]).get(ORDER[0])
    assert (found.where if found is not None else None) is expected


@pytest.mark.parametrize(
    ("side", "branch", "expected"),
    [
        pytest.param("server", "app", Where.IN_DOUBT, id="the rows of the server wait"),
        pytest.param("client", "store", Where.IN_DOUBT, id="the messages of the client wait"),
        pytest.param("client", "app", None, id="only the rows of the client wait"),
        pytest.param("another", "app", None, id="it is about another store"),
    ],
)
def test_absent_row_is_in_doubt_while_a_prepared_transaction_has_no_named_decision_log(
    between: Between, postgres_database: Callable[..., str], side: str, branch: str, expected: Where | None
) -> None:
    stores = between.ids()
    application = postgres_database()
    with (
        prepared_in(application, f"mercury:{stores[side]}:i1.1:{branch}"),
        opened(between.client_url, between.server_url, responses=False, tables=[application]) as places,
    ):
        found = places.of(ORDER[:1]).get(ORDER[0])
    assert (found.where if found is not None else None) is expected


def test_without_one_of_the_stores_nothing_is_called_lost(between: Between) -> None:
    between.waits(ORDER[0])
    with opened(between.client_url, None, responses=False) as places:
        found = places.of(ORDER[:2])
    assert (found[ORDER[0]].where, found[ORDER[1]].where) == (Where.WAITING_IN_RMS, Where.UNKNOWN)
    with opened(between.client_url, "memory:", responses=False) as places:
        assert ORDER[1] not in places.of(ORDER[:2])  # the other one is gone, and known to be


def test_responses_are_found_by_the_requests_that_they_answer(between: Between) -> None:
    for name in ORDER[:3]:
        between.kept(name)
    with between.server.transaction() as tx:
        tx.rms.append(row("urn:answer:1", relates_to=f"urn:{ORDER[0]}"))
    with between.client.transaction() as tx:
        tx.invoker.add(
            [InboundMessage(sequence="urn:back", number=1, message_id="urn:answer:2", relates_to=f"urn:{ORDER[1]}")]
        )
    with opened(between.server_url, between.client_url, responses=True) as places:
        found = {name: each.where for name, each in places.of(ORDER[:3]).items()}
    assert found == {ORDER[0]: Where.WAITING_IN_RMS, ORDER[1]: Where.IN_INVOKER_BUFFER}


def test_stores_that_change_meanwhile_are_noted(between: Between) -> None:
    with opened(between.client_url, between.server_url, responses=False) as places:
        assert places.consistency() is Consistency.UNCHANGED
        between.waits(ORDER[0])
        assert places.consistency() is Consistency.NONE


def test_every_missing_row_has_its_place_in_the_result(
    spark: SparkSession, postgres_database: Callable[..., str], tmp_path: Path
) -> None:
    """The stores share the applications' databases, as where one local transaction does both."""
    client, server = postgres_database(), postgres_database()
    sent = orders(60)
    fill(client, ORDERS, sent)
    fill(server, RECEIVED, received(sent[8:]))
    with ExitStack() as stack:
        stores = [open_store(url) for url in (client, server)]
        for store in stores:
            stack.callback(store.close)
        ours = Between(client, server, *stores)
        ours.waits("order:1")
        ours.transmitted("order:2")
        ours.kept("order:3")
        ours.buffered("order:3")
        ours.dies(ours.client, "order:4", known=True)
        ours.waits("order:20")  # delivered, and the acknowledgement has not come yet
        given = config(client, server, client_store=client, server_store=server, correlation="order:{id}")
        given = replace(given, handed_over="paid", out=tmp_path)
        result = reconcile(given, spark=spark)
    known = {each.key: each.where for each in result.listed[Verdict.MISSING]}
    nowhere = {str(each["id"]): Where.LOST if each["paid"] else Where.NOT_HANDED_OVER for each in sent[4:8]}
    assert known == {
        "1": Where.WAITING_IN_RMS,
        "2": Where.IN_FLIGHT,
        "3": Where.IN_INVOKER_BUFFER,
        "4": Where.DEAD_LETTER,
        **nowhere,
    }
    assert set(nowhere.values()) == {Where.LOST, Where.NOT_HANDED_OVER}
    assert result.as_json()["missing"]["dead_letter"] == 1
    assert keys(result, Verdict.MISSING) == {str(number) for number in range(1, 9)}
    assert result.delivered == 52
    assert "the handler failed &lt;10&gt; times" in (tmp_path / "report.html").read_text()


# --- what came after the client's snapshot ---------------------------------------------------------------------------


class Nowhere:
    """A fake: it knows the messages that it was given."""

    notes = ()

    def __init__(self, **known: Found) -> None:
        self.known = known
        self.asked: list[str] = []

    def of(self, correlations: list[str], /) -> dict[str, Found]:
        self.asked += correlations
        return {each: self.known[each] for each in correlations if each in self.known}

    def consistency(self) -> Consistency:
        return Consistency.SNAPSHOT


def test_rows_that_are_newer_than_the_clients_snapshot_are_not_unexpected(
    postgres_database: Callable[..., str],
) -> None:
    client, server = postgres_database(), postgres_database()
    sent = orders(5)
    fill(client, ORDERS, sent[:3])
    fill(server, RECEIVED, [])
    given = config(client, server)
    with held(client, "orders", None) as ours, held(server, "received_orders", None) as theirs:
        plan, *_ = make_plan(given, ours, theirs, 2)
        with changed(client) as connection:
            connection.execute(sa.insert(ORDERS), sent[3:4])
        judged = [Judged(key=(key,), verdict=Verdict.UNEXPECTED, client_count=0, server_count=1) for key in ("4", "5")]
        judged.append(
            Judged(key=("1",), verdict=Verdict.MISSING, client_count=1, server_count=0, correlation="order:1")
        )
        places: Places = Nowhere()
        found = list(
            find_differences(judged, plan=plan, places=places, runs=(), current_keys=current_client_keys(plan))
        )
    assert found[0] is None
    assert [(each.key, each.verdict, each.where) for each in found if each is not None] == [
        ("5", Verdict.UNEXPECTED, None),
        ("1", Verdict.MISSING, Where.LOST),
    ]


@dataclass(frozen=True)
class Newer:
    """A client's table, rows that are added to it after its snapshot, their keys, and one that it never has."""

    columns: str
    rows: str
    keys: tuple[tuple[str | None, ...], ...]
    never: tuple[str | None, ...]
    server: str = ""
    #: Of the first column.
    scale: int | None = None
    zone: str = "UTC"
    sqlite: bool = False


NEWER = {
    "integer": Newer("a bigint", "(4), (5000000000)", (("4",), ("5000000000",)), ("7",)),
    "decimal": Newer("a numeric", "(9.90), (4), (2e19)", (("9.9",), ("4",), (f"2{'0' * 19}",)), ("-9.9",)),
    "decimal and none": Newer("a numeric", "(9.90), (4)", (("9.9",), ("4",)), ("NaN",)),
    "decimal of an integer": Newer("a bigint", "(4)", (("4",),), ("4.5",), server="a numeric"),
    "rounded decimal": Newer("a numeric", "(9.94)", (("9.9",),), ("9.8",), scale=1),
    "date": Newer("a date", "('2026-07-01')", (("2026-07-01",),), ("2026-07-02",)),
    "time": Newer(
        "a timestamptz", "('2026-07-01 12:00:00.5+00')", (("2026-07-01T12:00:00.5Z",),), ("2026-07-01T12:00:00Z",)
    ),
    "time without a zone": Newer(
        "a timestamp", "('2026-07-01 14:00')", (("2026-07-01T12:00:00Z",),), ("infinity",), zone="Europe/Berlin"
    ),
    "rounded time": Newer(
        "a timestamp", "('2026-07-01 11:59:59.6')", (("2026-07-01T12:00:00Z",),), ("2026-07-01T11:59:59Z",), scale=0
    ),
    "uuid": Newer(
        "a uuid", "('00112233-4455-6677-8899-AABBCCDDEEFF')",
        (("00112233-4455-6677-8899-aabbccddeeff",),), ("00112233-4455-6677-8899-aabbccddeefe",),
    ),
    "date and integer as texts": Newer("a date", "('2026-07-01')", (("2026-07-01",),), ("7",), server="a integer"),
    "no condition for the first column": Newer(
        "a boolean, b numeric", "(true, 9.9)", (("true", "9.9"),), ("false", "9.9")
    ),
    "null in the first column": Newer(
        "a text, b integer", "(null, 4), ('x', 4)", ((None, "4"), ("x", "4")), (None, "5")
    ),
    "decimal of SQLite": Newer(
        "a numeric", "(9.90), (4), (9007199254740993)", (("9.9",), ("4",), ("9007199254740993",)), ("-9.9",),
        sqlite=True,
    ),
    "date of SQLite": Newer("a date", "('2026-07-01')", (("2026-07-01",),), ("2026-07-02",), sqlite=True),
}  # fmt: skip


@pytest.mark.parametrize("newer", NEWER.values(), ids=list(NEWER))
def test_newer_rows_are_found_by_keys_of_each_kind(
    postgres_database: Callable[..., str], tmp_path: Path, newer: Newer
) -> None:
    (tmp_path / "client.db").touch()
    client = f"sqlite:///{tmp_path / 'client.db'}" if newer.sqlite else postgres_database()
    server = postgres_database()
    for url, columns in ((client, newer.columns), (server, newer.server or newer.columns)):
        with changed(url) as connection:
            connection.execute(sa.text(f"create table t ({columns})"))
    names = [column.split()[0] for column in newer.columns.split(", ")]
    key = [Column(client=name, server=name) for name in names]
    key[0] = replace(key[0], scale=newer.scale, client_zone=newer.zone)
    given = Config(client=Table(url=client, name="t"), server=Table(url=server, name="t"), key=tuple(key), compare=())
    with held(client, "t", None) as ours, held(server, "t", None) as theirs:
        plan, *_ = make_plan(given, ours, theirs, 2)
    with changed(client) as connection:
        connection.execute(sa.text(f"insert into t values {newer.rows}"))
    assert current_client_keys(plan)([*newer.keys, newer.never]) == set(newer.keys)


@pytest.mark.parametrize(("client_type", "server_type"), [("text", "integer"), ("text", "text"), ("integer", "text")])
def test_newer_rows_are_found_by_keys_that_one_side_stores_as_texts(
    postgres_database: Callable[..., str], client_type: str, server_type: str
) -> None:
    """Otherwise the comparison would end in the database's error, or report rows that the client has by now."""
    urls = postgres_database(), postgres_database()
    for url, its in zip(urls, (client_type, server_type), strict=True):
        with changed(url) as connection:
            connection.execute(sa.text(f"create table t (id {its})"))
    client, server = (Table(url=url, name="t") for url in urls)
    given = Config(client=client, server=server, key=(Column(client="id", server="id"),), compare=())
    with held(urls[0], "t", None) as ours, held(urls[1], "t", None) as theirs:
        plan, *_ = make_plan(given, ours, theirs, 2)
        with changed(urls[0]) as connection:
            connection.execute(sa.text("insert into t values ('4')"))
        judged = [Judged(key=(key,), verdict=Verdict.UNEXPECTED, client_count=0, server_count=1) for key in ("4", "5")]
        current = current_client_keys(plan)
        found = list(find_differences(judged, plan=plan, places=Nowhere(), runs=(), current_keys=current))
    assert [each and each.key for each in found] == [None, "5"]
