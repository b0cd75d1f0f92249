"""The engine: the parts put together, without threads, sockets or a clock."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from mercury.engine.address_book import AddressBook
from mercury.engine.application import Application
from mercury.engine.claims import ClaimKeeper
from mercury.engine.context import EngineContext
from mercury.engine.delivery.invocation import InvocationWorker
from mercury.engine.delivery.on_arrival import ArrivalDelivery
from mercury.engine.destination.delivering import reserve_nothing
from mercury.engine.destination.reception import Reception
from mercury.engine.destination.worker import DestinationWorker
from mercury.engine.exchange import Answer, Arrival, Outgoing, PendingResponse, Purpose, Response, messages_in
from mercury.engine.ids import Ids
from mercury.engine.measurements import Measurements
from mercury.engine.members import Members
from mercury.engine.message_security import SecurityParties
from mercury.engine.observers import Observers
from mercury.engine.running_calls import RunningCalls
from mercury.engine.runtime.clock import ClockWorker
from mercury.engine.runtime.node import write_traffic
from mercury.engine.runtime.store_guard import OtherStore
from mercury.engine.settings import EngineSettings
from mercury.engine.source.back_channel import in_reply
from mercury.engine.source.peer_store import refuse_store
from mercury.engine.source.worker import SourceWorker
from mercury.engine.stage.application import StagedApplication
from mercury.engine.stage.mover import StageMover, Target
from mercury.engine.store_probe import probe_for
from mercury.engine.tracing import Tracing
from mercury.engine.traffic import TrafficCounter
from mercury.errors import StorageError
from mercury.statemachine.protocol import RmVersion
from mercury.storage.api import StorageManager, Topic
from mercury.storage.claims import WorkFilter
from mercury.wire.envelope import Envelope, HttpMessage, Undecodable
from mercury.wire.verified import Verified

log = logging.getLogger("mercury.engine")

#: The longest time between two turns of a worker that nothing has woken, in seconds.
LONGEST_PAUSE = 60.0

#: The most refused addresses that a process learns at its start.
MOST_REFUSED = 1000
#: Posts whose HTTP reply is noted in the store, or may be.
_NOTED = frozenset({Purpose.TERMINATE, Purpose.ACKNOWLEDGEMENT})


class Engine:
    """The engine of one node. The caller passes times, in seconds since the epoch.

    ``source``, ``destination`` and ``invocation`` are workers with ``run_once(now)``. The caller posts their messages
    and reports each result by `answered` or `failed`. It runs ``clock`` about every second.

    :param observers: called with events, after the commit.
    :param security: WS-Security of the messages; ``None`` = no message has or needs it.
    :param measurements: takes counts and times; ``None`` = nothing is measured.
    :param target: ``store`` is a stage: its messages are moved there, and not handed to the application.
    :param addresses: the destinations with several addresses; ``None`` = the settings name none.
    :param tracing: makes spans; ``None`` = none are made.
    :param store_id: what answers say of the store; ``None`` = nothing.
    :param members: gets the processes that serve on the store; ``None`` = this process names none to clients.
    :param monotonic: returns the time of a monotonic clock, in seconds, because the clock of ``now`` may be set.
    """

    def __init__(
        self,
        *,
        store: StorageManager,
        application: Application,
        observers: Observers,
        ids: Ids,
        settings: EngineSettings,
        security: SecurityParties | None = None,
        measurements: Measurements | None = None,
        target: Target | None = None,
        tracing: Tracing | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        addresses: AddressBook | None = None,
        store_id: str | None = None,
        members: Members | None = None,
    ) -> None:
        #: Counts what this process does, for operators; passes on what it gets.
        self.traffic = TrafficCounter(measurements, monotonic)
        claims = ClaimKeeper(store, ids.new(), settings.lease, monotonic)
        self._context = EngineContext(
            store=store,
            application=application if target is None else StagedApplication(application, target.settings),
            observers=observers,
            ids=ids,
            settings=settings,
            claims=claims,
            security=security or SecurityParties(time.time, ids.new),
            measurements=self.traffic,
            timed=measurements is not None,
            tracing=tracing,
            running_calls=RunningCalls(self.traffic),
            stage=target.room if target is not None else None,
            store_id=store_id,
            others=store.capabilities.shared,  # until it is known
        )
        #: The id of the store that answers state; ``None`` = they state none.
        self.store_id = store_id
        #: The processes that this one names to clients.
        self.members = members
        #: Endpoints whose last exchange failed, with the reason; the caller that posts reports failures here.
        self.endpoint_errors = self._context.endpoint_errors
        #: The destinations with several addresses.
        self.addresses = addresses or AddressBook()
        #: The addresses of peers that may be used although this side has not named them.
        self.address_policy = settings.addresses
        #: Takes the times of exchanges.
        self.measurements: Measurements = self.traffic
        #: The handlers and callbacks that run now.
        self.running_calls = self._context.running_calls
        #: The store's outages, as seen by this process.
        self.outages = self._context.outages
        self.source = SourceWorker(self._context)
        self.destination = DestinationWorker(self._context)
        #: Delivers messages in the transactions that receive them; ``None`` = the store is a stage.
        self.on_arrival: ArrivalDelivery | None = None
        self.invocation: InvocationWorker | StageMover
        if target is None:
            self.invocation = InvocationWorker(self._context)
            self.on_arrival = self.invocation.on_arrival
        else:
            self.invocation = StageMover(self._context, target, application)
        reserve = self.on_arrival.reserved if self.on_arrival is not None else reserve_nothing
        self._reception = Reception(self._context, self.source, reserve)
        self.clock = ClockWorker(self._context, monotonic)

    def receive(
        self, arrivals: Sequence[Arrival], now: float, *, delivers: bool = True, postpones: bool = False
    ) -> list[Answer]:
        """Handle what arrived, all in one transaction; one answer each, in the same order. Never raises.

        See `Reception.receive`.
        """
        return self._reception.receive(arrivals, now, delivers=delivers, postpones=postpones)

    def decode(self, http: HttpMessage, service: str | None) -> Envelope | Undecodable:
        """Decode an HTTP message to a service, for `Arrival`. Unlike the other methods it may be called in any
        thread."""
        return self._reception.decode(http, service)

    def is_secured(self, service: str | None) -> bool:
        """Whether messages to a service are checked by `decode`, which then takes milliseconds."""
        return self._context.security.concerns(service)

    def is_secured_endpoint(self, url: str) -> bool:
        """Whether messages to an endpoint have WS-Security: `encoded` and `answered` take milliseconds then."""
        return self._context.security.concerns_endpoint(url)

    def encoded(self, outgoing: Outgoing) -> HttpMessage:
        """A post as it goes over the network. May be called in any thread.

        :raises TransportError: WS-Security cannot be applied to it.
        """
        http = self._context.security.secured(self._context.prepared.encode(outgoing.envelope), outgoing.url)
        trace, store = outgoing.envelope.trace, outgoing.store
        return http if trace is None and store is None else replace(http, trace=trace, store=store)

    def probe(self, outgoing: Outgoing) -> HttpMessage:
        """The message that asks which store is at the address of a post. May be called in any thread.

        :raises TransportError: WS-Security cannot be applied to it.
        """
        return self.encoded(probe_for(outgoing, self._context.ids.new()))

    def store_refused(self, endpoint: str, error: OtherStore, now: float) -> None:
        """Report that another store has answered for a destination.

        :raises StorageError: the store failed.
        """
        with self._context.store.transaction() as tx:
            refuse_store(tx, self._context, endpoint, error.address, error.expected, error.found, now)

    def store_answers(self, endpoint: str, address: str) -> None:
        """Report that the store of a destination answers at an address where another one did before.

        :raises StorageError: the store failed.
        """
        with self._context.store.transaction() as tx:
            tx.peer_stores.answers(endpoint, address)

    def refused_addresses(self) -> dict[str, str]:
        """The addresses where other stores have answered, with the ids of those.

        :raises StorageError: the store failed.
        """
        with self._context.store.transaction() as tx:
            found = tx.peer_stores.refused(MOST_REFUSED)
        return {each.refused_address: each.refused for each in found if each.refused_address and each.refused}

    def secured_reply(self, http: HttpMessage, service: str | None, request: Verified | None) -> HttpMessage:
        """The answer to a message to a service as it goes over the network. May be called in any thread.

        :param request: `Arrival.verified`.
        """
        return self._context.security.secured_reply(http, service, request)

    @property
    def ids(self) -> Ids:
        """Where its identifiers come from."""
        return self._context.ids

    def respond(self, waiting: Sequence[PendingResponse], now: float, *, partly: bool = False) -> HttpMessage | None:
        """The responses that a held exchange waits for; ``None`` = they are not stored yet.

        :param partly: some of them are enough.
        """
        found, _ = self._reception.responses(waiting, now)
        return in_reply(found, waiting, self._context.ids) if found and (partly or len(found) == len(waiting)) else None

    def responses(self, waiting: Sequence[PendingResponse], now: float) -> tuple[list[Response], frozenset[str]]:
        """The stored ones of the responses that held exchanges wait for; and the requests of those left for a later
        call."""
        return self._reception.responses(waiting, now)

    def answered(self, outgoing: Outgoing, reply: HttpMessage, now: float) -> Arrival | None:
        """Report the HTTP reply to a post. Returns the envelope in it, which the caller passes to `receive`.

        :param reply: a reply of any status; without an envelope it counts as a failure unless it is 2xx (HTTP-02).
        """
        if _ends_by_acceptance(outgoing, reply):
            self._reception.end_accepted(outgoing, now)
        elif (
            outgoing.purpose is Purpose.MESSAGE
            and outgoing.envelope.sequence is None
            and reply.status in range(200, 300)
        ):
            self._reception.reply_accepted(outgoing, now)
        elif outgoing.purpose is Purpose.CREATE and reply.status in range(200, 300) and not reply.body:
            self._reception.creation_accepted(outgoing, now)
        if not reply.body and reply.status >= 300:
            self.failed(outgoing, f"HTTP status {reply.status}", now)
            return None
        if outgoing.purpose is Purpose.ACKNOWLEDGEMENT:
            try:
                self.destination.acknowledgement_taken(outgoing, now)
            except StorageError as error:
                self.outages.failed(
                    error, f"acknowledgements to {outgoing.url}"
                )  # the acknowledgements are due again later
        envelope = self._reception.decode_reply(reply, outgoing.url) if reply.body else None
        if outgoing.held and outgoing.key is not None and outgoing.last is not None and reply.status < 300:
            requests = outgoing.last - (outgoing.number or 0) + 1
            self._context.answered_together.answered(outgoing.key, requests, messages_in(envelope), now)
        if envelope is None:
            return None
        return Arrival(http=reply, url=outgoing.url, peer=outgoing.url, request=outgoing, envelope=envelope)

    @staticmethod
    def reply_needs_store(outgoing: Outgoing, *, empty: bool) -> bool:
        """Whether `answered` or `failed` may use the store, and so may take long.

        :param empty: the reply has no body, or there is none.
        """
        if outgoing.purpose is Purpose.CREATE:  # only an answer that may come later is noted
            return empty
        return outgoing.purpose in _NOTED or (
            outgoing.purpose is Purpose.MESSAGE and outgoing.envelope.sequence is None
        )

    def failed(self, outgoing: Outgoing, error: str, now: float) -> None:
        """Report that a post has failed. The message may have arrived nevertheless; it is sent again when it is due."""
        log.debug(
            "%s to %s failed: %s",
            outgoing.purpose.value,
            outgoing.url,
            error,
            extra={"record": outgoing.record_id, "sequence": outgoing.rmd, "number": outgoing.number},
        )
        if outgoing.purpose is Purpose.ACKNOWLEDGEMENT and outgoing.rmd is not None:
            try:
                self.destination.acknowledgement_failed(outgoing, outgoing.rmd, now)
            except StorageError as error:
                # The source repeats the unacknowledged messages, which are then acknowledged again.
                self.outages.failed(error, f"an acknowledgement of {outgoing.rmd}")

    def work_due(self, now: float) -> dict[Topic, float]:
        """When the earliest work of each worker is due that this process may take, by one query."""
        work_filter = WorkFilter(self._context.claims.owner, self._context.application.services())
        return self._context.store.work_due(now, work_filter)

    @property
    def longest_pause(self) -> float:
        """The longest time between two turns of a worker, in seconds, if `work_due` is called meanwhile."""
        return min(LONGEST_PAUSE, self._context.settings.integrity_interval)

    @property
    def owner(self) -> str:
        """The owner of the claims of this process: random, and another one at each start."""
        return self._context.claims.owner

    def note_others(self, others: bool) -> None:
        """Note whether other processes work on the store."""
        self._context.others = others

    def late_deliveries(self, seconds: float) -> frozenset[str]:
        """The sequences that transactions of arrivals have locked whose calls have taken longer. May be called in any
        thread."""
        return self.on_arrival.late(seconds) if self.on_arrival is not None else frozenset()

    def call_seconds(self, arrival: Arrival) -> float:
        """How long the calls for an arrival take in the transaction that receives it, in seconds. May be called in any
        thread."""
        return self.on_arrival.seconds(arrival) if self.on_arrival is not None else 0.0

    def services(self) -> frozenset[str] | None:
        """The services that this process hosts; ``None`` = all."""
        return self._context.application.services()

    def stop(self, now: float) -> None:
        """Release all claims, write what this process has done, and say that it does not run any more."""
        try:
            self._context.claims.release_all()
            if self._context.store.capabilities.shared:
                write_traffic(self._context.store, self.owner, self.traffic, now)
                self._context.store.forget_node(self.owner)
        except StorageError as error:
            self.outages.failed(error, "the end of this process")  # its claims expire


def _ends_by_acceptance(outgoing: Outgoing, reply: HttpMessage) -> bool:
    """Whether a reply without a fault settles the end.

    WS-RM 1.0: TerminateSequence is one-way, and HTTP acceptance is enough (RM10-TRM-04). WS-RM 1.1: a peer whose answer
    was lost may have forgotten the sequence, and accepts the repetition with an empty reply (LIVE-08).
    """
    if outgoing.purpose is not Purpose.TERMINATE or not 200 <= reply.status < 300:
        return False
    return outgoing.envelope.rm is RmVersion.RM10 or (outgoing.repeated and not reply.body)
