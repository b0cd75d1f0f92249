"""A store that crashes the process before or after commits, or fails commits, at random."""

from __future__ import annotations

from contextlib import AbstractContextManager
from random import Random

from mercury.errors import TransientStorageError
from mercury.simulation.scenario import NodeFaults
from mercury.simulation.stores import Interruptions
from mercury.simulation.wrapped import WrappedStore
from mercury.storage.api import Capabilities, StorageManager, Transaction


class SimulatedCrash(BaseException):
    """The simulated process has crashed. It is not an `Exception`, so that no code handles it."""


class FaultyStore(WrappedStore):
    """Wraps a store: crashes before and after commits, and lets commits fail."""

    def __init__(self, inner: StorageManager, faults: NodeFaults, chance: Random, interruptions: Interruptions) -> None:
        super().__init__(inner)
        # Also with SQLite, so that delivery on arrival is interrupted at each statement.
        self.capabilities = Capabilities(durable=True, delivers_on_arrival=True)
        self._interruptions = interruptions
        self._faults = faults
        self._chance = chance
        #: Whether faults occur; false in the healed phase.
        self.faulty = True
        #: Errors by which Mercury's code reports its own defects, such as an event that no table row allows.
        self.defects: list[str] = []

    def heal(self) -> None:
        """Stop all faults."""
        self.faulty = self._interruptions.on = False

    def leave(self, inner: AbstractContextManager[Transaction], error: BaseException | None) -> None:
        """End a transaction, and crash or fail at random."""
        if isinstance(error, AssertionError):
            self.defects.append(f"{type(error).__name__}: {error}")
        if error is not None or not self.faulty:
            super().leave(inner, error)
            return
        failure: BaseException | None = None
        if self._happens(self._faults.crash_before_commit):
            failure = SimulatedCrash()
        elif self._happens(self._faults.commit_fails):
            failure = TransientStorageError("the commit failed")
        super().leave(inner, failure)
        if failure is not None:
            raise failure
        if self._happens(self._faults.crash_after_commit):
            raise SimulatedCrash

    def _happens(self, likely: float) -> bool:
        return self.faulty and likely > 0 and self._chance.random() < likely
