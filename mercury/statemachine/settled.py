"""When a message needs no transmission any more at its source, and when its row may be deleted. Pure.

The conformance suite compares what a store returns with this.
"""

from __future__ import annotations


def is_settled(*, acknowledged: bool, answered: bool, replays: bool) -> bool:
    """Whether a message needs no transmission any more.

    :param answered: its response is stored, or was consumed.
    :param replays: see `replays`.
    """
    return acknowledged and (answered or not replays)


def replays(*, expects_response: bool, fetches: bool) -> bool:
    """Whether a message is sent again until it is answered, acknowledged or not (HTTP-05).

    :param fetches: this side has no address: the response comes on the connection of the request.
    """
    return expects_response and fetches


def may_go(*, acknowledged: bool, expects_response: bool) -> bool:
    """Whether nothing needs the row of a message any more, unless a successor sequence does."""
    return acknowledged and not expects_response
