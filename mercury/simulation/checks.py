"""Checks invariants while the simulation runs, and the result at its end."""

from __future__ import annotations

import email
from collections.abc import Sequence
from email.message import Message
from typing import Protocol
from xml.etree import ElementTree

from mercury.engine.exchange import Outgoing, Step
from mercury.simulation.application import Ledger, body, expected_answer, expected_handled, number_of, refuses
from mercury.simulation.flows import Flow
from mercury.simulation.stores import NodeStore
from mercury.simulation.variation import Variation, delivery_violation
from mercury.statemachine.effects import Certainty
from mercury.statemachine.events import FailureReason
from mercury.statemachine.faults import Ranges
from mercury.statemachine.tables import InvokerState
from mercury.storage.letters import Direction
from mercury.wire.envelope import HttpMessage, MessageBatch


class NodeView(Protocol):
    """The parts of a node that the checks read."""

    host: str
    ledger: Ledger
    store: NodeStore


class Checks:
    """Collects violations of the invariants."""

    def __init__(self, variation: Variation = Variation.NONE) -> None:
        self._variation = variation
        self.violations: list[str] = []

    def violated(self, text: str) -> None:
        if len(self.violations) < 100:
            self.violations.append(text)

    # --- while it runs ---------------------------------------------------------------------------------------------

    def worked(self, node: NodeView, step: Step) -> None:
        """Check that the work on a sequence that was due had an effect: otherwise it would be due at once again."""
        for key in step.stalled:
            self.violated(f"{node.host}: the work on {key} has no effect, and it is due at once again")

    def posted(self, node: NodeView, outgoing: Outgoing) -> None:
        """Check that a posted message was committed before it was posted."""
        envelope = outgoing.envelope
        for acknowledgement in envelope.acknowledgements:
            self._acknowledged(node, acknowledgement.identifier, acknowledgement.ranges)
        header = envelope.sequence
        if header is None:
            return
        if isinstance(envelope.body, MessageBatch):
            for number, message in enumerate(envelope.body.messages, header.message_number):
                self._sent(node, header.identifier, number, message.message_id)
        else:
            self._sent(node, header.identifier, header.message_number, envelope.message_id)

    def replied(self, node: NodeView, http: HttpMessage) -> None:
        """Check that the contents of a reply were committed before it was sent. The reply is parsed without Mercury's
        decoder, so that a defect of the decoder is found."""
        if b"Sequence" not in http.body:
            return
        header = ElementTree.fromstring(_envelope(http))[0]  # noqa: S314  this process has written it
        blocks = {_local(block): block for block in header}
        for block in header:
            if _local(block) == "SequenceAcknowledgement":
                ranges = [
                    (int(part.attrib["Lower"]), int(part.attrib["Upper"]))
                    for part in block
                    if _local(part) == "AcknowledgementRange"
                ]
                nothing_yet = ranges == [(0, 0)]  # RM-ACK-04
                self._acknowledged(node, _text(block, "Identifier"), () if nothing_yet else tuple(ranges))
            elif _local(block) == "Sequence":
                number = int(_text(block, "MessageNumber"))
                self._sent(node, _text(block, "Identifier"), number, (blocks["MessageID"].text or "").strip())

    def _acknowledged(self, node: NodeView, identifier: str, ranges: Ranges) -> None:
        received = node.store.received(identifier)
        for low, high in ranges:
            if not received.covers(low, high):
                self.violated(f"{node.host} acknowledges {low}..{high} of {identifier}, not committed: {received}")

    def _sent(self, node: NodeView, identifier: str, number: int, message_id: str | None) -> None:
        committed = node.store.number_of(message_id or "")
        if committed is not None and committed != number:
            self.violated(f"{node.host} sends {message_id} as {number}, committed as {committed}")
        known = node.store.source(identifier)
        if known is None or known.machine.last_number < number:
            self.violated(f"{node.host} sends number {number} of {identifier}, not committed")

    def step(self, flow: Flow, server: NodeView) -> None:
        """Check after each event that a flow's messages were handled as its delivery assurance promises."""
        handled = server.ledger.handled.get(flow.key, [])
        expected = expected_handled(flow, flow.messages)
        wrong = delivery_violation(self._variation, handled, expected)
        if wrong is not None:
            self.violated(f"{flow.key}: {wrong}")

    # --- at the end ------------------------------------------------------------------------------------------------

    def everything_arrived(self, flow: Flow, client: NodeView, server: NodeView) -> None:
        sent = client.ledger.sent.get(flow.key, 0)
        handled = server.ledger.handled.get(flow.key, [])
        expected = expected_handled(flow, sent)
        if self._variation.gives_up:
            self._check_dead_letters(flow, client, handled, expected)
        elif self._variation is Variation.AT_MOST_ONCE:
            self._check_at_most_once(flow, client, server, sent)
            return
        elif self._variation is Variation.TIME_TO_LIVE:
            self._check_expired(flow, client, server, sent)
            return
        elif set(handled) != set(expected):
            self.violated(f"{flow.key}: {len(set(handled))} of {len(expected)} messages were handled")
        if not flow.in_out:
            return
        answers = client.ledger.answers.get(flow.key, {})
        for number in range(1, sent + 1):
            got = answers.get(number, [])
            if self._variation.gives_up:
                if len(got) > 1:
                    self.violated(f"{flow.key}: request {number} has {got}")
                continue
            if self._variation is Variation.AT_LEAST_ONCE:
                got = list(dict.fromkeys(got))
            if got != [expected_answer(flow, number)]:
                kind = "a fault" if refuses(number) else "an answer"
                self.violated(f"{flow.key}: request {number} should have {kind} once, has {got}")

    def _check_at_most_once(self, flow: Flow, client: NodeView, server: NodeView, sent: int) -> None:
        """Check AtMostOnce: an unhandled message is a dead letter, and each request has a response or a fault."""
        lost = {letter.message_id for letter in server.store.letters() if letter.direction is Direction.INBOUND}
        unread = {letter.relates_to for letter in client.store.letters() if letter.direction is Direction.INBOUND}
        handled = set(server.ledger.handled.get(flow.key, []))
        answers = client.ledger.answers.get(flow.key, {})
        for number in range(1, sent + 1):
            name = f"urn:{flow.key}:{number}"
            done = body(flow.key, number) in handled
            if done and name in lost:
                self.violated(f"{name} was handled, but its dead letter says that it was not delivered")
            if not done and name not in lost and not (flow.in_out and refuses(number)):
                self.violated(f"{name} was lost without a dead letter")
            if not flow.in_out:
                continue
            answer = "fault Failed" if name in lost else expected_answer(flow, number)
            got = answers.get(number, [])
            if got != ([] if name in unread else [answer]):
                self.violated(f"{flow.key}: request {number} should have {answer[:60]!r} once, has {got}")

    def _check_expired(self, flow: Flow, client: NodeView, server: NodeView, sent: int) -> None:
        """Check that a message was handled or expired, once, and that those without a time to live were handled."""
        dead = [letter.message_id for node in (client, server) for letter in node.store.letters()]
        handled = server.ledger.handled.get(flow.key, [])
        answers = client.ledger.answers.get(flow.key, {})
        for number in range(1, sent + 1):
            name, done = f"urn:{flow.key}:{number}", body(flow.key, number) in handled
            done = done or (flow.in_out and answers.get(number) == ["fault Refused"])
            if [done, *(each == name for each in dead)].count(True) != 1:
                self.violated(f"{name} was handled: {done}, and is {dead.count(name)} dead letters")
            if not done and flow.time_to_live(number) is None:
                self.violated(f"{name} has no time to live, and was not handled")
            if not flow.in_out:
                continue
            got = answers.get(number, [])
            here = any(letter.message_id == name for letter in client.store.letters())
            expected = [] if here else [expected_answer(flow, number) if done else "fault Expired"]
            if got != expected:
                self.violated(f"{flow.key}: request {number} should have {expected}, has {got}")

    def _check_dead_letters(self, flow: Flow, client: NodeView, handled: list[bytes], expected: list[bytes]) -> None:
        """Check that each message was delivered, or is a dead letter with the right certainty."""
        letters: dict[str, Certainty] = {}
        for letter in client.store.letters():
            if letter.direction is Direction.OUTBOUND and letter.message_id is not None:
                if letter.message_id in letters:
                    self.violated(f"{client.host}: two dead letters of {letter.message_id}")
                letters[letter.message_id] = letter.certainty
        arrived = set(handled)
        for xml in expected:
            name = f"urn:{flow.key}:{number_of(xml)}"
            certainty = letters.get(name)
            if certainty is None and xml not in arrived:
                self.violated(f"{name} was lost without a dead letter")
            if certainty is Certainty.NOT_DELIVERED and xml in arrived:
                self.violated(f"{name} was delivered, but its dead letter says that it was not")

    def bytes_counted(self, node: NodeView) -> None:
        """Check the InvokerBuffers' byte counters against their rows: a wrong counter would keep a buffer full
        forever."""
        received = {record.identifier: record.received_bytes for record in node.store.destinations()}
        for buffer, _ in node.store.buffers():
            if buffer.sequence in received:
                counted, rows = received[buffer.sequence] - buffer.consumed_bytes, node.store.bytes_in(buffer.sequence)
                if counted != rows:
                    self.violated(f"{node.host}: {counted} bytes of {buffer.sequence} wait, but its rows have {rows}")

    def everything_ended(self, node: NodeView, nodes: Sequence[NodeView] = ()) -> None:
        """Check that no sequence of a node is in use any more.

        :param nodes: all nodes. Where one of them posts responses outside any sequence, because its CreateSequence was
            accepted and not answered in time, the sequence that it created stays unused until `unused_timeout`.
        """
        self.bytes_counted(node)
        if self._variation.gives_up:
            return  # the source of a failed sequence does not end it at the destination
        # Likewise the sequence of a message that expires before CreateSequence is answered, with that of its responses.
        live = self._variation is Variation.TIME_TO_LIVE
        plain = {each.create_message_id for peer in nodes for each in peer.store.sources() if each.channel.plain}
        unused = set()
        for record in node.store.destinations():
            if not record.machine.used and (live or record.create_message_id in plain):
                unused.add(record.identifier)
            elif not record.machine.tombstone:
                self.violated(f"{node.host}: destination sequence {record.identifier} did not end: {record.machine}")
            self._spells(node, record.machine.state.value, record.machine.predicate())
        for buffer, waiting in node.store.buffers():
            if buffer.sequence not in unused and (buffer.machine.state is not InvokerState.DONE or waiting):
                self.violated(f"{node.host}: buffer {buffer.sequence} is not done: {buffer}")
        for source in node.store.sources():
            if live and source.channel.pair in unused:
                continue
            if source.machine.alive:
                self.violated(f"{node.host}: source sequence did not end: {source.channel.key} {source.machine}")
            replaced = live and source.machine.failure is FailureReason.REPLACED
            if source.machine.failure is not None and not replaced:
                self.violated(f"{node.host}: source sequence failed: {source.channel.key} {source.machine}")
            elif not replaced:
                self._spells(node, source.machine.state.value, source.machine.predicate())
        rows = node.store.rows()
        if rows:
            self.violated(f"{node.host}: {len(rows)} rows are left, {rows[:3]}")
        for letter in node.store.letters():
            if self._variation.leaves_dead_letters and letter.direction is Direction.INBOUND:
                continue
            if self._variation is Variation.TIME_TO_LIVE and letter.reason.startswith("expired: "):
                continue
            self.violated(f"{node.host}: a dead letter: {letter.reason} ({letter.message_id})")

    def _spells(self, node: NodeView, state: str, predicate: str) -> None:
        if state != predicate:
            self.violated(f"{node.host}: state {state}, but the counters say {predicate}")


def _envelope(http: HttpMessage) -> bytes:
    """The envelope of a message; that of an MTOM message is its first part."""
    if not http.content_type.startswith("multipart/"):
        return http.body
    package = email.message_from_bytes(b"Content-Type: %b\r\n\r\n%b" % (http.content_type.encode(), http.body))
    root = package.get_payload(0)
    assert isinstance(root, Message)
    content = root.get_payload(decode=True)
    assert isinstance(content, bytes)
    return content


def _local(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _text(parent: ElementTree.Element, local: str) -> str:
    return next((child.text or "" for child in parent if _local(child) == local), "").strip()
