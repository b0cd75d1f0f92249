"""A message that may have been delivered is sent again: whatever becomes of it, it is never said to be undelivered."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from mercury.operations.restarting import InDoubt
from mercury.statemachine.effects import Certainty
from mercury.storage.letters import Direction
from mercury.storage.records import OutboundKind, OutboundMessage
from mercury.storage.searching import MessageFilter, SequenceFilter
from mercury.storage.sql.store import SqlStore

from .pair import Pair, channel
from .test_dead_letters import add_letters, outbound
from .test_operator_actions import ADA, LATER, acting, in_flight
from .test_operator_reads import pair, stores, urls

__all__ = ["pair", "stores", "urls"]


def certainties(pair: Pair) -> dict[str | None, Certainty]:
    return {each.correlation: each.certainty for each in acting(pair.client.store).letters.page().items}


def abandon(pair: Pair) -> None:
    """The application ends the key without waiting for anything."""
    end = OutboundMessage(message_id=pair.client.ids.new(), channel=channel(window=1), kind=OutboundKind.ABANDON)
    with pair.client.store.transaction() as tx:
        tx.rms.append(end)


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize("moves", [1, 2])
def test_a_message_that_is_sent_again_and_dies_before_may_have_been_delivered(
    pair: Pair, numbered: bool, moves: int
) -> None:
    name = in_flight(pair)
    client = acting(pair.client.store, LATER)
    client.sequence_actions.restart(name, ADA, in_doubt=InDoubt.RESEND)
    for _ in range(moves - 1):
        pair.client.turn(LATER)  # its successor gets no answer, and is given up too
        _, line = client.sequences.page(SequenceFilter(source=True)).items
        client.sequence_actions.restart(line.id, ADA, in_doubt=InDoubt.REFUSE)
    if numbered:
        pair.client.turn(LATER)
    abandon(pair)
    for _ in range(2):
        pair.client.turn(LATER)
    assert certainties(pair) == {"order:2": Certainty.UNKNOWN, "order:3": Certainty.NOT_DELIVERED}
    (doubtful,) = [each for each in client.letters.page().items if each.certainty is Certainty.UNKNOWN]
    done = client.letter_actions.redrive([doubtful.id], ADA)
    assert (done.done, [letter for letter, _ in done.refused]) == ((), [doubtful.id])


def test_a_dead_letter_in_doubt_that_is_redriven_and_dies_again_is_still_in_doubt(pair: Pair) -> None:
    add_letters(
        pair.client.store,
        outbound("known", correlation="order:1"),
        outbound("unknown", correlation="order:2", certainty=Certainty.UNKNOWN),
    )
    client = acting(pair.client.store)
    client.letter_actions.redrive(["known", "unknown"], ADA, allow_duplicate=True)
    for message in client.messages.page(Direction.OUTBOUND, MessageFilter()).items:
        client.message_actions.park(Direction.OUTBOUND, message.position, ADA)
    assert certainties(pair) == {"order:1": Certainty.NOT_DELIVERED, "order:2": Certainty.UNKNOWN}


def test_a_message_of_a_store_that_the_version_before_has_written_is_in_no_doubt(pair: Pair) -> None:
    pair.send(["1"])
    assert isinstance(pair.client.store, SqlStore)
    with pair.client.store.engine.begin() as connection:
        connection.execute(text("update mercury_rms_message set in_doubt = null"))
    (message,) = acting(pair.client.store).messages.page(Direction.OUTBOUND, MessageFilter()).items
    acting(pair.client.store).message_actions.park(Direction.OUTBOUND, message.position, ADA)
    assert certainties(pair) == {"order:1": Certainty.NOT_DELIVERED}
