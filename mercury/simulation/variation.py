"""What a world has that the default one has not, and what holds in it then."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from mercury.simulation.flows import Flow
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.statemachine.policy import AcknowledgeAt, DeliveryAssurance, DestinationPolicy

#: One seed in so many is varied; the others keep the default world.
VARIED_EVERY = 3
#: Of so many seeds this one has several processes on one store. It is none of those that are varied otherwise.
SEVERAL_EVERY, SEVERAL_AT = 30, 28
#: Virtual seconds after which a destination ends a sequence that its source gave up.
SILENCE = 80.0


class Variation(enum.Enum):
    """One thing that is different in a world."""

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
    #: The clocks of the nodes are set back and forth, each for itself.
    CLOCK = "clock steps"
    #: Two processes work on the store of each node; one that crashes or is stopped loses its work to the other.
    SEVERAL = "several processes on one store"

    @property
    def gives_up(self) -> bool:
        """Messages may become dead letters at their source."""
        return self in (Variation.RETRY_LIMIT, Variation.EXPIRY, Variation.ABANDONMENT)

    @property
    def leaves_letters(self) -> bool:
        """What a handler lost is a dead letter."""
        return self is Variation.AT_MOST_ONCE


VARIED = tuple(variation for variation in Variation if variation is not Variation.NONE)
_IN_TURN = tuple(variation for variation in VARIED if variation is not Variation.SEVERAL)


def variation_of(seed: int) -> Variation:
    """Every third seed takes its turn through the variations; a few others have several processes on one store."""
    if seed % SEVERAL_EVERY == SEVERAL_AT:
        return Variation.SEVERAL
    if seed % VARIED_EVERY != VARIED_EVERY - 1:
        return Variation.NONE
    return _IN_TURN[seed // VARIED_EVERY % len(_IN_TURN)]


def varied_destination(variation: Variation, policy: DestinationPolicy, chance: Random) -> DestinationPolicy:
    """The policy of the destinations in such a world."""
    match variation:
        case Variation.AT_LEAST_ONCE:
            return replace(policy, assurance=DeliveryAssurance.AT_LEAST_ONCE)
        case Variation.AT_MOST_ONCE:
            return replace(policy, assurance=DeliveryAssurance.AT_MOST_ONCE)
        case Variation.UNORDERED:
            return replace(policy, in_order=False)
        case Variation.INCOMPLETE:
            behavior = chance.choice(tuple(IncompleteSequenceBehavior))
            # What delivers nothing before the end takes all of it, and acknowledges before it delivers.
            whole = behavior is IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE
            at = AcknowledgeAt.ACCEPTANCE if whole else policy.acknowledge_at
            backlog = 10_000 if whole else policy.max_backlog
            return replace(policy, incomplete_behavior=behavior, acknowledge_at=at, max_backlog=backlog)
        case _ if variation.gives_up:
            # What is accepted behind a gap that never closes is delivered, or not, when the silence is noticed.
            return replace(policy, inactivity_timeout=SILENCE)
        case _:
            return policy


def varied_flow(variation: Variation, flow: Flow, chance: Random) -> Flow:
    """One of the flows in such a world."""
    policy = flow.policy
    match variation:
        case Variation.NO_OFFER:
            return replace(flow, policy=replace(policy, offer=False))
        case Variation.RETRY_LIMIT:
            limited = replace(policy.retransmission, max_attempts=chance.choice((2, 4)))
            return replace(flow, policy=replace(policy, retransmission=limited))
        case Variation.EXPIRY:
            return replace(flow, policy=replace(policy, expires=chance.choice((3.0, 10.0, 30.0))))
        case Variation.ABANDONMENT:
            places = chance.sample(range(1, max(2, flow.messages)), min(2, max(1, flow.messages - 1)))
            return replace(flow, ends_after=tuple(sorted(places)), abandons=True)
        case _:
            return flow


def misplaced(variation: Variation, handled: Sequence[bytes], expected: Sequence[bytes]) -> str | None:
    """What is wrong with what a server has handled so far of a flow; ``None`` when nothing is."""
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
    may_miss = variation is Variation.UNORDERED or variation is Variation.AT_MOST_ONCE or variation.gives_up
    if not may_miss and found != list(range(len(found))):
        missing = next(place for place, number in enumerate(found) if place != number)
        return f"at place {missing + 1} the server has {handled[missing][:60]!r}"
    return None
