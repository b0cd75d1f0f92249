"""An operator ends one sequence, and the process that does it comes later: the key may go on in another one by then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.engine.source.apply_effects import handle_rms, save_rms
from mercury.operations.acting import NotPossible
from mercury.operations.restarting import InDoubt
from mercury.statemachine import events
from mercury.statemachine.messages import EndpointReference
from mercury.statemachine.rms_table import RmsState
from mercury.storage.records import OutboundKind, OutboundMessage
from mercury.storage.searching import SequenceFilter

from .pair import ACTION, ANSWERED, ASK, Pair, channel
from .test_operator_actions import ADA, LATER, SUCCESSOR, acting, actions, only, succeed
from .test_operator_reads import NOW, pair, stores, urls

__all__ = ["pair", "stores", "urls"]

LISTENING = EndpointReference("http://client.example/responses")


def order(number: int) -> str:
    return f"<order>{number}</order>"


def states(pair: Pair) -> list[str]:
    return [each.seen for each in acting(pair.client.store).sequences.page(SequenceFilter(source=True)).items]


def ends_in_store(pair: Pair) -> list[OutboundKind]:
    with pair.client.store.transaction() as tx:
        keys = {record.channel.key for record in tx.rms.all()}
        tx.rms.lock(keys)
        rows = [row for key in keys for row in tx.rms.unnumbered(key, 100)]
    return [row.kind for row in rows if row.kind is not OutboundKind.MESSAGE]


@pytest.mark.parametrize("action", ["close", "terminate"])
@pytest.mark.parametrize("window", [1000, 1])
def test_a_sequence_that_failed_meanwhile_is_not_ended_in_its_successor(pair: Pair, action: str, window: int) -> None:
    pair.send(["1"], window=window)
    pair.run(NOW)
    pair.send(["2", "3"], window=window)
    client = acting(pair.client.store)
    name = only(client, source=True)
    getattr(client.sequence_actions, action)(name, ADA)
    client.sequence_actions.restart(name, ADA, in_doubt=InDoubt.RESEND)
    pair.client.turn(LATER)  # what it posts is lost
    assert OutboundKind.ABANDON not in ends_in_store(pair), "it would make its key due at every look"
    pair.run(LATER + 10)
    assert pair.server.handled == [order(number) for number in (1, 2, 3)]
    assert client.letters.page().items == ()
    assert states(pair) == ["ended", "open"]
    assert ends_in_store(pair) == []


def ask(pair: Pair, text: str) -> OutboundMessage:
    """A request whose response is posted to an address."""
    row = OutboundMessage(
        message_id=pair.client.ids.new(),
        channel=replace(channel(), reply_to=LISTENING),
        action=ASK,
        expects_response=True,
        callback=ANSWERED,
        payload=order(int(text)).encode(),
    )
    with pair.client.store.transaction() as tx:
        tx.rms.append(row)
    return row


def wait_for_response(pair: Pair) -> None:
    """Let a sequence end as soon as the response to its only request has come."""
    request = ask(pair, "1")
    with pair.client.store.transaction() as tx:
        tx.rms.append(OutboundMessage(message_id="urn:end", channel=request.channel, kind=OutboundKind.END))
    pair.client.turn(NOW)
    with pair.client.store.transaction() as tx:
        (old,) = tx.rms.all()
        tx.rms.lock([old.channel.key])
        machine, policy = old.machine, old.channel.policy
        machine.handle(events.Created(identifier="urn:old"), NOW, policy)
        machine.handle(events.Transmitted(1), NOW, policy)
        machine.handle(events.Acknowledged(((1, 1),)), NOW, policy)
        tx.rms.acknowledge(old, ((1, 1),))
        save_rms(tx, old)
        assert (machine.state, machine.unanswered) == (RmsState.ENDING, 1)


def test_a_sequence_that_waits_for_responses_is_terminated_although_its_successor_begins_first(pair: Pair) -> None:
    wait_for_response(pair)
    with pair.client.store.transaction() as tx:
        (old,) = tx.rms.all()
        tx.rms.append(
            OutboundMessage(message_id="urn:2", channel=old.channel, action=ACTION, payload=b"<order>2</order>")
        )
    client = acting(pair.client.store)
    client.sequence_actions.terminate("urn:old", ADA)
    pair.client.turn(LATER)
    with pair.client.store.transaction() as tx:
        old, new = tx.rms.all()
    assert (old.machine.abandoned, new.machine.abandoned, new.machine.alive) == (True, False, True)
    assert client.letters.page().items == ()


def hold(pair: Pair) -> str:
    """Let a message wait for its time. Returns the id of what holds it: another one at every look."""
    with pair.client.store.transaction() as tx:
        later = OutboundMessage(message_id="urn:1", channel=channel(), action=ACTION, not_before=NOW + 60)
        tx.rms.append(replace(later, payload=b"<order>1</order>"))
    pair.client.turn(NOW)
    with pair.client.store.transaction() as tx:
        (record,) = tx.rms.all()
    assert record.machine.state is RmsState.NEW
    return record.id


def test_a_key_of_which_only_the_messages_wait_for_their_time_is_terminated(pair: Pair) -> None:
    client = acting(pair.client.store)
    client.sequence_actions.terminate(hold(pair), ADA)
    pair.client.turn(NOW)
    assert [each.message_id for each in client.letters.page().items] == ["urn:1"]


def test_a_key_of_which_only_the_messages_wait_for_their_time_is_closed_behind_them(pair: Pair) -> None:
    acting(pair.client.store).sequence_actions.close(hold(pair), ADA)
    pair.run(NOW + 61)
    assert (pair.server.handled, states(pair)) == ([order(1)], ["ended"])


def test_a_sequence_is_terminated_although_its_creation_was_begun_anew(pair: Pair) -> None:
    pair.send(["1"])
    pair.client.turn(NOW)
    client = acting(pair.client.store)
    client.sequence_actions.terminate(only(client, source=True), ADA)
    with pair.client.store.transaction() as tx:
        (record,) = tx.rms.all()
        tx.rms.lock([record.channel.key])
        handle_rms(tx, pair.client.engine._context, record, events.IdentifierTaken(), NOW)
        save_rms(tx, record)
    pair.run(LATER)
    assert pair.server.handled == []
    (letter,) = client.letters.page().items
    assert letter.correlation == "order:1"


def test_a_refusal_says_truly_when_the_sequence_ends(pair: Pair) -> None:
    name = succeed(pair)
    client = acting(pair.client.store)
    with pytest.raises(NotPossible, match=r"it ends when 1 response has come\. If none comes, an operator gives it up"):
        client.sequence_actions.terminate(name, ADA)
    client.sequence_actions.restart(name, ADA)
    assert states(pair) == ["ended", "open"], f"the successor {SUCCESSOR} goes on"
    (letter,) = client.letters.page().items
    assert letter.correlation == "order:1"
    assert actions(client) == [("restart", "ada")]


def test_a_refusal_promises_an_end_only_if_nothing_is_waited_for(pair: Pair) -> None:
    name = succeed(pair)
    with pair.client.store.transaction() as tx:
        old, _ = tx.rms.all()
        tx.rms.lock([old.channel.key])
        old.machine.handle(events.ResponseStored(1), NOW, old.channel.policy)
        tx.rms.save(old)
    with pytest.raises(NotPossible, match="its end is being sent, and it ends by itself"):
        acting(pair.client.store).sequence_actions.close(name, ADA)
