"""What every part of the engine shares: store, application, settings, claims."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mercury.engine.claims import ClaimKeeper
from mercury.engine.cool_down import RecentRefusals
from mercury.engine.endpoint_errors import EndpointErrors
from mercury.engine.expired import Expired
from mercury.engine.running_calls import RunningCalls
from mercury.engine.settings import EngineSettings
from mercury.engine.stored import StoredResponses
from mercury.storage.outages import Outages

if TYPE_CHECKING:
    from mercury.engine.application import Application
    from mercury.engine.ids import Ids
    from mercury.engine.observers import Observers
    from mercury.storage.api import StorageManager


class Said:
    """What the log says again after a minute at the earliest, however often it is so."""

    PAUSE = 60.0

    def __init__(self) -> None:
        self._at: float | None = None

    def again(self, now: float) -> bool:
        """Whether it is to be said now."""
        if self._at is not None and 0 <= now - self._at < self.PAUSE:
            return False
        self._at = now
        return True


@dataclass(slots=True, kw_only=True)
class EngineContext:
    """What all parts of the engine share, given by the one who builds it."""

    store: StorageManager
    application: Application
    observers: Observers
    ids: Ids
    settings: EngineSettings
    claims: ClaimKeeper
    outages: Outages = field(default_factory=Outages)
    #: What the application is doing.
    running_calls: RunningCalls = field(default_factory=RunningCalls)
    #: Endpoints whose last exchange failed, with the reason.
    endpoint_errors: EndpointErrors = field(default_factory=EndpointErrors)
    #: Whether sequences of peers that were refused a moment ago would be refused still.
    recent_refusals: RecentRefusals = field(default_factory=RecentRefusals)
    #: That dead letters of peers fill a limit.
    letters_said: Said = field(default_factory=Said)
    #: That requests wait because too many responses are stored.
    held_said: Said = field(default_factory=Said)
    #: Whose sequences were made for a moment only.
    expired: Expired = field(init=False)
    #: What is stored of responses, without a question to the store.
    stored: StoredResponses = field(init=False)

    def __post_init__(self) -> None:
        self.stored = StoredResponses(self.settings.max_sequences)
        self.expired = Expired(self.settings.max_ended, self.settings.remember_ended)
