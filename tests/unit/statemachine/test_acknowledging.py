"""The way of an acknowledgement to the peer, and which acknowledgement goes with which reply of a batch of arrivals."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mercury.statemachine.acknowledging import Carrier, is_posted, leaves_on_reply, share, waits_to_be_fetched
from mercury.statemachine.messages import ANONYMOUS_ENDPOINT, MAKE_CONNECTION_ANONYMOUS, EndpointReference

S, T = "urn:s", "urn:t"


def plain(*sequences: str) -> Carrier:
    return Carrier(sequences)


def asking(*sequences: str) -> Carrier:
    return Carrier(sequences, requested=frozenset(sequences))


ADDRESS = EndpointReference("http://source/acks")
ANONYMOUS = ANONYMOUS_ENDPOINT
POLLED = EndpointReference(f"{MAKE_CONNECTION_ANONYMOUS}1")


def test_acknowledgement_is_posted_only_to_an_address() -> None:
    # RM-ACK-10
    assert is_posted(ADDRESS)
    assert not is_posted(ANONYMOUS)
    assert not is_posted(POLLED)


def test_acknowledgement_without_an_address_leaves_on_replies_to_the_peer_only() -> None:
    # RM-ACK-10: on connections of the sequence's own messages
    assert leaves_on_reply(ANONYMOUS, has_reply=True)
    assert leaves_on_reply(POLLED, has_reply=True)
    assert not leaves_on_reply(ANONYMOUS, has_reply=False)
    assert not leaves_on_reply(POLLED, has_reply=False)


def test_acknowledgement_to_an_address_leaves_on_no_reply() -> None:
    # RM-ACK-10
    assert not leaves_on_reply(ADDRESS, has_reply=True)
    assert not leaves_on_reply(ADDRESS, has_reply=False)


def test_acknowledgement_that_is_due_waits_for_the_client_that_fetches_it() -> None:
    assert waits_to_be_fetched(POLLED, 5.0)
    assert not waits_to_be_fetched(POLLED, None)
    assert not waits_to_be_fetched(ANONYMOUS, 5.0)
    assert not waits_to_be_fetched(ADDRESS, 5.0)


def test_without_a_request_the_last_arrival_is_answered_with_it() -> None:
    assert share([plain(S), plain(S), plain(S)]) == [(), (), (S,)]


def test_those_that_ask_get_it_and_no_other_does() -> None:
    assert share([plain(S), asking(S), plain(S)]) == [(), (S,), ()]
    assert share([asking(S), asking(S)]) == [(S,), (S,)]


def test_an_exchange_that_is_held_open_leaves_it_to_one_that_is_answered_now() -> None:
    held = Carrier((S,), held=True)
    assert share([plain(S), held]) == [(S,), ()]
    assert share([held, held]) == [(), (S,)], "if all are held, the last one"


def test_an_exchange_with_another_answer_leaves_it_to_the_others() -> None:
    faulted = Carrier((S,), otherwise=True)
    assert share([plain(S), faulted]) == [(S,), ()]


def test_every_sequence_is_shared_by_itself() -> None:
    assert share([plain(S, T), plain(S), asking(T)]) == [(), (S,), (T,)]


SEQUENCES = st.lists(st.sampled_from([S, T]), unique=True).map(tuple)
CARRIERS = st.builds(
    lambda sequences, asked, otherwise, held: Carrier(sequences, frozenset(asked) & set(sequences), otherwise, held),
    SEQUENCES,
    SEQUENCES,
    st.booleans(),
    st.booleans(),
)


@given(st.lists(CARRIERS, max_size=6))
def test_each_sequence_is_acknowledged_by_all_that_ask_or_by_one(carriers: list[Carrier]) -> None:
    shared = share(carriers)
    for sequence in (S, T):
        carry = [place for place, sequences in enumerate(shared) if sequence in sequences]
        asked = [place for place, carrier in enumerate(carriers) if sequence in carrier.requested]
        able = [place for place, each in enumerate(carriers) if sequence in each.sequences and not each.otherwise]
        assert carry == asked if asked else len(carry) == bool(able)
        assert all(sequence in carriers[place].sequences for place in carry)
