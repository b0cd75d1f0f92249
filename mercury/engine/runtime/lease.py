"""The lease of the active member: a thread takes it, prolongs it, and starts and stops what serves."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator

from mercury.engine.membership import Member, MemberEffect, MemberState, MemberStatus
from mercury.errors import StorageError
from mercury.storage.api import StorageManager
from mercury.storage.claims import ACTIVE_MEMBER, NEVER_ACTIVE, Claim
from mercury.storage.outages import Outages

log = logging.getLogger("mercury.member")

#: The longest time between two questions of a standby for the lease, in seconds.
LONGEST_PAUSE = 0.5


class ActiveLease:
    """Takes part in the choice of the active member until it is stopped.

    What serves starts when this member gets the lease, and stops when another member has it. From the first `turn` on
    the store lets this process write only under the lease.

    :param new_owner: makes a name for the owner of the lease that was never used before.
    :param lease: seconds for which the active member counts as running without a sign of life.
    :param clock: seconds since the epoch.
    :param serve: starts what serves.
    :param cease: stops what serves; called when another member is active already, or at the end.
    """

    def __init__(
        self,
        store: StorageManager,
        new_owner: Callable[[], str],
        lease: float,
        clock: Callable[[], float],
        serve: Callable[[], None],
        cease: Callable[[], None],
    ) -> None:
        self._store = store
        self._new_owner = new_owner
        self._owner = new_owner()
        self._lease = lease
        self._clock = clock
        self._serve = serve
        self._cease = cease
        self._member = Member()
        self._outages = Outages()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mercury-lease", daemon=True)

    @property
    def status(self) -> MemberStatus:
        """What this member does now."""
        return self._member.status

    @property
    def pause(self) -> float:
        """Seconds until the next turn: an active member has three in a lease, a standby at least four."""
        if self._member.state is MemberState.ACTIVE:
            return self._lease / 3
        return min(LONGEST_PAUSE, self._lease / 4)

    def start(self) -> None:
        """Take the lease if it is free, in this thread; then go on in one of its own."""
        self.turn()
        self._thread.start()

    def stop(self) -> None:
        """End, and release the lease, so that another member takes over at once."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        claim = self._member.claim
        self._member.stopped()
        self._store.guard_all(NEVER_ACTIVE)
        self._release(claim)

    def turn(self) -> None:
        """Ask the store once for the lease, and do what follows from the answer."""
        if self._member.state is MemberState.STANDBY:
            self._store.guard_all(NEVER_ACTIVE)
        claim: Claim | None = None
        try:
            claim = self._store.claim(ACTIVE_MEMBER, self._owner, self._clock(), self._lease)
        except StorageError as error:
            self._outages.failed(error, "the lease of the active member")
            effect = self._member.unanswered()
        else:
            self._outages.worked()
            effect = self._member.answered(claim)
        if effect is MemberEffect.SERVE:
            self._start_to_serve(self._member.claim)
        elif effect is MemberEffect.CEASE:
            self._stop_to_serve()
            if claim is not None:  # another member had it meanwhile
                self._release(claim)

    def _start_to_serve(self, claim: Claim) -> None:
        self._store.guard_all(claim)
        log.info("this member is active, in epoch %d", claim.epoch)
        try:
            with self._prolonged(claim):
                self._serve()
        except Exception:
            log.exception("this member cannot serve; it is a standby again")
            self._stop_to_serve()
            self._release(claim)

    @contextlib.contextmanager
    def _prolonged(self, claim: Claim) -> Iterator[None]:
        """Prolong the lease while the block runs: otherwise one that takes longer ends under another member's lease."""
        ended = threading.Event()

        def prolong() -> None:
            while not ended.wait(self._lease / 3):
                # Whether another member has it is a question for the next turn, which can stop what serves by then.
                with contextlib.suppress(StorageError):
                    self._store.claim(ACTIVE_MEMBER, claim.owner, self._clock(), self._lease)

        thread = threading.Thread(target=prolong, name="mercury-lease-start", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()  # before the lease is released: it would be taken again

    def _stop_to_serve(self) -> None:
        # First the guard: a transaction that begins now must not commit under a lease that is taken later.
        self._store.guard_all(NEVER_ACTIVE)
        self._member = Member()
        # Nor must one that has begun: the next lease has another owner.
        self._owner = self._new_owner()
        log.warning("this member is not active any more: it writes nothing, and is a standby")
        self._cease()

    def _release(self, claim: Claim) -> None:
        if claim == NEVER_ACTIVE:
            return
        try:
            self._store.release(claim)
        except StorageError as error:
            log.info("the lease of the active member is not released, and ends by itself: %s", error)

    def _run(self) -> None:
        while not self._stopping.wait(self.pause):
            try:
                self.turn()
            except Exception:
                log.exception("a turn for the lease of the active member failed; the next one follows")
