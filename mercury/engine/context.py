"""The objects that every part of the engine shares: store, application, settings, claims."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mercury.engine.answered_together import AnsweredTogether
from mercury.engine.appended import AppendedKeys
from mercury.engine.claims import ClaimKeeper
from mercury.engine.cool_down import RecentRefusals
from mercury.engine.endpoint_errors import EndpointErrors
from mercury.engine.expired import Expired
from mercury.engine.log_limiter import LOG_INTERVAL, LogLimiter
from mercury.engine.own_locks import OwnLocks
from mercury.engine.rates import Rates
from mercury.engine.running_calls import RunningCalls
from mercury.engine.settings import EngineSettings
from mercury.engine.stage_room import StageRoom
from mercury.engine.stored import StoredOfPeers
from mercury.storage.outages import Outages
from mercury.wire.prepared import PreparedEnvelopes

if TYPE_CHECKING:
    from mercury.engine.application import Application
    from mercury.engine.ids import Ids
    from mercury.engine.measurements import Measurements
    from mercury.engine.message_security import SecurityParties
    from mercury.engine.observers import Observers
    from mercury.engine.tracing import Tracing
    from mercury.storage.api import StorageManager


def _once_a_minute() -> LogLimiter:
    return LogLimiter(1, LOG_INTERVAL)


@dataclass(slots=True, kw_only=True)
class EngineContext:
    """The objects that all parts of the engine share. The builder of the engine passes them in."""

    store: StorageManager
    application: Application
    observers: Observers
    ids: Ids
    settings: EngineSettings
    claims: ClaimKeeper
    security: SecurityParties
    #: Takes counts and times, for operators and for the metrics; ``None`` = nothing does.
    measurements: Measurements | None = None
    #: The store is a stage, whose messages another worker moves on; ``None`` = it is not.
    stage: StageRoom | None = None
    #: Messages say to Mercury when they were sent: the process has metrics.
    timed: bool = False
    #: What answers say of the store (decision 73); ``None`` = nothing: it ends with the process.
    store_id: str | None = None
    #: Whether other processes may work on the store now.
    others: bool = False
    #: Makes spans; ``None`` = the process does not trace.
    tracing: Tracing | None = None
    outages: Outages = field(default_factory=Outages)
    #: Calls of handlers and callbacks that run now.
    running_calls: RunningCalls = field(default_factory=RunningCalls)
    #: Endpoints whose last exchange failed, with the reason.
    endpoint_errors: EndpointErrors = field(default_factory=EndpointErrors)
    #: Refusals of CreateSequence in the last second.
    recent_refusals: RecentRefusals = field(default_factory=RecentRefusals)
    #: Limits the log line about dead letters of peers that fill a limit.
    letters_log: LogLimiter = field(default_factory=_once_a_minute)
    #: Limits the log line about requests that wait because too many responses are stored.
    held_log: LogLimiter = field(default_factory=_once_a_minute)
    #: Limits the warnings that one peer causes, for example by naming sequences of others.
    peer_log: LogLimiter = field(default_factory=lambda: LogLimiter(10, LOG_INTERVAL))
    #: Limits the log line about copies of messages with WS-Security.
    copies_log: LogLimiter = field(default_factory=_once_a_minute)
    #: Counts, by peer, sequences that expired unused and were forgotten.
    expired: Expired = field(init=False)
    #: Source sequences to which commits have appended messages.
    appended: AppendedKeys = field(default_factory=AppendedKeys)
    #: Destination sequences that workers of this process lock.
    own_locks: OwnLocks = field(default_factory=OwnLocks)
    #: How many requests are answered together.
    answered_together: AnsweredTogether = field(default_factory=AnsweredTogether)
    #: Encodes the messages of sequences and the acknowledgements.
    prepared: PreparedEnvelopes = field(default_factory=PreparedEnvelopes)
    #: Limits on messages a second; ``None`` = there are none.
    rates: Rates | None = field(init=False)
    #: Unacknowledged responses, by owner and by sequence of requests.
    responses: StoredOfPeers = field(init=False)
    #: Dead letters that peers have caused, by owner and by sequence.
    letters: StoredOfPeers = field(init=False)

    def __post_init__(self) -> None:
        most, rates = self.settings.max_sequences, self.settings.rates
        self.rates = Rates(rates) if rates.endpoints or rates.services else None
        self.responses, self.letters = StoredOfPeers(most), StoredOfPeers(most)
        self.expired = Expired(self.settings.max_ended, self.settings.remember_ended)
