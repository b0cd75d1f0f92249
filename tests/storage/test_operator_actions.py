"""What an operator does to a store: it takes effect, is written to the audit with it, and is undone by its reverse."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.operations.acting import Changed, NotPossible
from mercury.operations.ending import left_of
from mercury.operations.operator import Operations
from mercury.operations.restarting import InDoubt
from mercury.statemachine.effects import Certainty
from mercury.statemachine.rms import RMSSequence
from mercury.storage.audit import Actor, AuditFilter, Via
from mercury.storage.claims import FOREVER
from mercury.storage.letters import Direction
from mercury.storage.maintenance import Pauses
from mercury.storage.records import RmsRecord
from mercury.storage.searching import MessageFilter, SequenceFilter
from mercury.storage.sql.reads.sequences import source_page
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.transaction import SqlTransaction

from .pair import URL, Pair
from .test_dead_letters import add_letters, inbound, outbound
from .test_operator_reads import NOW, pair, refuse, stores, urls

__all__ = ["pair", "stores", "urls"]

ADA = Actor("ada", Via.CLI)
LATER = NOW + 1.0
#: The identifier of a sequence.
SUCCESSOR = "urn:successor"


def acting(store: object, now: float = NOW) -> Operations:
    assert isinstance(store, SqlStore)
    return Operations(store, lambda: now)


def only(operations: Operations, *, source: bool) -> str:
    (line,) = operations.sequences.page(SequenceFilter(source=source)).items
    return line.id


def actions(operations: Operations) -> list[tuple[str, str]]:
    return [(each.action, each.actor) for each in operations.audit().items]


# --- suspended sequences ---------------------------------------------------------------------------------------------


def test_a_suspended_source_sends_nothing_until_it_is_resumed(pair: Pair) -> None:
    pair.send(["1"])
    pair.run(NOW)
    client = acting(pair.client.store)
    name = only(client, source=True)
    client.sequence_actions.suspend(name, ADA, reason="the other side is being moved")
    pair.send(["2"])
    pair.run(LATER)
    pair.run(NOW + 10_000)
    assert pair.server.handled == ["<order>1</order>"]
    (line,) = client.sequences.page(SequenceFilter(stuck=True)).items
    assert (line.why, line.suspended_by) == ("suspended by ada", "ada")
    client.sequence_actions.resume(name, ADA)
    pair.run(NOW + 10_001)
    assert pair.server.handled == ["<order>1</order>", "<order>2</order>"]
    assert actions(client) == [("resume", "ada"), ("suspend", "ada")]
    (entry,) = client.audit(AuditFilter(action="suspend")).items
    assert (entry.note, entry.via, entry.after) == (
        "the other side is being moved",
        Via.CLI,
        {"suspended_by": "ada"},
    )


def test_a_suspended_destination_receives_and_acknowledges_but_delivers_nothing(pair: Pair) -> None:
    pair.send(["1"])
    pair.run(NOW)
    server = acting(pair.server.store)
    name = only(server, source=False)
    server.sequence_actions.suspend(name, ADA)
    pair.send(["2"])
    pair.run(LATER)
    assert pair.server.handled == ["<order>1</order>"]
    (source,) = acting(pair.client.store).sequences.page(SequenceFilter(source=True)).items
    assert source.waiting.value == 0, "it is acknowledged"
    server.sequence_actions.resume(name, ADA)
    pair.run(NOW + 10)  # the process finds out that its claim is from before the suspension
    pair.run(NOW + 11)
    assert pair.server.handled == ["<order>1</order>", "<order>2</order>"]


def test_a_suspension_takes_the_work_away_from_the_process_that_has_it(pair: Pair) -> None:
    pair.send(["1"])
    pair.run(NOW)
    server = acting(pair.server.store)
    name = only(server, source=False)

    def suspend_meanwhile(_context: object, _order: str) -> None:
        if server.sequences.page(SequenceFilter(source=False)).items[0].suspended_by is None:
            server.sequence_actions.suspend(name, ADA)

    if pair.server.store.dialect.single_writer:  # type: ignore[attr-defined]
        pytest.skip("the handler's transaction is the only writer of this database")
    pair.server.on_put = suspend_meanwhile
    pair.send(["2"])
    pair.run(LATER)
    assert pair.server.handled == ["<order>1</order>"], "the handler's transaction is rolled back"
    server.sequence_actions.resume(name, ADA)
    pair.server.on_put = lambda _context, _order: None
    pair.run(NOW + 10)
    assert pair.server.handled == ["<order>1</order>", "<order>2</order>"]


def test_a_suspension_is_no_claim_that_a_clock_which_ran_ahead_has_left(pair: Pair) -> None:
    pair.send(["1"])
    pair.run(NOW)
    client = acting(pair.client.store)
    name = only(client, source=True)
    client.sequence_actions.suspend(name, ADA)
    pair.client.store.advance_overdue(NOW, Pauses(lease=30.0, redelivery=60.0, acknowledgement=1.0))
    whole = client.sequences.one(name)
    assert whole is not None
    assert whole.holder is not None
    assert whole.holder.until == FOREVER


def test_an_action_fails_if_the_sequence_is_not_as_the_operator_saw_it(pair: Pair) -> None:
    pair.send(["1"])
    pair.run(NOW)
    client = acting(pair.client.store)
    name = only(client, source=True)
    client.sequence_actions.suspend(name, ADA, expected="open")
    with pytest.raises(Changed, match="was open, and is open, suspended by ada now"):
        client.sequence_actions.terminate(name, Actor("bob"), expected="open")
    with pytest.raises(NotPossible, match="suspended by ada already"):
        client.sequence_actions.suspend(name, Actor("bob"))
    with pytest.raises(NotPossible, match="there is no sequence nothing"):
        client.sequence_actions.resume("nothing", ADA)
    assert actions(client) == [("suspend", "ada")], "what was refused is not in the audit"


# --- ends of sequences -----------------------------------------------------------------------------------------------


def test_a_closed_source_ends_and_later_messages_go_to_a_successor(pair: Pair) -> None:
    pair.send(["1"])
    pair.run(NOW)
    client = acting(pair.client.store)
    client.sequence_actions.close(only(client, source=True), ADA)
    pair.run(LATER)
    pair.send(["2"])
    pair.run(LATER)
    assert [each.seen for each in client.sequences.page(SequenceFilter(source=True)).items] == ["ended", "open"]
    assert len(pair.server.handled) == 2


def test_a_terminated_source_makes_dead_letters_of_the_rest(pair: Pair) -> None:
    pair.send(["1", "2"])
    pair.client.turn(NOW)
    client = acting(pair.client.store)
    (line,) = client.sequences.page(SequenceFilter()).items
    client.sequence_actions.terminate(line.id, ADA)
    pair.client.turn(LATER)
    assert [each.reason for each in client.letters.page().items] != []
    assert actions(client) == [("terminate", "ada")]


def succeed(pair: Pair) -> str:
    """Let a sequence wait for a response, and its key go on in a successor. Returns the identifier of the first one."""
    refuse(pair, "1")
    pair.send(["1"], ask=True, end=True)
    pair.run(NOW)
    with pair.client.store.transaction() as tx:
        (old,) = tx.rms.all()
        assert old.machine.identifier is not None
        assert (old.machine.alive, old.machine.takes_messages, old.machine.outstanding) == (True, False, False)
        machine = RMSSequence.offered(old.machine.rm, SUCCESSOR, None, LATER)
        tx.rms.lock([old.channel.key])
        tx.rms.insert(
            RmsRecord(id="new", channel=old.channel, machine=machine, created_at=LATER, create_message_id="urn:create")
        )
    return old.machine.identifier


@pytest.mark.parametrize("action", ["close", "terminate"])
def test_a_sequence_that_waits_for_responses_is_not_ended_in_place_of_its_successor(pair: Pair, action: str) -> None:
    name = succeed(pair)
    pair.send(["2"])
    client = acting(pair.client.store)
    with pytest.raises(NotPossible, match=f"go to {SUCCESSOR}, the newest sequence"):
        getattr(client.sequence_actions, action)(name, ADA)
    assert actions(client) == [], "what was refused is not in the audit"
    pair.client.turn(LATER)
    _, new = client.sequences.page(SequenceFilter(source=True)).items
    assert (new.seen, str(new.waiting)) == ("open", "1")
    assert client.letters.page().items == (), "the message that goes to the successor is none"
    client.sequence_actions.terminate(SUCCESSOR, ADA)
    assert actions(client) == [("terminate", "ada")], "the newest one can be"


def test_all_that_a_source_counts_before_it_is_terminated_become_dead_letters(pair: Pair) -> None:
    pair.send(["1"])
    pair.run(NOW)
    pair.send(["2", "3", "4"])
    _, posts = pair.client.turn(LATER)
    lost = [post for post in posts if post.number == 2]
    pair.client.receive(pair.carry([post for post in posts if post not in lost], LATER), LATER)
    pair.send(["5"])
    client = acting(pair.client.store)
    name = only(client, source=True)
    whole = client.sequences.one(name)
    assert whole is not None
    assert isinstance(whole.record, RmsRecord)
    left = left_of(whole.record.machine)
    assert (left.unacknowledged, left.kept, str(whole.unsent)) == (((2, 2),), 2, "1")
    (line,) = client.sequences.page(SequenceFilter(source=True)).items
    waiting = str(line.waiting), str(whole.line.waiting), str(client.overview().depth.endpoints[0].waiting)
    assert waiting == ("2", "2", "2"), "the messages that are acknowledged and kept are not in any of them"
    client.sequence_actions.terminate(name, ADA)
    pair.run(2 * LATER)
    assert len(client.letters.page().items) == left.missing + left.kept + whole.unsent.value


def test_the_messages_of_a_sequence_are_counted_among_a_bounded_number_of_rows(pair: Pair) -> None:
    pair.send(["1", "2", "3"])
    pair.client.turn(NOW)
    with pair.client.store.transaction() as tx:
        assert isinstance(tx, SqlTransaction)
        seen = [source_page(tx, SequenceFilter(), None, 10, most).items[0].waiting for most in (2, 3)]
    assert [str(each) for each in seen] == ["more than 2", "3"]


def test_a_received_sequence_is_closed_by_the_process_that_runs_on_the_store(pair: Pair) -> None:
    pair.send(["1"])
    pair.run(NOW)
    server = acting(pair.server.store)
    name = only(server, source=False)
    server.sequence_actions.close(name, ADA)
    pair.server.turn(LATER)
    whole = server.sequences.one(name)
    assert whole is not None
    assert whole.line.seen == "closed"
    assert [each.what for each in whole.timeline if each.by == "ada"] == ["close"]
    with pytest.raises(NotPossible, match="closed already"):
        server.sequence_actions.close(name, ADA)


def in_flight(pair: Pair) -> str:
    """A sequence whose second message was sent and is not acknowledged, and whose third waits without a number."""
    pair.send(["1"], window=1)
    pair.run(NOW)
    pair.send(["2"], window=1)
    _, posts = pair.client.turn(LATER)
    assert [post.number for post in posts] == [2]
    pair.send(["3"], window=1)
    return only(acting(pair.client.store), source=True)


def test_a_restart_is_refused_while_the_other_side_may_have_messages(pair: Pair) -> None:
    name = in_flight(pair)
    client = acting(pair.client.store, LATER)
    with pytest.raises(NotPossible, match="1 message was sent and is not acknowledged"):
        client.sequence_actions.restart(name, ADA)
    assert actions(client) == []
    pair.run(NOW + 100)
    assert len(pair.server.handled) == 3, "nothing was changed"


def test_a_restart_sends_the_rest_in_a_successor_in_its_order(pair: Pair) -> None:
    name = in_flight(pair)
    client = acting(pair.client.store, LATER)
    done = client.sequence_actions.restart(name, ADA, in_doubt=InDoubt.RESEND)
    assert (done.moved, done.doubtful) == (((2, 2),), ((2, 2),))
    pair.run(LATER)
    assert pair.server.handled == [f"<order>{number}</order>" for number in (1, 2, 3)]
    old, new = client.sequences.page(SequenceFilter(source=True)).items
    assert (old.seen, new.seen) == ("failed", "open")
    assert old.status.last_error == "restarted in a successor by ada"
    assert client.letters.page().items == ()


def test_a_restart_makes_dead_letters_of_messages_in_doubt(pair: Pair) -> None:
    name = in_flight(pair)
    client = acting(pair.client.store, LATER)
    client.sequence_actions.restart(name, ADA, in_doubt=InDoubt.PARK)
    pair.run(LATER)
    assert pair.server.handled == ["<order>1</order>", "<order>3</order>"]
    (letter,) = client.letters.page().items
    assert (letter.certainty, letter.correlation) == (Certainty.UNKNOWN, "order:2")
    assert "restarted in a successor by ada" in letter.reason


# --- paused services -------------------------------------------------------------------------------------------------


def test_no_handler_of_a_paused_service_is_called_and_reception_goes_on(pair: Pair) -> None:
    server = acting(pair.server.store)
    server.service_actions.pause("shop", ADA, reason="its database is being moved")
    pair.send(["1"])
    pair.run(NOW)
    assert pair.server.handled == []
    assert acting(pair.client.store).sequences.page(SequenceFilter()).items[0].waiting.value == 0
    (line,) = server.sequences.page(SequenceFilter(stuck=True)).items
    assert line.why == "its service is paused by ada"
    service = server.services.one("shop")
    assert service is not None
    assert (service.paused_by, service.waiting.value) == ("ada", 1)
    assert "service shop is paused by ada; 1 message waits" in [each.text for each in server.overview().problems]
    with pytest.raises(NotPossible, match="paused already"):
        server.service_actions.pause("shop", ADA)
    server.service_actions.resume("shop", ADA)
    pair.run(NOW)
    assert pair.server.handled == ["<order>1</order>"]
    with pytest.raises(NotPossible, match="is not paused"):
        server.service_actions.resume("shop", ADA)
    assert actions(server) == [("resume", "ada"), ("pause", "ada")]


# --- messages and dead letters ---------------------------------------------------------------------------------------


def test_a_parked_message_is_in_the_audit(pair: Pair) -> None:
    refuse(pair, "2")
    pair.send(["1", "2", "3"])
    pair.run(NOW)
    server = acting(pair.server.store)
    (poison,) = server.services.failing().items
    server.message_actions.park(Direction.INBOUND, poison.position, ADA)
    pair.run(LATER)
    assert pair.server.handled == ["<order>1</order>", "<order>3</order>"]
    (entry,) = server.audit().items
    assert (entry.action, entry.target) == ("park", poison.id)


def test_dead_letters_are_redriven_in_small_transactions_in_the_order_of_their_numbers(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mercury.operations.letter_actions.BATCH", 2)
    letters = [replace(outbound(f"{number}"), number=5 - number) for number in range(5)]
    add_letters(pair.client.store, *letters, outbound("unknown", certainty=Certainty.UNKNOWN))
    client = acting(pair.client.store)
    done = client.letter_actions.redrive([*(each.id for each in letters), "unknown", "nobody"], ADA)
    assert (done.done, [name for name, _ in done.refused]) == (("4", "3", "2", "1", "0"), ["unknown"])
    page = client.messages.page
    sent = [each.message_id for each in page(Direction.OUTBOUND, MessageFilter()).items]
    assert sent == [f"message {number}" for number in (4, 3, 2, 1, 0)], "in the order of their numbers"
    assert len(client.audit(AuditFilter(action="redrive")).items) == 5
    again = client.letter_actions.redrive(["unknown"], ADA, allow_duplicate=True)
    assert (again.done, again.refused) == (("unknown",), ())


def test_dead_letters_are_redirected_to_another_endpoint(pair: Pair) -> None:
    add_letters(pair.client.store, outbound("a"), inbound("b"))
    client = acting(pair.client.store)
    with pytest.raises(NotPossible, match="not an endpoint"):
        client.letter_actions.redirect(["a"], "nowhere", ADA)
    done = client.letter_actions.redirect(["a", "b"], URL, ADA)
    assert (done.done, [why for _, why in done.refused]) == (
        ("a",),
        ["it was received: only messages that were to be sent have an endpoint"],
    )
    (waiting,) = client.messages.page(Direction.OUTBOUND, MessageFilter()).items
    assert (waiting.endpoint, waiting.message_id) == (URL, "message a")


def test_an_edited_dead_letter_is_sent_as_a_new_message(pair: Pair) -> None:
    add_letters(pair.client.store, outbound("a"), outbound("b", certainty=Certainty.UNKNOWN))
    client = acting(pair.client.store)
    new = client.letter_actions.send_edited("a", b"<order>7</order>", ADA)
    assert new != "message a"
    (place,) = client.messages.places(message_id=new).waiting
    whole = client.messages.one(Direction.OUTBOUND, place.position)
    assert whole is not None
    assert whole.message.payload == b"<order>7</order>"
    with pytest.raises(NotPossible, match="may have it already"):
        client.letter_actions.send_edited("b", b"<order>8</order>", ADA)
    with pytest.raises(NotPossible, match="there is no dead letter a"):
        client.letter_actions.send_edited("a", b"<order>8</order>", ADA)


def test_discarded_dead_letters_leave_what_they_were_in_the_audit(pair: Pair) -> None:
    add_letters(pair.client.store, outbound("a", correlation="order:1"))
    client = acting(pair.client.store)
    assert client.letter_actions.discard(["a"], ADA).done == ("a",)
    assert client.letters.page().items == ()
    (entry,) = client.audit(AuditFilter(target="a")).items
    assert (entry.before["correlation"], entry.actor) == ("order:1", "ada")
    assert str(entry.before["payload"]).startswith("4 bytes, sha256 ")
