"""The engine: the parts put together, without threads, sockets or a clock."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from mercury.engine.application import Application
from mercury.engine.claims import ClaimKeeper
from mercury.engine.context import EngineContext
from mercury.engine.delivery.invocation import InvocationWorker
from mercury.engine.destination.reception import Reception
from mercury.engine.destination.worker import DestinationWorker
from mercury.engine.exchange import Answer, Arrival, Outgoing, PendingResponse, Purpose, Response
from mercury.engine.ids import Ids
from mercury.engine.observers import Observers
from mercury.engine.runtime.clock import ClockWorker
from mercury.engine.settings import EngineSettings
from mercury.engine.source.back_channel import in_reply
from mercury.engine.source.worker import SourceWorker
from mercury.errors import StorageError
from mercury.statemachine.protocol import RmVersion
from mercury.storage.api import StorageManager
from mercury.wire.envelope import Envelope, HttpMessage, Undecodable

log = logging.getLogger("mercury.engine")


class Engine:
    """Everything that happens at one node. Times are seconds since the epoch, given by the caller.

    ``source``, ``destination`` and ``invocation`` are workers with ``run_once(now)``; their posts are carried out by
    the caller, which reports the result by `answered` or `failed`. ``clock`` runs about every second.

    :param observers: are called with events, after the commit.
    :param monotonic: seconds that only ever grow; the clock that gives ``now`` may be set.
    """

    def __init__(
        self,
        *,
        store: StorageManager,
        application: Application,
        observers: Observers,
        ids: Ids,
        settings: EngineSettings,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        claims = ClaimKeeper(store, ids.new(), settings.lease, monotonic)
        self._context = EngineContext(
            store=store,
            application=application,
            observers=observers,
            ids=ids,
            settings=settings,
            claims=claims,
        )
        #: Endpoints whose last exchange failed, with the reason; reported by the one who carries the posts out.
        self.endpoint_errors = self._context.endpoint_errors
        #: What the application is doing.
        self.running_calls = self._context.running_calls
        #: What is known of the store's health in this process.
        self.outages = self._context.outages
        self._reception = Reception(self._context)
        self.source = SourceWorker(self._context)
        self.destination = DestinationWorker(self._context)
        self.invocation = InvocationWorker(self._context)
        self.clock = ClockWorker(self._context, monotonic)

    def receive(self, arrivals: Sequence[Arrival], now: float) -> list[Answer]:
        """Handle what arrived, all in one transaction; one answer each, in the same order. Never raises."""
        return self._reception.receive(arrivals, now)

    def decode(self, http: HttpMessage, service: str | None) -> Envelope | Undecodable:
        """What an HTTP message to a service says, for `Arrival`. Unlike the rest, it may be called in any thread."""
        return self._reception.decode(http, service)

    def respond(self, waiting: PendingResponse, now: float) -> HttpMessage | None:
        """The response that an exchange waits for, if it is there by now."""
        found, _ = self._reception.responses([waiting], now)
        return in_reply(found[0], waiting) if found else None

    def responses(self, waiting: Sequence[PendingResponse], now: float) -> tuple[list[Response], frozenset[str]]:
        """Of the responses that exchanges wait for those that are there by now; and the requests of further ones."""
        return self._reception.responses(waiting, now)

    def answered(self, outgoing: Outgoing, reply: HttpMessage, now: float) -> Arrival | None:
        """A post was answered. Returns what the answer brought, to be given to `receive`.

        :param reply: any status; one that carries no envelope counts as not arrived unless it is 2xx (HTTP-02).
        """
        if _ends_by_acceptance(outgoing, reply):
            self._reception.end_accepted(outgoing, now)
        elif (
            outgoing.purpose is Purpose.MESSAGE
            and outgoing.envelope.sequence is None
            and reply.status in range(200, 300)
        ):
            self._reception.reply_accepted(outgoing, now)
        if not reply.body and reply.status >= 300:
            self.failed(outgoing, f"HTTP status {reply.status}", now)
            return None
        if outgoing.purpose is Purpose.ACKNOWLEDGEMENT:
            try:
                self.destination.acknowledgement_taken(outgoing.url, now)
            except StorageError as error:
                self.outages.failed(error, f"acknowledgements to {outgoing.url}")  # they are due later
        if not reply.body:
            return None
        envelope = self.decode(reply, None)
        return Arrival(http=reply, url=outgoing.url, peer=outgoing.url, request=outgoing, envelope=envelope)

    def failed(self, outgoing: Outgoing, error: str, now: float) -> None:
        """A post did not get through, as far as is known. What it said is said again when it is due."""
        log.debug(
            "%s to %s failed: %s",
            outgoing.purpose.value,
            outgoing.url,
            error,
            extra={"record": outgoing.record_id, "sequence": outgoing.rmd, "number": outgoing.number},
        )
        if outgoing.purpose is Purpose.ACKNOWLEDGEMENT and outgoing.rmd is not None:
            try:
                self.destination.acknowledgement_failed(outgoing.url, outgoing.rmd, now)
            except StorageError as error:
                # What is acknowledged is repeated by its source, and acknowledged again.
                self.outages.failed(error, f"an acknowledgement of {outgoing.rmd}")

    def stop(self) -> None:
        """Give all claims back."""
        self._context.claims.release_all()


def _ends_by_acceptance(outgoing: Outgoing, reply: HttpMessage) -> bool:
    """Whether a reply without a fault settles the end.

    WS-RM 1.0: TerminateSequence is one-way; that the transport took it is enough (RM10-TRM-04). WS-RM 1.1: a peer
    whose answer was lost may have forgotten the sequence, and accepts the repetition without a word (LIVE-08).
    """
    if outgoing.purpose is not Purpose.TERMINATE or not 200 <= reply.status < 300:
        return False
    return outgoing.envelope.rm is RmVersion.RM10 or (outgoing.repeated and not reply.body)
