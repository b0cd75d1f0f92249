"""While a message waits for a thread or is being posted, the pause before its retransmission does not begin."""

from __future__ import annotations

from mercury.engine.exchange import Outgoing, Purpose
from mercury.engine.source.after_start import CREATION_WAIT
from mercury.storage.api import Topic
from mercury.storage.memory import MemoryStore
from tests.storage.pair import Pair

NOW = 1_800_000_000.0


class Sending:
    """A client with three messages on their way, who hears of his destination meanwhile."""

    def __init__(self) -> None:
        self.pair = Pair(MemoryStore(), MemoryStore())
        self.client = self.pair.client
        self.pair.send(["first"])
        first = self.client.receive(self.pair.carry(self.turn(NOW), NOW), NOW)
        heard = self.pair.carry(first, NOW)
        self.client.engine.receive(heard, NOW)
        self.pair.send(["one", "two", "three"])
        self.posts = self.turn(NOW)
        self.client.engine.receive(heard, NOW + 0.5)

    def turn(self, now: float) -> list[Outgoing]:
        return self.client.turn(now)[1]

    @property
    def window(self) -> int | None:
        with self.client.store.transaction() as tx:
            (record,) = tx.rms.all()
            return record.machine.flow.size


def test_messages_that_are_not_posted_yet_are_not_posted_again() -> None:
    sending = Sending()
    assert [post.number for post in sending.posts] == [2, 3, 4]
    under_way = {post.number for post in sending.posts}
    sending.client.engine.source.is_in_flight = lambda _, number, acknowledged: number in under_way
    for after in (1.5, 3.0, 4.5):
        assert sending.turn(NOW + after) == []
    assert sending.window is None, "nothing shows that the destination takes only the next number"
    under_way.clear()
    assert sending.turn(NOW + 4.6) == [], "the pause begins when it is known to be posted"
    assert [post.number for post in sending.turn(NOW + 6.0)] != []


def test_messages_that_were_posted_and_lost_are_posted_again_after_the_pause() -> None:
    sending = Sending()
    assert [post.number for post in sending.turn(NOW + 1.5)] == [2], "one finds out what the destination takes"
    assert sending.window == 1
    assert all(post.purpose is Purpose.MESSAGE for post in sending.posts)


def test_creation_that_is_not_posted_yet_is_not_posted_again() -> None:
    pair = Pair(MemoryStore(), MemoryStore())
    pair.send(["first"])
    assert [(post.purpose, post.repeated) for post in pair.client.turn(NOW)[1]] == [(Purpose.CREATE, False)]
    under_way = {0}
    pair.client.engine.source.is_in_flight = lambda _, number, acknowledged: number in under_way
    for after in (1.5, 4.0, 8.0):
        assert pair.client.turn(NOW + after)[1] == []
    under_way.clear()
    assert pair.client.turn(NOW + 8.1)[1] == [], "the pause begins when it is known to be posted"
    (again,) = pair.client.turn(NOW + 12.0)[1]
    assert (again.purpose, again.repeated) == (Purpose.CREATE, True)
    with pair.client.store.transaction() as tx:
        (record,) = tx.rms.all()
        assert record.machine.control_attempts == 2, "what waited is no attempt"


def test_creation_that_waits_behind_others_is_not_looked_at_before_its_turn_may_have_come() -> None:
    pair = Pair(MemoryStore(), MemoryStore())
    pair.send(["first"])
    pair.client.engine.source.creations_wait = lambda _endpoint: True
    assert [post.purpose for post in pair.client.turn(NOW)[1]] == [Purpose.CREATE]
    assert pair.client.store.next_due(Topic.RMS) == NOW + CREATION_WAIT
    assert pair.client.turn(NOW + 4.9)[1] == []
    (again,) = pair.client.turn(NOW + 5.0)[1]
    assert (again.purpose, again.repeated) == (Purpose.CREATE, True)
