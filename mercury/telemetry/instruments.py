"""The table of metrics. The exporters, docs/monitoring.md and the checks of the alert rules are made from it.

Names and attributes are those of OpenTelemetry's conventions for messaging where they have one; others begin with
``mercury.``. No attribute is an identifier or a key, and each has a limited number of values.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

#: The value of ``messaging.system``.
SYSTEM = "mercury"
#: The value of an attribute for everything above its limit.
OTHER = "other"
#: The destination of responses, which belong to no service.
RESPONSES = "responses"

#: Seconds: the buckets that the conventions prescribe.
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
#: Seconds of waiting: a message may wait for minutes.
WAITING = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0)
#: Numbers of messages.
MESSAGES = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0)


class Kind(enum.Enum):
    """The kind of a metric, as OpenTelemetry and Prometheus have them."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


class Attribute(enum.Enum):
    """An attribute of metrics; its label in Prometheus has underscores instead of dots."""

    #: Always `SYSTEM`.
    SYSTEM = "messaging.system"
    #: ``transmit``, ``accept`` or ``deliver``.
    OPERATION = "messaging.operation.name"
    #: An endpoint's URL without credentials and query, or a service's name.
    DESTINATION = "messaging.destination.name"
    #: The class of an exception, or an HTTP status; empty = no error.
    ERROR = "error.type"
    #: What a message waits for.
    STATE = "mercury.state"
    #: ``source`` or ``destination``.
    SIDE = "mercury.side"
    #: ``outbound`` or ``inbound``.
    DIRECTION = "mercury.direction"
    #: Why messages became dead letters: see `mercury.telemetry.reasons`.
    REASON = "mercury.reason"

    @property
    def label(self) -> str:
        """Its name in Prometheus."""
        return self.value.replace(".", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """One metric."""

    #: The name in OpenTelemetry.
    name: str
    kind: Kind
    #: In UCUM, as OpenTelemetry has it: ``s`` for seconds, ``{message}`` for a number of messages.
    unit: str
    description: str
    attributes: tuple[Attribute, ...] = ()
    #: The upper bounds of a histogram.
    buckets: tuple[float, ...] = ()
    #: It describes the store, and not this process: one process of the store has it.
    of_store: bool = False
    #: The alert it deserves: the name of a rule in deploy/prometheus/alerts.yml; empty = none.
    alert: str = ""

    @property
    def family(self) -> str:
        """The name of the family in Prometheus: with the unit, without the suffix of a counter."""
        return self.name.replace(".", "_") + ("_seconds" if self.unit == "s" else "")

    @property
    def series(self) -> tuple[str, ...]:
        """The names of its series in Prometheus."""
        match self.kind:
            case Kind.COUNTER:
                return (f"{self.family}_total",)
            case Kind.HISTOGRAM:
                return tuple(f"{self.family}{suffix}" for suffix in ("_bucket", "_count", "_sum"))
            case Kind.GAUGE:
                return (self.family,)


_OF_MESSAGING = (Attribute.SYSTEM, Attribute.OPERATION, Attribute.DESTINATION)
_DESTINATION = (Attribute.DESTINATION,)


def _counter(name: str, unit: str, description: str, *attributes: Attribute, alert: str = "") -> Instrument:
    return Instrument(
        name=name, kind=Kind.COUNTER, unit=unit, description=description, attributes=attributes, alert=alert
    )


def _histogram(
    name: str, unit: str, description: str, buckets: tuple[float, ...], *attributes: Attribute, alert: str = ""
) -> Instrument:
    return Instrument(
        name=name,
        kind=Kind.HISTOGRAM,
        unit=unit,
        description=description,
        attributes=attributes,
        buckets=buckets,
        alert=alert,
    )


def _gauge(
    name: str, unit: str, description: str, *attributes: Attribute, of_store: bool = True, alert: str = ""
) -> Instrument:
    return Instrument(
        name=name,
        kind=Kind.GAUGE,
        unit=unit,
        description=description,
        attributes=attributes,
        of_store=of_store,
        alert=alert,
    )


# --- the source ----------------------------------------------------------------------------------------------------

SENT = _counter(
    "messaging.client.sent.messages",
    "{message}",
    "Messages that the application has sent: they are stored and committed here.",
    *_OF_MESSAGING,
)
TRANSMITTED = _counter(
    "mercury.messages.transmitted", "{message}", "Messages that were posted for the first time.", *_DESTINATION
)
RETRANSMITTED = _counter(
    "mercury.messages.retransmitted",
    "{message}",
    "Repeated posts of messages: no acknowledgement came in time, or a request waits for its response.",
    *_DESTINATION,
    alert="MercuryRetransmissions",
)
ACKNOWLEDGED = _counter(
    "mercury.messages.acknowledged",
    "{message}",
    "Messages that their destination has acknowledged.",
    *_DESTINATION,
)
REFUSED = _counter(
    "mercury.messages.refused",
    "{message}",
    "Faults of peers that refuse a message and do not end its sequence. The message is still retransmitted.",
    *_DESTINATION,
    alert="MercuryMessagesRefused",
)
EXCHANGES = _histogram(
    "messaging.client.operation.duration",
    "s",
    "Time of an HTTP exchange that posts a message of any kind, from its begin to its reply or its failure.",
    SECONDS,
    *_OF_MESSAGING,
    Attribute.ERROR,
    alert="MercuryExchangesFail",
)
ACKNOWLEDGEMENT_LATENCY = _histogram(
    "mercury.acknowledgement.latency",
    "s",
    "Time from the first transmission of a message to its acknowledgement, both in this process.",
    WAITING,
    *_DESTINATION,
)
SEQUENCES_FAILED = _counter(
    "mercury.sequences.failed",
    "{sequence}",
    "Source sequences that failed.",
    *_DESTINATION,
    alert="MercurySequenceFailed",
)
STORES_REFUSED = _counter(
    "mercury.stores.refused",
    "{store}",
    "Other stores that have answered for a destination. Nothing is sent to them.",
    *_DESTINATION,
    alert="MercuryStoreRefused",
)

# --- the destination -----------------------------------------------------------------------------------------------

ACCEPTED = _counter(
    "mercury.messages.accepted", "{message}", "Messages that are stored at their destination.", *_DESTINATION
)
DUPLICATES = _counter(
    "mercury.messages.duplicates",
    "{message}",
    "Messages that arrived again and were dropped.",
    *_DESTINATION,
)
CONSUMED = _counter(
    "messaging.client.consumed.messages",
    "{message}",
    "Messages that the application has consumed: the transaction of the handler is committed.",
    *_OF_MESSAGING,
)
PROCESS = _histogram(
    "messaging.process.duration",
    "s",
    "Time of the handler or callback for a message. Handlers that share a savepoint have their mean time.",
    SECONDS,
    *_OF_MESSAGING,
    Attribute.ERROR,
)
HANDLER_FAILURES = _counter(
    "mercury.handler.failures",
    "{call}",
    "Calls of handlers and callbacks that failed and whose failure is recorded. The message is tried again, or becomes "
    "a dead letter.",
    *_DESTINATION,
    Attribute.ERROR,
    alert="MercuryHandlerFails",
)
DELIVERY_LATENCY = _histogram(
    "mercury.delivery.latency",
    "s",
    "Time from the acceptance of a message to the commit of its handler, by the clocks of the processes that did it.",
    WAITING,
    *_DESTINATION,
)

TRANSFER_LATENCY = _histogram(
    "mercury.transfer.latency",
    "s",
    "Time from the call of send at a sender that is Mercury to the commit of the handler, by the clocks of both hosts.",
    WAITING,
    *_DESTINATION,
)

# --- both sides ----------------------------------------------------------------------------------------------------

BATCH_MESSAGES = _histogram(
    "mercury.batch.messages",
    "{message}",
    "Messages of one post (transmit), one transaction that receives (accept), or one run of handlers (deliver).",
    MESSAGES,
    Attribute.OPERATION,
)
DEAD_LETTERED = _counter(
    "mercury.messages.dead_lettered",
    "{message}",
    "Messages that became dead letters.",
    Attribute.DIRECTION,
    Attribute.REASON,
    alert="MercuryDeadLetters",
)
STATEMENTS = _counter(
    "mercury.store.statements",
    "{statement}",
    "Statements that this process has sent to the store's database in transactions.",
)
COMMITS = _counter("mercury.store.commits", "{commit}", "Transactions of this process that the store has committed.")

# --- gauges of the process -----------------------------------------------------------------------------------------

RUNNING = _gauge(
    "mercury.process.running",
    "{process}",
    "1 = every thread of the process runs; 0 = it is not started, is stopped, or a thread has ended unexpectedly.",
    of_store=False,
    alert="MercuryNotRunning",
)
STORE_UP = _gauge(
    "mercury.store.up",
    "{store}",
    "1 = the last query of the store's gauges by this process was answered; 0 = it failed.",
    of_store=False,
    alert="MercuryStoreDown",
)
GAUGES_HERE = _gauge(
    "mercury.store.observer",
    "{process}",
    "1 = this process has the claim to read the gauges of the store, and exports them; 0 = another process has it.",
    of_store=False,
)
IN_DOUBT = _gauge(
    "mercury.xa.in_doubt",
    "{branch}",
    "Prepared branches that the last run of recovery in this process could not finish. They keep their locks.",
    of_store=False,
)
IN_DOUBT_AGE = _gauge(
    "mercury.xa.in_doubt.age",
    "s",
    "Age of the oldest such branch; 0 = there is none.",
    of_store=False,
    alert="MercuryInDoubt",
)

# --- gauges of the store -------------------------------------------------------------------------------------------

WAITING_MESSAGES = _gauge(
    "mercury.messages.waiting",
    "{message}",
    "Messages in the store that wait, among the oldest of each direction: see mercury.messages.uncounted.",
    Attribute.STATE,
    Attribute.DESTINATION,
)
UNCOUNTED = _gauge(
    "mercury.messages.uncounted",
    "{message}",
    "At most so many messages are in the store after those that mercury.messages.waiting counts; 0 = it counts all.",
    Attribute.DIRECTION,
    alert="MercuryBacklog",
)
OLDEST_UNACKNOWLEDGED = _gauge(
    "mercury.oldest.unacknowledged.age",
    "s",
    "Age of the oldest message that is not acknowledged; 0 = there is none.",
    alert="MercuryNotAcknowledged",
)
OLDEST_UNDELIVERED = _gauge(
    "mercury.oldest.undelivered.age",
    "s",
    "Age, since its arrival, of the oldest message that no handler has consumed; 0 = there is none.",
    alert="MercuryNotDelivered",
)
OPEN_SEQUENCES = _gauge("mercury.sequences.open", "{sequence}", "Sequences that have not ended.", Attribute.SIDE)
GAPS = _gauge(
    "mercury.sequences.gaps",
    "{sequence}",
    "Open destination sequences with a gap: a message is missing, and later ones have arrived.",
    alert="MercurySequenceGap",
)
DEAD_LETTERS = _gauge(
    "mercury.dead_letters",
    "{message}",
    "Dead letters in the store, among the newest: see mercury.dead_letters.uncounted.",
    Attribute.DIRECTION,
    Attribute.REASON,
    alert="MercuryDeadLettersWait",
)
LETTERS_UNCOUNTED = _gauge(
    "mercury.dead_letters.uncounted",
    "{message}",
    "At most so many dead letters are older than those that mercury.dead_letters counts; 0 = it counts all.",
)
UNFINISHED = _gauge(
    "mercury.xa.decisions",
    "{transaction}",
    "Two-phase commits that are decided and not finished in every database; a decision log elsewhere does not count.",
)
UNFINISHED_AGE = _gauge(
    "mercury.xa.decisions.age",
    "s",
    "Age of the oldest such decision; 0 = there is none.",
    alert="MercuryCommitUnfinished",
)
CLAIMS = _gauge("mercury.claims", "{claim}", "Claims on sequences that are held now.")
CLAIMS_MOST = _gauge("mercury.claims.most", "{claim}", "The most claims that one process holds.")
NODES = _gauge(
    "mercury.nodes",
    "{process}",
    "Processes that hold a claim of the store now.",
)

#: All metrics, in the order of docs/monitoring.md.
INSTRUMENTS: tuple[Instrument, ...] = (
    SENT,
    TRANSMITTED,
    RETRANSMITTED,
    ACKNOWLEDGED,
    REFUSED,
    EXCHANGES,
    ACKNOWLEDGEMENT_LATENCY,
    SEQUENCES_FAILED,
    STORES_REFUSED,
    ACCEPTED,
    DUPLICATES,
    CONSUMED,
    PROCESS,
    HANDLER_FAILURES,
    DELIVERY_LATENCY,
    TRANSFER_LATENCY,
    BATCH_MESSAGES,
    DEAD_LETTERED,
    STATEMENTS,
    COMMITS,
    RUNNING,
    STORE_UP,
    GAUGES_HERE,
    IN_DOUBT,
    IN_DOUBT_AGE,
    WAITING_MESSAGES,
    UNCOUNTED,
    OLDEST_UNACKNOWLEDGED,
    OLDEST_UNDELIVERED,
    OPEN_SEQUENCES,
    GAPS,
    DEAD_LETTERS,
    LETTERS_UNCOUNTED,
    UNFINISHED,
    UNFINISHED_AGE,
    CLAIMS,
    CLAIMS_MOST,
    NODES,
)
