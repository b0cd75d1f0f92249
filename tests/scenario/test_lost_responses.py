"""A response is lost for good: the waiting future fails, and later responses do not wait for it."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from mercury.errors import ApplicationFault, SequenceFailed
from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol, RmVersion
from mercury.storage.memory.rms_committed import KeyData
from mercury.storage.records import OutboundMessage, SequenceKey

from .foreign import RM11_SOAP12, Foreign, answer_to, brought
from .harness import Link, Pair, body

PROTOCOLS = pytest.mark.parametrize("protocol", ALL_PROTOCOLS, ids=str)
LOST = "its response is lost"


class Asking:
    """A client with three acknowledged requests at a foreign server that took the offer."""

    def __init__(self, protocol: Protocol = RM11_SOAP12, *, futures: bool = True) -> None:
        self.pair, self.foreign = Pair(), Foreign(protocol)
        self.client = self.pair.client
        self.pair.server.stop()
        self.link: Link = self.pair.link(protocol)
        self.futures: list[Future[bytes]] = []
        if futures:
            self.futures = [self.link.ask(text) for text in ("one", "two", "three")]
        else:
            self.link.asks("one", "two", "three")
        self.requests = list(self.client.store.committed.rms.by_message_id)
        self.pair.turn()
        record = self.client.source()
        self.offered = record.offered or ""
        created = self.foreign.created("urn:theirs", record.create_message_id, accept=self.pair.server.service_url)
        answer_to(self.client, created, purpose="CreateSequence")
        self.pair.turn()
        brought(self.client, self.foreign.alone(self.foreign.acknowledgement("urn:theirs", ((1, 3),))))

    def responds(self, *numbers: int) -> None:
        for number in numbers:
            text = f"re {number}"
            brought(self.client, self.foreign.respond(self.offered, number, self.requests[number - 1], text))
        self.pair.run()

    def ends(self) -> None:
        """The peer ends the sequence of its responses, the first of which never came."""
        last = 3 if self.foreign.protocol.rm is RmVersion.RM11 else None
        brought(self.client, self.foreign.terminate(self.offered, last, reply_to="anonymous"))
        self.pair.run()


def test_futures_do_not_wait_for_the_responses_of_others() -> None:
    asking = Asking()
    asking.responds(3, 2)
    assert [future.done() for future in asking.futures] == [False, True, True]
    assert asking.futures[2].result(0).endswith(b">re 3</t:entry>")
    assert asking.client.rows() == 1
    asking.responds(1)
    assert asking.futures[0].result(0).endswith(b">re 1</t:entry>")
    assert asking.client.rows() == 0
    asking.ends()
    assert asking.client.letters() == []
    buffers = asking.client.store.committed.invoker.buffers
    assert buffers.keys() <= {asking.offered}, "buffers of single responses are gone"
    asking.pair.assert_sound()


def test_callbacks_keep_the_order_while_the_gap_may_still_be_filled() -> None:
    asking = Asking(futures=False)
    asking.responds(3, 2)
    assert asking.client.answers == []
    asking.responds(1)
    assert [text for _, text in asking.client.answers] == ["re 1", "re 2", "re 3"]


@PROTOCOLS
def test_when_the_sequence_ends_with_a_gap_the_lost_one_fails_and_the_rest_goes_on(protocol: Protocol) -> None:
    asking = Asking(protocol, futures=False)
    asking.responds(2, 3)
    asking.ends()
    assert [text for _, text in asking.client.answers] == ["re 2", "re 3"]
    assert asking.client.letters_by_text() == [("one", "unknown")]
    assert LOST in asking.client.letters()[0].reason
    assert asking.link.pending == 0
    asking.link.close()
    asking.pair.run()
    brought(asking.client, asking.foreign.fault("UnknownSequence", "urn:theirs"))
    assert all(not record.machine.alive for record in asking.client.sources()), "nothing is waited for any more"


@PROTOCOLS
def test_a_future_whose_response_is_lost_fails_with_the_reason(protocol: Protocol) -> None:
    asking = Asking(protocol)
    asking.responds(2, 3)
    asking.ends()
    with pytest.raises(SequenceFailed, match=LOST):
        asking.futures[0].result(0)
    assert asking.link.pending == 0


def test_a_request_that_is_still_with_the_application_is_not_taken_for_lost() -> None:
    # One number is missing, and two requests are not answered: the older one is the one.
    asking = Asking()
    asking.responds(2)
    brought(asking.client, asking.foreign.terminate(asking.offered, 2, reply_to="anonymous"))
    asking.pair.run()
    assert [future.done() for future in asking.futures] == [True, True, False]
    assert asking.link.pending == 1


@PROTOCOLS
def test_unrepeatable_message_discarded_behind_a_gap_is_reported(protocol: Protocol) -> None:
    # Without an address there is no successor that it could come with.
    pair = Pair()
    pair.lose("response 1", 100)
    link = pair.link(protocol, listens=False)
    link.asks("one", "two", "three")
    pair.advance(2)
    assert pair.server.handled == ["one", "two", "three"]
    assert pair.client.answers == []
    pair.server.stop()
    pair.server.forget()
    pair.server.start()
    pair.advance(60)
    told = [text for _, text in pair.client.answers] + [text for text, _ in pair.client.letters_by_text()]
    assert "one" in told
    assert {"re two", "re three"} <= set(told)
    assert link.pending == 0
    assert all(not record.machine.alive for record in pair.client.sources())
    pair.assert_sound()


@PROTOCOLS
@pytest.mark.parametrize("offer", [True, False], ids=["in a sequence", "outside any"])
@pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])
def test_a_response_that_is_damaged_in_the_store_fails_its_request_and_no_other(
    protocol: Protocol, offer: bool, listens: bool
) -> None:
    pair = Pair()
    link = pair.link(protocol, listens=listens, offer=offer)
    seen = damage_second_response(pair)
    futures = [link.ask(text) for text in ("one", "two", "three")]
    pair.advance(60)
    assert seen
    assert futures[0].result(0).endswith(b">re one</t:entry>")
    assert futures[2].result(0).endswith(b">re three</t:entry>")
    with pytest.raises(ApplicationFault, match="damaged in the store") as lost:
        futures[1].result(0)
    assert lost.value.code == "Lost"
    assert [letter.damaged for letter in pair.server.letters()] == [True]
    assert link.pending == 0
    pair.assert_sound()


def damage_second_response(pair: Pair) -> list[str]:
    """The store of the server gives the response to the second request back altered, from the beginning."""
    seen: list[str] = []
    install = pair.server.store.committed.rms.install_row

    def installed(key: SequenceKey, data: KeyData, position: int, row: OutboundMessage | None) -> None:
        if row is not None and row.payload == body("re two"):
            row.damaged = True
            seen.append(row.message_id)
        install(key, data, position, row)

    pair.server.store.committed.rms.install_row = installed  # type: ignore[method-assign]
    return seen
