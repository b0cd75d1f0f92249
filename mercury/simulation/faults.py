"""A store that crashes or fails around commits, by chance."""

from __future__ import annotations

from contextlib import AbstractContextManager
from random import Random

from mercury.errors import TransientStorageError
from mercury.simulation.scenario import NodeFaults
from mercury.simulation.stores import Interruptions
from mercury.storage.api import Capabilities, StorageManager, Told, Topic, Transaction
from mercury.storage.claims import Claim, Seeker
from mercury.storage.records import SequenceKey
from mercury.storage.upkeep import Pauses


class SimulatedCrash(BaseException):
    """The process is gone. Not an `Exception`: nothing may handle it."""


class _FaultyTransaction:
    """Leaves the real transaction the way the faults have it."""

    def __init__(self, store: FaultyStore, inner: AbstractContextManager[Transaction]) -> None:
        self._store = store
        self._inner = inner

    def __enter__(self) -> Transaction:
        return self._inner.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._store.leave(self._inner, error)


class FaultyStore:
    """A store, with crashes before and after commits and commits that fail."""

    capabilities = Capabilities(durable=True)

    def __init__(self, inner: StorageManager, faults: NodeFaults, chance: Random, interruptions: Interruptions) -> None:
        self._interruptions = interruptions
        self.inner = inner
        self._faults = faults
        self._chance = chance
        #: Cleared when the world heals.
        self.faulty = True
        #: Events the tables rule out, locks out of order: found by the code itself, and swallowed by nobody.
        self.defects: list[str] = []

    def heal(self) -> None:
        """Nothing fails any more."""
        self.faulty = self._interruptions.on = False

    def transaction(self) -> _FaultyTransaction:
        return _FaultyTransaction(self, self.inner.transaction())

    def join(self, work: object) -> AbstractContextManager[Transaction]:
        return self.inner.join(work)

    def leave(self, inner: AbstractContextManager[Transaction], error: BaseException | None) -> None:
        """The end of a transaction, and what may go wrong around it."""
        if isinstance(error, AssertionError):
            self.defects.append(f"{type(error).__name__}: {error}")
        mishap: BaseException | None = None
        if error is None and self._happens(self._faults.crash_before_commit):
            mishap = SimulatedCrash()
        elif error is None and self._happens(self._faults.commit_fails):
            mishap = TransientStorageError("the commit failed")
        left_with = error or mishap
        inner.__exit__(type(left_with) if left_with else None, left_with, None)
        if mishap is not None:
            raise mishap
        if error is None and self._happens(self._faults.crash_after_commit):
            raise SimulatedCrash

    def _happens(self, likely: float) -> bool:
        return self.faulty and likely > 0 and self._chance.random() < likely

    def due_rmd(self, now: float, limit: int) -> list[str]:
        return self.inner.due_rmd(now, limit)

    def due_invoker(self, now: float, limit: int, seeker: Seeker | None = None) -> dict[str, str]:
        return self.inner.due_invoker(now, limit, seeker)

    def stuck_invoker(self, now: float, limit: int, seeker: Seeker | None = None) -> list[str]:
        return self.inner.stuck_invoker(now, limit, seeker)

    def due_rms(self, now: float, limit: int, seeker: Seeker | None = None) -> list[SequenceKey]:
        return self.inner.due_rms(now, limit, seeker)

    def next_due(self, topic: Topic, seeker: Seeker | None = None) -> float | None:
        return self.inner.next_due(topic, seeker)

    def claim(self, resource: str, owner: str, now: float, lease: float) -> Claim | None:
        return self.inner.claim(resource, owner, now, lease)

    def release(self, claim: Claim) -> None:
        self.inner.release(claim)

    def sweep(self, *, kept_before: float, idle_before: float, limit: int) -> int:
        return self.inner.sweep(kept_before=kept_before, idle_before=idle_before, limit=limit)

    def bring_forward(self, now: float, longest: Pauses) -> int:
        return self.inner.bring_forward(now, longest)

    def listen(self, listener: Told, others: Told | None = None) -> None:
        self.inner.listen(listener, others)

    def close(self) -> None:
        self.inner.close()
