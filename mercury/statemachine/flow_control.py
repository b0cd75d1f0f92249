"""Flow control of one sequence: when its source numbers messages, requests acknowledgements, probes and waits. Pure.

`flow.Window` says how many numbers may be in flight. The engine calls these functions and has no such rules itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mercury.statemachine.policy import SourcePolicy
from mercury.statemachine.rms_counters import RmsCounters, RmsWork

#: Seconds of silence for which the empty LastMessage of WS-RM 1.0 waits for responses that the destination posts.
LAST_MESSAGE_WAIT = 60.0
#: Seconds after the application's end for which it waits for responses at most. A destination that withholds everything
#: until it knows the end answers each repeated request, so it is never silent, and responds to none.
LAST_MESSAGE_LIMIT = 600.0
#: Transmissions of the lowest number, without an acknowledgement, before another number is sent beside it.
ALONE = 3


def room_for_numbers(machine: RmsCounters, policy: SourcePolicy) -> int:
    """How many more messages may get a number: the free places of the window, less the numbers not sent yet."""
    unsent = machine.last_number - machine.highest_sent
    return max(0, machine.window(policy) - machine.in_flight - unsent)


def opened(machine: RmsCounters, policy: SourcePolicy, room: int) -> int:
    """How many numbers are assigned when more messages wait than ``room``: 0 below a quarter of the window.

    Otherwise each acknowledgement would cause one transaction for the few messages that it makes room for.
    """
    return room if room >= machine.ack_request_interval(policy) else 0


def requests_acknowledgement(
    machine: RmsCounters, policy: SourcePolicy, number: int, attempts: int, *, last: bool
) -> bool:
    """Whether a message carries AckRequested.

    :param attempts: transmissions of the message, including this one.
    :param last: it is the last message of this batch.
    """
    return attempts > 1 or last or number % machine.ack_request_interval(policy) == 0


def pause_after(machine: RmsCounters, policy: SourcePolicy, attempts: int, chance: float) -> float:
    """Seconds without an acknowledgement after which a message is sent again; it follows the round trip.

    :param attempts: transmissions of the message so far, from 1.
    :param chance: a random number, 0 <= chance < 1.
    """
    trip = machine.round_trip
    return policy.retransmission.delay(max(attempts, trip.repeated + 1), chance, least=trip.pause)


def probe_after(machine: RmsCounters, policy: SourcePolicy) -> float:
    """Seconds without an answer after which a source only probes whether the destination answers."""
    retransmission = policy.retransmission
    return 2 * min(retransmission.cap, max(retransmission.base, machine.round_trip.measured))


def beside(attempts: int) -> int:
    """How many numbers are sent at least, with a lowest one that stays unacknowledged.

    Its destination may have forgotten what it was about: a CXF client acknowledges no response to a request that it has
    given up. When it was sent alone several times, the next number is sent too, and one more each time.

    :param attempts: transmissions of the lowest number so far.
    """
    return max(1, attempts - ALONE + 1)


def probes(
    machine: RmsCounters, policy: SourcePolicy, unsettled: Sequence[tuple[int, int]], now: float, *, reached: bool
) -> frozenset[int]:
    """The numbers that may be sent: only the lowest as a probe while the destination is silent (FC-03).

    One message shows as much as a whole window. A destination that is reached and acknowledges nothing is also sent
    numbers beside it. A number below an acknowledged one is no probe, because the destination has left it out.

    :param unsettled: the numbers in the window, ascending, each with its transmissions so far.
    :param reached: the last exchange with the destination worked.
    """
    numbers = [number for number, _ in unsettled]
    if machine.last_heard >= now - probe_after(machine, policy):
        return frozenset(numbers)
    left_out = [number for number in numbers if _is_left_out(machine, number)]
    above = [each for each in unsettled if each[0] not in left_out]
    if not above:
        return frozenset(numbers if reached else numbers[:1])
    _, attempts = above[0]
    if attempts < 2:
        return frozenset(numbers)
    probed = [number for number, _ in above[: beside(attempts) if reached else 1]]
    return frozenset(left_out + probed if reached else probed)


def _is_left_out(machine: RmsCounters, number: int) -> bool:
    """Whether a higher number is acknowledged, and this one is not."""
    return number < machine.acknowledged.highest and number not in machine.acknowledged


def is_heard_again(machine: RmsCounters, policy: SourcePolicy, before: float) -> bool:
    """Whether the peer answers for the first time after a silence, so that the messages held back meanwhile are due.

    :param before: when the peer last answered before `last_heard`.
    """
    return machine.last_heard > before + probe_after(machine, policy)


def last_message_at(machine: RmsCounters, number: int, ended_at: float, *, fetches: bool) -> float | None:
    """The earliest time for the empty LastMessage of WS-RM 1.0; ``None`` = not before another event (LIVE-03).

    After it, some destinations take no lower number, and some send no response any more. But a destination may also
    send no response before it, so the wait for responses has an end.

    :param ended_at: when the application ended the sequence.
    :param fetches: this side has no address, so responses arrive on the connections of its requests.
    """
    if machine.lowest_outstanding() < number:
        return None
    if not machine.unanswered:
        return -math.inf
    latest = ended_at + LAST_MESSAGE_LIMIT
    return latest if fetches else min(latest, machine.last_heard + LAST_MESSAGE_WAIT)


def overdue_since(machine: RmsCounters, policy: SourcePolicy, attempts: int, due: float) -> float | None:
    """When the lowest number was sent, if it is due again and the peer has answered since; ``None`` = not overdue.

    The engine then raises `Overdue`, unless a transmission has failed since; the window shrinks if higher numbers are
    in flight.

    :param attempts: transmissions of the lowest number so far.
    """
    if not attempts or machine.most_in_flight(policy) == 1:
        return None
    # Jitter may have shortened the pause: then the number was sent later than computed here.
    since = due - policy.retransmission.delay(attempts, 0.0)
    return since if machine.last_heard > since else None


def has_more_to_do(machine: RmsCounters, policy: SourcePolicy, *, waiting: bool) -> bool:
    """Whether the worker may have work before the next retransmission is due.

    :param waiting: messages of the key wait for a number of this sequence.
    """
    control = machine.work(policy) not in (None, RmsWork.TRANSMIT)
    room = machine.window(policy) - machine.in_flight
    opens = not machine.takes_messages or room >= machine.ack_request_interval(policy)
    unsent = opens and (waiting or machine.last_number > machine.highest_sent)
    narrow = machine.flow.narrow and machine.outstanding
    return control or unsent or narrow or not machine.alive


def has_nothing_to_do(machine: RmsCounters, *, polls: bool, waiting: bool = False) -> bool:
    """Whether a sequence waits only for new messages: everything is acknowledged and answered, and it takes more.

    :param polls: messages of the sequence are fetched, or this side fetches responses.
    :param waiting: messages of the key wait for a number of this sequence.
    """
    rests = machine.takes_messages and machine.identifier is not None and not machine.unanswered
    return rests and not machine.outstanding and not polls and not waiting


def holds_successor_back(machine: RmsCounters, *, fetches: bool) -> bool:
    """Whether a successor sequence has to wait because its messages could overtake those of this sequence.

    An unfetched response holds the successor back too, because the server ends this sequence when a successor arrives.

    :param fetches: this side has no address, so responses arrive on the connections of its requests.
    """
    to_fetch = machine.unanswered > 0 and fetches and not machine.abandoned
    return machine.alive and (machine.outstanding or to_fetch)
