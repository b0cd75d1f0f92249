"""Variations of the default scenario, and the invariants that hold in each."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from mercury.simulation.flows import Flow
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import AcknowledgeAt, DeliveryAssurance, DestinationPolicy

#: Every third seed has a variation; the others have the default scenario.
VARIED_EVERY = 3
#: The seeds with several processes on one store: those with the remainder SEVERAL_AT after division by SEVERAL_EVERY.
#: No other variation uses these seeds.
SEVERAL_EVERY, SEVERAL_AT = 30, 28
#: Likewise the seeds whose messages have a time to live, and the times of which each message of a flow has the next.
LIVE_EVERY, LIVE_AT = 30, 13
TIMES_TO_LIVE = (None, 0.05, None, 1.0, 30.0, None, 4.0)
#: Virtual seconds after which a destination ends a sequence that its source gave up.
INACTIVITY_TIMEOUT = 80.0


class Variation(enum.Enum):
    """A difference from the default scenario."""

    NONE = "none"
    AT_LEAST_ONCE = "at least once"
    AT_MOST_ONCE = "at most once"
    UNORDERED = "unordered"
    INCOMPLETE = "incomplete-sequence behavior"
    #: Responses travel outside any sequence.
    NO_OFFER = "no offer"
    RETRY_LIMIT = "retry limit"
    EXPIRY = "expiry"
    ABANDONMENT = "abandonment"
    #: The clock of each node is set forward and back.
    CLOCK = "clock steps"
    #: Two processes share the store of each node; if one crashes or is stopped, the other takes over its claims.
    SEVERAL = "several processes on one store"
    #: Some messages have a time to live: each is delivered, or a dead letter of one side.
    TIME_TO_LIVE = "time to live"

    @property
    def gives_up(self) -> bool:
        """Whether messages may become dead letters at their source."""
        return self in (Variation.RETRY_LIMIT, Variation.EXPIRY, Variation.ABANDONMENT)

    @property
    def leaves_dead_letters(self) -> bool:
        """Whether a message that was received may become a dead letter."""
        return self in (Variation.AT_MOST_ONCE, Variation.TIME_TO_LIVE)


VARIED = tuple(variation for variation in Variation if variation is not Variation.NONE)
#: These have seeds of their own.
_APART = (Variation.SEVERAL, Variation.TIME_TO_LIVE)
_IN_TURN = tuple(variation for variation in VARIED if variation not in _APART)


def variation_of(seed: int) -> Variation:
    """The variation of a seed: every third seed has the next one; a few others have one of `_APART`."""
    if seed % SEVERAL_EVERY == SEVERAL_AT:
        return Variation.SEVERAL
    if seed % LIVE_EVERY == LIVE_AT:
        return Variation.TIME_TO_LIVE
    if seed % VARIED_EVERY != VARIED_EVERY - 1:
        return Variation.NONE
    return _IN_TURN[seed // VARIED_EVERY % len(_IN_TURN)]


def varied_destination(variation: Variation, policy: DestinationPolicy, chance: Random) -> DestinationPolicy:
    """The policy of the destinations in a variation."""
    match variation:
        case Variation.AT_LEAST_ONCE:
            return replace(policy, assurance=DeliveryAssurance.AT_LEAST_ONCE)
        case Variation.AT_MOST_ONCE:
            return replace(policy, assurance=DeliveryAssurance.AT_MOST_ONCE)
        case Variation.UNORDERED:
            return replace(policy, in_order=False)
        case Variation.INCOMPLETE:
            behavior = chance.choice(tuple(IncompleteSequenceBehavior))
            # DiscardEntireSequence delivers nothing before the sequence has ended, so it must buffer all of it.
            whole = behavior is IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE
            at = AcknowledgeAt.ACCEPTANCE if whole else policy.acknowledge_at
            backlog = 10_000 if whole else policy.max_backlog
            return replace(policy, incomplete_behavior=behavior, acknowledge_at=at, max_backlog=backlog)
        case _ if variation.gives_up:
            # Messages after a gap that never closes are delivered or discarded at the inactivity timeout.
            return replace(policy, inactivity_timeout=INACTIVITY_TIMEOUT)
        case _:
            return policy


def varied_flow(variation: Variation, flow: Flow, chance: Random) -> Flow:
    """A flow in a variation."""
    policy = flow.policy
    match variation:
        case Variation.NO_OFFER:
            return replace(flow, policy=replace(policy, offer=False))
        case Variation.RETRY_LIMIT:
            limited = replace(policy.retransmission, max_attempts=chance.choice((2, 4)))
            return replace(flow, policy=replace(policy, retransmission=limited))
        case Variation.EXPIRY:
            return replace(flow, policy=replace(policy, expires=chance.choice((3.0, 10.0, 30.0))))
        case Variation.TIME_TO_LIVE:
            return replace(flow, times_to_live=TIMES_TO_LIVE)
        case Variation.ABANDONMENT:
            places = chance.sample(range(1, max(2, flow.messages)), min(2, max(1, flow.messages - 1)))
            return replace(flow, ends_after=tuple(sorted(places)), abandons=True)
        case _:
            return flow


def delivery_violation(variation: Variation, handled: Sequence[bytes], expected: Sequence[bytes]) -> str | None:
    """The violation in the messages of a flow that a server has handled so far; ``None`` = there is none."""
    if variation is Variation.AT_LEAST_ONCE:
        handled = list(dict.fromkeys(handled))
    if len(set(handled)) != len(handled):
        again = next(body for place, body in enumerate(handled) if body in handled[:place])
        return f"{again[:60]!r} was handled twice"
    places = {body: place for place, body in enumerate(expected)}
    unknown = next((body for body in handled if body not in places), None)
    if unknown is not None:
        return f"{unknown[:60]!r} was never sent"
    found = [places[body] for body in handled]
    if variation is not Variation.UNORDERED and found != sorted(found):
        return f"handled out of order: {found}"
    may_miss = variation is Variation.UNORDERED or variation.leaves_dead_letters or variation.gives_up
    if not may_miss and found != list(range(len(found))):
        missing = next(place for place, number in enumerate(found) if place != number)
        return f"message {missing + 1} at the server is {handled[missing][:60]!r}"
    return None
