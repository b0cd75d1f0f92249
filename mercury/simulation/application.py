"""The applications of a simulation: their writes to a ledger commit or roll back with the message's transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from mercury.engine.application import MessageContext, Operation
from mercury.engine.events import DeadLettered, SequenceFailed
from mercury.engine.observers import Observers
from mercury.engine.registry import Registry
from mercury.errors import ApplicationFault, MercuryError
from mercury.simulation.flows import Flow
from mercury.simulation.scenario import Scenario
from mercury.storage.application import Transaction
from mercury.storage.records import Channel, OutboundKind, OutboundMessage
from mercury.wire.envelope import Payload

SERVICE = "ledger"
ONE_WAY, TWO_WAY = "urn:simulation:Note", "urn:simulation:Ask"
#: The handler answers every request whose number is a multiple of this with a fault.
REFUSES_EVERY = 13


def body(key: str, number: int) -> bytes:
    """The body of a message: its key, its number, and text with characters that XML must escape."""
    text = "ä&amp;\t]]&gt;" * (number % 5)
    return f'<e:entry xmlns:e="urn:e" key="{key}" n="{number}"><e:t>{text}</e:t></e:entry>'.encode()


def messages(flow: Flow, number: int, channel: Channel, now: float) -> list[OutboundMessage]:
    """What the application sends as this message of a flow: perhaps an end behind it."""
    lasts = flow.time_to_live(number)
    row = OutboundMessage(
        message_id=f"urn:{flow.key}:{number}",
        channel=channel,
        action=TWO_WAY if flow.in_out else ONE_WAY,
        payload=body(flow.key, number),
        expects_response=flow.in_out,
        callback="answer" if flow.in_out else None,
        correlation=f"{flow.key}/{number}",
        created_at=now,
        expires_at=None if lasts is None else now + lasts,
    )
    if number not in flow.ends_after and number != flow.messages:
        return [row]
    abandons = flow.abandons and number != flow.messages
    kind = OutboundKind.ABANDON if abandons else OutboundKind.END
    return [row, OutboundMessage(message_id=f"urn:{flow.key}:end{number}", channel=channel, kind=kind)]


def refuses(number: int) -> bool:
    return number % REFUSES_EVERY == 0


@dataclass(slots=True)
class Ledger:
    """The committed writes of one node's applications, which survive a crash of the node."""

    #: key -> how many messages of it were sent.
    sent: dict[str, int] = field(default_factory=dict)
    #: key -> the bodies that were handled, in order.
    handled: dict[str, list[bytes]] = field(default_factory=dict)
    #: key -> number of the request -> the responses that were consumed for it.
    answers: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    #: The failures that the application's observers received.
    reported: list[str] = field(default_factory=list)


class SimulatedApplication:
    """Handlers and callbacks of one node, over its ledger."""

    def __init__(self, scenario: Scenario, ledger: Ledger, chance: Random, *, healed: bool) -> None:
        self._faults = scenario.node
        self._ledger = ledger
        self._chance = chance
        self.healed = healed
        #: Called in each handler and callback.
        self.handling: Callable[[], None] = _nothing
        self.registry = Registry(default_policy=scenario.destination)
        self.observers = Observers()
        self.observers.subscribe(self._failed, SequenceFailed)
        self.observers.subscribe(self._dead_lettered, DeadLettered)
        operations = (
            Operation(name="Note", action=ONE_WAY, response_action=None, call=self._note),
            Operation(name="Ask", action=TWO_WAY, response_action=TWO_WAY + "Response", call=self._ask),
        )
        self.registry.add_service(SERVICE, operations)
        self.registry.add_callback("answer", self._answer)

    def _note(self, context: MessageContext, payload: Payload) -> Payload | None:
        self._fail_by_chance()
        self._write(context.transaction, payload.xml)
        return None

    def _ask(self, context: MessageContext, payload: Payload) -> Payload:
        self._fail_by_chance()
        self._write(context.transaction, payload.xml)
        if refuses(number_of(payload.xml)):
            raise ApplicationFault("no", code="Refused")  # the write above must be rolled back
        return Payload(b"<answer>" + payload.xml + b"</answer>")

    def _answer(self, context: MessageContext, response: Payload | MercuryError) -> None:
        self._fail_by_chance()
        key, _, number = (context.correlation or "").rpartition("/")
        text = response.xml.decode() if isinstance(response, Payload) else f"fault {getattr(response, 'code', '')}"
        ledger = self._ledger.answers.setdefault(key, {})
        context.transaction.after_commit(lambda: ledger.setdefault(int(number), []).append(text))

    def _write(self, tx: Transaction, xml: bytes) -> None:
        handled = self._ledger.handled.setdefault(_key(xml), [])
        tx.after_commit(lambda: handled.append(xml))

    def _fail_by_chance(self) -> None:
        self.handling()
        if not self.healed and self._chance.random() < self._faults.handler_fails:
            raise RuntimeError("a handler failed")

    # --- observing -------------------------------------------------------------------------------------------------

    def _failed(self, event: SequenceFailed) -> None:
        text = f"failed {event.endpoint} {event.key}: {event.reason}, {event.dead_letters} dead letters"
        self._ledger.reported.append(text)

    def _dead_lettered(self, event: DeadLettered) -> None:
        self._ledger.reported += (f"dead letter {letter.message_id}: {letter.reason}" for letter in event.letters)


def _nothing() -> None:
    """Do nothing."""


def expected_handled(flow: Flow, sent: int) -> list[bytes]:
    """The bodies that the server's ledger must have when all messages of a flow have been delivered."""
    numbers = range(1, sent + 1)
    return [body(flow.key, number) for number in numbers if not (flow.in_out and refuses(number))]


def expected_answer(flow: Flow, number: int) -> str:
    if refuses(number):
        return "fault Refused"
    return f"<answer>{body(flow.key, number).decode()}</answer>"


def _key(xml: bytes) -> str:
    return xml.split(b'key="', 1)[1].split(b'"', 1)[0].decode()


def number_of(xml: bytes) -> int:
    """The number in a `body`."""
    return int(xml.split(b' n="', 1)[1].split(b'"', 1)[0])
