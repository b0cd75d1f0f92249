"""The RMSSequenceWorker: create, number, transmit, retransmit, close, terminate (figure 3-14).

A transaction decides what to post; the posts leave after its commit. A number is therefore stored before it is on the
wire, and a crash in between has the same effect as a message lost on the wire.
"""

from __future__ import annotations

import logging
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import cast

from mercury.engine.context import EngineContext
from mercury.engine.cool_down import CoolDown
from mercury.engine.exchange import Step
from mercury.engine.source.after_start import IsInFlight, ThisProcess, no_exchange, none_in_flight, none_wait
from mercury.engine.source.due_again import DueAgain
from mercury.engine.source.found_keys import FoundKeys
from mercury.engine.source.in_window import WINDOW_BYTES
from mercury.engine.source.later_actions import LaterActions
from mercury.engine.source.transmission import STALLED_PAUSE, KeyWork, PairEnds
from mercury.errors import Conflict, StorageError, TransientStorageError
from mercury.storage.api import Topic, Transaction
from mercury.storage.claims import Claim, WorkFilter
from mercury.storage.names import source_claim
from mercury.storage.records import OutboundKind, OutboundMessage, SequenceKey

log = logging.getLogger("mercury.engine.source")

#: The most sequences of one transaction, so that the turns of the owners follow each other closely.
TURN = 64
#: After so many posts, or bytes of their bodies, a transaction ends. The sequences that are left stay due.
MOST_POSTS, MOST_BYTES = 256, WINDOW_BYTES
#: If a transaction of several sequences fails, so many of them get one each.
ALONE = 8
#: So many messages, with so many bytes in their bodies, leave in the transaction of the application that sends them.
MOST_AT_ONCE, BYTES_AT_ONCE = 3, 128 * 1024


class SourceWorker:
    """Works on source sequences, many keys in one transaction, each under its claim."""

    def __init__(self, context: EngineContext) -> None:
        self._context = context
        self._cool_down = CoolDown()
        self._work_filter = WorkFilter(context.claims.owner)
        self._found = FoundKeys(self._find, context.claims.monotonic)
        self.due_again = DueAgain()
        #: When this worker has run for the first time.
        self._since = -math.inf
        #: The owner that was served last (`RmsRecord.owner`).
        self._last = ""
        #: Where commits say to which keys they have appended messages.
        self.appended = context.appended
        #: Whether the message with this number of a sequence is being posted, or waits to be.
        self.is_in_flight: IsInFlight = none_in_flight
        #: Whether an exchange with a message of a sequence is open.
        self.has_exchange: Callable[[str], bool] = no_exchange
        #: Whether creations of sequences wait for exchanges with the server of an endpoint.
        self.creations_wait: Callable[[str], bool] = none_wait

    def run_once(self, now: float) -> Step:
        """Do the due work. Returns the posts to make; their transactions are committed."""
        # A clock that was set back would ask after each answer.
        self._since = now if self._since == -math.inf else min(self._since, now)
        step = Step()
        try:
            self._turn(step, now)
        finally:
            if not step.drained:
                self.appended.search()
        return step

    def _turn(self, step: Step, now: float) -> None:
        keys = self._keys(step, now)
        step.due = self._next_planned
        ready = [key for key in keys if not self._cool_down.waits(str(key), now)]
        if self._context.others and not step.more:
            mine = self._shared(ready, now)
            step.more, ready = len(mine) < len(ready), mine
        claims = self._context.claims.take_all({key: source_claim(key.digest) for key in ready}, now)
        for key in ready:
            if key not in claims:
                self.appended.forget(key)
        if len(claims) > 1:
            done = self._together(claims, now)
            if done is not None:
                step.add(done)
                step.more = step.more or done.progress < len(claims)
                step.drained = not step.more and len(claims) == len(keys)
                return
            step.more = step.more or len(claims) > ALONE
        worked = 0
        for key, claim in islice(claims.items(), ALONE):
            try:
                step.add(self._work(key, claim, now))
                self._cool_down.worked(str(key))
                worked += 1
            except Conflict:
                self._context.claims.lost(claim)
            except StorageError as error:
                self._context.outages.failed(error, f"the sequence {key}")
                self._cool_down.add(str(key), now)
            except Exception:
                log.exception("a sequence cannot be worked on", extra={"key": str(key)})
                self._cool_down.add(str(key), now)
        step.drained = not step.more and worked == len(keys)

    def _shared(self, keys: Sequence[SequenceKey], now: float) -> list[SequenceKey]:
        """The keys that this process takes now, where another one may be about to take the same ones.

        A claim stays with its process while there is work. So a process takes half of the keys that it has no claim
        on, and what is left at its next turns, if no other process has taken it meanwhile (decision 110).
        """
        claims = self._context.claims
        new = [key for key in keys if claims.current(source_claim(key.digest), now) is None]
        # Each process prefers other keys.
        new.sort(key=lambda key: zlib.crc32(f"{claims.owner} {key.digest}".encode()))
        left = set(new[-(-len(new) // 2) :])
        return [key for key in keys if key not in left]

    def _keys(self, step: Step, now: float) -> Sequence[SequenceKey]:
        """The keys to work on. The store is searched for them unless the commits since the last turn have named all."""
        planned = self.due_again.first()
        appended = self.appended.take(now)
        if appended is not None and (planned is None or planned > now):
            step.more = False
            return appended
        most = min(self._context.settings.sequence_batch, TURN)
        if self._work_filter.after != self._last:
            self._work_filter = replace(self._work_filter, after=self._last)
        keys, step.more = self._found.next(now, most)
        if self._context.others and not step.more:
            claims = self._context.claims
            self.appended.found(keys, now, lambda digest: claims.current(source_claim(digest), now) is not None)
        self.due_again.found(now)  # those that are due now are among the keys, or more are due
        return keys

    def _find(self, now: float, limit: int) -> list[SequenceKey]:
        return self._context.store.due_rms(now, limit, self._work_filter)

    def refill(self, tx: Transaction, keys: Sequence[SequenceKey], now: float) -> Step:
        """Do the work that arrivals made due, in their transaction. Returns the posts to make after its commit.

        Acknowledgements that make room, and the messages that fill it, are one transaction of a key. A key that is not
        claimed by this process, or whose claim has to be renewed, is left to `run_once`.

        :param keys: locked keys; their saved sequences are due.
        :raises PairEnds: a sequence ends with one that is not locked. The caller handles the arrivals without `refill`.
        :raises Conflict: at the commit, if another process has taken a claim.
        """
        step = Step()
        current = {key: self._context.claims.current(source_claim(key.digest), now) for key in keys}
        claims = {
            key: claim
            for key, claim in current.items()
            if claim is not None and not self._cool_down.waits(str(key), now)
        }
        self.appended.take_of(claims)
        if len(claims) > ALONE:
            tx.rms.read_ahead(claims)
        process, works = self._process, list[KeyWork]()
        tx.after_commit(partial(self._sent, works))
        for key, claim in claims.items():
            tx.guard(claim)
            work = KeyWork(self._context, key, now, process)
            works.append(work)
            work.do(tx)
            tx.after_commit(partial(self._done, work))
            tx.after_commit(partial(self._found.worked, key))
            step.add(work.step)
        return step

    def send_in(self, tx: Transaction, now: float) -> Step | None:
        """Number and send a lone message in the transaction of the application that has appended it (decision 111).

        If the work fails, the message is committed without a number, and left to a turn, as all others are.

        :param tx: about to be committed.
        :returns: with the posts to make behind the commit, and with actions that come before them, both in a thread of
            the engine: the application's may hold locks that its observers need. ``None`` = it is left to a turn.
        :raises TransientStorageError: the store does not answer; the transaction is rolled back.
        :raises StorageError: a statement fails that the application has left to be executed later.
        """
        key = self._lone(tx.rms.appended, now)
        claim = self._context.claims.last(source_claim(key.digest)) if key is not None else None
        if key is None or claim is None or self._cool_down.waits(str(key), now):
            return None
        if not tx.rms.lock_appended(key, claim):
            return None
        work, later = KeyWork(self._context, key, now, self._process), LaterActions(tx)
        try:
            with tx.savepoint(waits=True):
                work.do(cast(Transaction, later))
                tx.after_commit(partial(self._done, work))
                tx.after_commit(partial(self._found.worked, key))
        except Exception as error:
            known = tx.translate(error)
            if isinstance(known, TransientStorageError):
                raise known from error
            log.info("a message is not sent in the transaction of its application: %r", error, extra={"key": str(key)})
            return None
        work.step.actions = [*later.actions, partial(self._tell_stalled, work.step)]
        return work.step

    def _lone(self, appended: Sequence[OutboundMessage], now: float) -> SequenceKey | None:
        """The only key of the few messages that a transaction has appended, if nothing else of it is on its way."""
        if not 0 < len(appended) <= MOST_AT_ONCE or sum(len(row.payload) for row in appended) > BYTES_AT_ONCE:
            return None
        if not all(map(_may_be_lone, appended)):
            return None
        key, *others = {row.channel.key for row in appended}
        return key if not others and self.appended.is_quiet(key, now) else None

    def planned(self, dues: Mapping[SequenceKey, float | None], now: float) -> None:
        """As `DueAgain.note`."""
        self.due_again.note(dues, now)

    def _done(self, work: KeyWork) -> None:
        """Note what is known of a key after the commit of the work on it."""
        self.planned({work.key: work.due}, work.now)
        if work.holds_rows:
            self.appended.forget(work.key)
        else:
            self.appended.worked(work.key, work.now, gathers=work.gathers, waits=work.waits)

    def _sent(self, works: Sequence[KeyWork]) -> None:
        """Note after the commit of a transaction what it has sent."""
        if works:
            gathering = [work.sent for work in works if work.gathers and work.sent]
            asks = any(work.asks for work in works)
            self.appended.sent(0 if asks else sum(gathering), len(gathering))

    def _next_planned(self) -> float | None:
        times = (self.due_again.first(), self.appended.due())
        return min((at for at in times if at is not None), default=None)

    def not_refilled(self, keys: Sequence[SequenceKey]) -> None:
        """A transaction with `refill` of these keys failed: their claims may be lost."""
        for key in keys:
            self._context.claims.forget(source_claim(key.digest))
        self.appended.search()  # what was appended to them may have been taken

    @property
    def _process(self) -> ThisProcess:
        return ThisProcess(self.is_in_flight, self.has_exchange, self._known_since, self.creations_wait)

    def _known_since(self) -> float:
        return max(self._since, self._context.store.history_since)

    def next_due(self) -> float | None:
        """When the next work is due without a new event."""
        gathers = self.appended.gathering()  # to the store they are due now
        if gathers is not None:
            return gathers
        due, appended = self._context.store.next_due(Topic.RMS, self._work_filter), self.appended.due()
        return due if appended is None else min(appended, math.inf if due is None else due)

    def _together(self, claims: Mapping[SequenceKey, Claim], now: float) -> Step | None:
        """Work on several keys in one transaction. ``None`` = it has failed, and each key gets one of its own."""
        try:
            try:
                return self._commit_together(claims, now)
            except PairEnds:
                return self._commit_together(claims, now, pairs=True)
        except Exception as error:
            log.info("the work on %d keys together has failed, and is done on each alone: %r", len(claims), error)
            return None

    def _commit_together(self, claims: Mapping[SequenceKey, Claim], now: float, *, pairs: bool = False) -> Step:
        process = self._process
        works = [KeyWork(self._context, key, now, process, pairs=pairs) for key in claims]
        step, size, last = Step(), 0, self._last
        with self._context.store.transaction() as tx:
            tx.after_commit(partial(self._sent, works))
            if pairs:
                tx.rmd.lock({name for work in works for name in work.ending_pairs(tx)})
            tx.rms.lock(claims, records=True)
            if len(claims) > ALONE:
                tx.rms.read_ahead(claims)
            for work in works:
                if len(step.posts) >= MOST_POSTS or size >= MOST_BYTES:
                    break
                tx.guard(claims[work.key])
                work.do(tx)
                tx.after_commit(partial(self._done, work))
                step.add(work.step)
                size += work.bytes
                last = work.owner
        self._last = last
        self._tell_stalled(step)
        return step

    def _work(self, key: SequenceKey, claim: Claim, now: float) -> Step:
        try:
            return self._commit(KeyWork(self._context, key, now, self._process), claim)
        except PairEnds:
            return self._commit(KeyWork(self._context, key, now, self._process, pairs=True), claim)

    def _commit(self, work: KeyWork, claim: Claim) -> Step:
        with self._context.store.transaction() as tx:
            tx.guard(claim)
            work.do(tx)
        self._last = work.owner
        self._sent([work])
        self._done(work)
        self._tell_stalled(work.step)
        return work.step

    @staticmethod
    def _tell_stalled(step: Step) -> None:
        for key in step.stalled:
            text = "a sequence is due, but the work on it has no effect (a defect): it is tried again in %g s"
            log.error(text, STALLED_PAUSE, extra={"key": str(key)})


def _may_be_lone(row: OutboundMessage) -> bool:
    """Whether nothing can become of a row but a message that leaves."""
    timed = row.expires_at is not None or row.not_before is not None
    return row.kind is OutboundKind.MESSAGE and row.number is None and not timed and row.attachments is None
