"""A store that crashes or fails around commits, by chance."""

from __future__ import annotations

from contextlib import AbstractContextManager
from random import Random

from mercury.errors import TransientStorageError
from mercury.simulation.scenario import NodeFaults
from mercury.simulation.stores import Interruptions
from mercury.simulation.wrapped import WrappedStore
from mercury.storage.api import StorageManager, Transaction


class SimulatedCrash(BaseException):
    """The process is gone. Not an `Exception`: nothing may handle it."""


class FaultyStore(WrappedStore):
    """A store, with crashes before and after commits and commits that fail."""

    def __init__(self, inner: StorageManager, faults: NodeFaults, chance: Random, interruptions: Interruptions) -> None:
        super().__init__(inner)
        self._interruptions = interruptions
        self._faults = faults
        self._chance = chance
        #: Cleared when the world heals.
        self.faulty = True
        #: Events the tables rule out, locks out of order: found by the code itself, and swallowed by nobody.
        self.defects: list[str] = []

    def heal(self) -> None:
        """Nothing fails any more."""
        self.faulty = self._interruptions.on = False

    def leave(self, inner: AbstractContextManager[Transaction], error: BaseException | None) -> None:
        """The end of a transaction, and what may go wrong around it."""
        if isinstance(error, AssertionError):
            self.defects.append(f"{type(error).__name__}: {error}")
        mishap: BaseException | None = None
        if error is None and self._happens(self._faults.crash_before_commit):
            mishap = SimulatedCrash()
        elif error is None and self._happens(self._faults.commit_fails):
            mishap = TransientStorageError("the commit failed")
        super().leave(inner, error or mishap)
        if mishap is not None:
            raise mishap
        if error is None and self._happens(self._faults.crash_after_commit):
            raise SimulatedCrash

    def _happens(self, likely: float) -> bool:
        return self.faulty and likely > 0 and self._chance.random() < likely
