"""What an operator can do about a sequence that waits, in sentences."""

from __future__ import annotations

from mercury.console.drawing import listed
from mercury.operations.reasons import WaitKind
from mercury.operations.sequences import WholeSequence
from mercury.statemachine.messages import IncompleteSequenceBehavior
from mercury.storage.records import RmdRecord, RmsRecord


def advice(whole: WholeSequence) -> list[str]:
    """What to look at and to do, the most useful first; empty = nothing is to be done."""
    line, first = whole.line, _about_store(whole)
    if line.suspended_by is not None:
        text = f"{line.suspended_by} has suspended it: ask why, or look at the timeline. Resume it to let it go on."
        return [*first, text]
    if not line.stuck:
        return first
    if isinstance(whole.record, RmsRecord):
        return [*first, *_for_source(whole.record)]
    return _for_destination(whole, whole.record)


def _about_store(whole: WholeSequence) -> list[str]:
    peer, record = whole.peer_store, whole.record
    if peer is None or peer.refused is None or not isinstance(record, RmsRecord) or not record.machine.alive:
        return []
    return [
        f"The store {peer.refused} has answered at {peer.refused_address}, in the place of {peer.store}: nothing is "
        "sent to it. If it is the wrong server, correct the address. If the destination is a new one, an operator has "
        "to say so."
    ]


def _for_source(record: RmsRecord) -> list[str]:
    if record.machine.failure is not None:
        return ["It has failed, and sends nothing any more. Its messages are in a successor, or are dead letters."]
    return [
        f"Look whether {record.channel.endpoint} can be reached from the nodes and what its log says. Messages are "
        "tried again by themselves, and nothing is lost meanwhile.",
        "If the other side has lost the sequence, restart it in a successor.",
    ]


def _for_destination(whole: WholeSequence, record: RmdRecord) -> list[str]:
    kind = whole.line.wait.kind if whole.line.wait is not None else None
    if kind is WaitKind.HANDLER:
        return [
            "Open its first waiting message to see the payload that the handler refuses.",
            "Correct the handler, or what it needs, and try the message again. Or park it: it becomes a dead letter, "
            "and the messages behind it are delivered.",
        ]
    if kind is WaitKind.GAP:
        sender = record.identity or record.peer
        return [
            f"The other side{f' ({sender})' if sender else ''} has to send {listed(whole.gaps)}: look at its sequence "
            "with this identifier there. It repeats what is not acknowledged by itself.",
            f"If it cannot, terminate the sequence. {behind_the_gap(whole)} The other side may send the rest in "
            "another sequence.",
        ]
    if record.service is not None:
        return [f"The service {record.service} is paused: resume it to let its messages be delivered."]
    return []


def behind_the_gap(whole: WholeSequence) -> str:
    """What becomes of the messages that wait behind a gap when a received sequence is terminated."""
    many = whole.line.waiting
    waiting = "The message that waits here" if str(many) == "1" else f"The {many} messages that wait here"
    match whole.behavior:
        case IncompleteSequenceBehavior.DISCARD_FOLLOWING_FIRST_GAP:
            return f"{waiting} will be discarded: the sequence has agreed on DiscardFollowingFirstGap."
        case IncompleteSequenceBehavior.DISCARD_ENTIRE_SEQUENCE:
            return f"{waiting} will be discarded: the sequence has agreed on DiscardEntireSequence."
        case _:
            return f"{waiting} will be delivered without those that are missing."
