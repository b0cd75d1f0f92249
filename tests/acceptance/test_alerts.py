"""Every alert rule fires in the condition that it is for, and not before. Those about two-phase commits are tested in
tests/xa/test_alerts.py."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from mercury import Mercury, MessageContext, Service
from mercury.engine.events import Event, StoreRefused
from mercury.engine.metrics_settings import MetricsSettings
from mercury.settings import Settings
from mercury.statemachine.policy import SourcePolicy
from mercury.statemachine.retransmission import RetransmissionPolicy
from mercury.storage.gauges import MOST_ROWS
from mercury.testing import Pair
from mercury.testing.contract.builders import row
from tests.acceptance.app import Note
from tests.acceptance.processes import eventually
from tests.acceptance.test_stores import POLICY, Desk
from tests.alerts import GAUGE, GROWTH, MINUTES, alerts, firing, scraped, seen
from tests.docs.monitoring import rules
from tests.ports import free_port

METRICS = MetricsSettings(enabled=True, interval=0.0)
SETTINGS = Settings(metrics=METRICS, source=SourcePolicy(batch=1))
EVERY_SECOND = RetransmissionPolicy(base=1.0, factor=1.0, cap=1.0, jitter=0.0)
GIVES_UP = SourcePolicy(batch=1, retransmission=RetransmissionPolicy(base=1.0, jitter=0.0, max_attempts=2))


def notes(handle: Callable[[MessageContext], None] = lambda context: None) -> Service:
    service = Service("notes")

    @service.operation("Note")
    def note(context: MessageContext, body: bytes) -> None:
        handle(context)

    return service


def fail(context: MessageContext) -> None:
    raise LookupError("no such customer")


def send(pair: Pair, count: int = 1, operation: str = "Note", **options: object) -> None:
    sender = pair.to(**options)
    for number in range(count):
        sender.send(f"<note>{number}</note>", operation=operation)


def test_every_rule_has_a_form_that_can_be_evaluated() -> None:
    for rule in rules():
        assert GAUGE.fullmatch(rule.expression) or GROWTH.fullmatch(rule.expression), rule.name
        assert rule.lasts in MINUTES


def test_every_rule_is_provoked_by_a_test() -> None:
    folder = Path(__file__).parents[1]
    stories = "".join(
        (folder / name).read_text(encoding="utf-8") for name in ("acceptance/test_alerts.py", "xa/test_alerts.py")
    )
    assert [rule.name for rule in rules() if f'alerts("{rule.name}"' not in stories] == []


def test_quiet_pair_fires_no_alert() -> None:
    pair = Pair(notes(), settings=SETTINGS)
    before = {node: seen(node) for node in (pair.client, pair.server)}
    send(pair, 3)
    pair.run()
    for node, first in before.items():
        after = scraped(seen(node))
        assert [rule.name for rule in rules() if firing(rule, scraped(first), after)] == []


def test_message_to_a_server_that_is_down_is_not_acknowledged() -> None:
    pair = Pair(notes(), settings=SETTINGS)
    pair.server.kill()
    send(pair)
    pair.advance(590)
    before = seen(pair.client)
    assert not alerts("MercuryNotAcknowledged", before, before)
    pair.advance(20)
    assert alerts("MercuryNotAcknowledged", before, seen(pair.client)) == 1


def test_sequence_that_is_given_up_fails_and_leaves_dead_letters() -> None:
    pair = Pair(notes(), settings=SETTINGS)
    before = seen(pair.client)
    pair.server.kill()
    send(pair, 2, policy=GIVES_UP)
    pair.advance(60)
    after = seen(pair.client)
    assert alerts("MercurySequenceFailed", before, after) == 1
    assert alerts("MercuryDeadLetters", before, after) == 1
    assert alerts("MercuryDeadLettersWait", before, after) == 1


def test_other_store_that_answers_for_a_destination_is_critical(tmp_path: Path) -> None:
    first, second = (Desk(f"sqlite:///{tmp_path}/{name}.db") for name in ("first", "second"))
    with ExitStack() as stack:
        client = stack.enter_context(Mercury("memory:", settings=Settings(metrics=METRICS)))
        endpoint = first.start()
        stack.callback(second.stop)
        stack.callback(first.stop)
        client.to(endpoint).send(Note("1"))
        eventually(lambda: first.handled == ["1"], "the destination has a store")
        before = seen(client)
        refused: list[Event] = []
        client.subscribe(refused.append, StoreRefused)
        first.stop()
        second.start(first.port)  # the address leads to another server now
        client.to(endpoint, key="other", policy=POLICY).send(Note("2"))
        eventually(lambda: refused, "the other store is refused")
        eventually(lambda: alerts("MercuryStoreRefused", before, seen(client)) == 1, "it is counted")


def test_messages_that_the_network_loses_are_sent_again() -> None:
    pair = Pair(notes(), settings=SETTINGS)
    before = seen(pair.client)
    pair.wire.lose("message *", 160)
    send(pair, 40, policy=SourcePolicy(batch=1, retransmission=EVERY_SECOND))
    pair.run()
    assert alerts("MercuryRetransmissions", before, seen(pair.client)) == 1


def test_message_with_an_unknown_action_is_refused() -> None:
    pair = Pair(notes(), settings=SETTINGS)
    before = seen(pair.client)
    send(pair, operation="Unknown")
    pair.advance(5)
    assert alerts("MercuryMessagesRefused", before, seen(pair.client)) == 1


def test_handler_that_always_fails_delivers_nothing() -> None:
    pair = Pair(notes(fail), settings=SETTINGS)
    before = seen(pair.server)
    send(pair)
    pair.advance(60)
    assert alerts("MercuryHandlerFails", before, seen(pair.server)) == 1
    assert not alerts("MercuryNotDelivered", before, seen(pair.server))
    pair.advance(600)
    assert alerts("MercuryNotDelivered", before, seen(pair.server)) == 1


def test_message_that_is_missing_is_a_gap() -> None:
    pair = Pair(notes(), settings=SETTINGS)
    before = seen(pair.server)
    pair.wire.hold("message 1", 100)
    send(pair, 3)
    pair.advance(1)
    assert alerts("MercurySequenceGap", before, seen(pair.server)) == 1


def test_more_messages_than_are_counted_are_a_backlog() -> None:
    pair = Pair(notes(), settings=SETTINGS)
    before = seen(pair.client)
    with pair.client.transaction() as tx:
        for number in range(MOST_ROWS + 1):
            tx.rms.append(row(f"urn:message:{number}"))
    assert alerts("MercuryBacklog", before, seen(pair.client)) == 1


def test_store_that_cannot_be_queried_is_down(tmp_path: Path) -> None:
    mercury = Mercury(f"sqlite:///{tmp_path}/store.db", settings=Settings(metrics=METRICS))
    try:
        before = seen(mercury)
        assert not alerts("MercuryStoreDown", before, before)
        with sqlite3.connect(tmp_path / "store.db") as connection:
            connection.execute("drop table mercury_dead_letter")
        connection.close()
        assert alerts("MercuryStoreDown", before, seen(mercury)) == 1
    finally:
        mercury.stop()


def test_process_that_was_stopped_does_not_run() -> None:
    mercury = Mercury("memory:", settings=Settings(metrics=METRICS))
    with mercury:
        running = seen(mercury)
        assert not alerts("MercuryNotRunning", running, running)
    assert alerts("MercuryNotRunning", running, seen(mercury)) == 1


def test_exchanges_with_an_address_where_nothing_listens_fail() -> None:
    policy = SourcePolicy(retransmission=RetransmissionPolicy(base=0.01, factor=1.0, cap=0.01))
    with Mercury("memory:", settings=Settings(metrics=METRICS)) as mercury:
        before = seen(mercury)
        sender = mercury.to(f"http://127.0.0.1:{free_port()}/services/notes", policy=policy)
        sender.send(b"<note/>", operation="Note")
        eventually(lambda: alerts("MercuryExchangesFail", before, seen(mercury)) == 1, "more than ten exchanges fail")
