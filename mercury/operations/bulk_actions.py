"""Actions of operators on many dead letters, in pieces: each is a transaction, and says how far the action is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace

from mercury.operations.acting import NotPossible, entry_of
from mercury.operations.letter_actions import LetterActions, LetterWork, checked_endpoint, first_piece
from mercury.storage.audit import Actor, TargetKind
from mercury.storage.bulk import FOLLOWING, MOST_REFUSALS, Bulk, BulkAction, BulkState
from mercury.storage.letters import LetterFilter
from mercury.storage.sql import bulks
from mercury.storage.sql.reads import letters
from mercury.storage.sql.reads.letters import LetterMark
from mercury.storage.sql.store import SqlStore
from mercury.storage.sql.transaction import SqlTransaction


class BulkActions:
    """Actions on all dead letters that match a filter.

    Where a bulk action is, and its counts, are written in the transaction of each piece. So a piece is made once: what
    a process that was killed has not committed is made by the next one that goes on, and two processes that work on the
    same bulk action share its pieces.

    :param clock: seconds since the epoch.
    """

    def __init__(self, store: SqlStore, clock: Callable[[], float], actions: LetterActions) -> None:
        self._store = store
        self._clock = clock
        self._actions = actions

    def begin(
        self,
        action: BulkAction,
        which: LetterFilter,
        actor: Actor,
        *,
        endpoint: str | None = None,
        allow_duplicate: bool = False,
        reason: str = "",
    ) -> Bulk:
        """Note a bulk action, with its line in the audit. `advance` makes it.

        It takes effect on the letters that match now, and not on those that become dead letters meanwhile.

        :param which: without identifiers.
        :param endpoint: of a redirection: the URL.
        :param allow_duplicate: also letters that may take effect twice.
        :raises NotPossible: the endpoint is no URL, or nothing matches.
        :raises StorageError: the store failed.
        """
        if action is BulkAction.REDIRECT:
            endpoint = checked_endpoint(endpoint or "")
        now = self._clock()
        with self._store.transaction() as tx:
            until = letters.last_position(tx)
            total = letters.number_of(tx, which, until)
            if not total:
                raise NotPossible("no dead letter matches")
            bulk = Bulk(
                action=action,
                which=which,
                last_position=until,
                endpoint=endpoint,
                allow_duplicate=allow_duplicate,
                actor=actor,
                note=reason,
                started_at=now,
                changed_at=now,
                total=total,
            )
            bulk = replace(bulk, id=bulks.add(tx, bulk))
            before: dict[str, object] = (
                {"dead letters": total} | _words(which) | ({"to": endpoint} if endpoint is not None else {})
            )
            line = entry_of(now, actor, action.value, TargetKind.BULK, str(bulk.id), before, {}, reason)
            bulk = replace(bulk, audit=bulks.note(tx, line))
            bulks.save(tx, bulk)
        return bulk

    def advance(self, identifier: int, pieces: int = 1) -> Bulk:
        """Make the next pieces of a bulk action, each a transaction (`first_piece`); fewer, if it ends.

        :returns: how far it is now.
        :raises NotPossible: there is no such bulk action.
        :raises StorageError: the store failed; the pieces before are done.
        """
        rest: list[LetterMark] = []
        window = -1
        for _ in range(pieces):
            with self._store.transaction() as tx:
                bulk = _locked(tx, identifier)
                if bulk.state is not BulkState.RUNNING:
                    return bulk
                if bulk.window != window:
                    # The end of the window stays: letters of later ones must not move into it as its own are deleted.
                    until = bulk.last_position if bulk.window_end is None else bulk.window_end
                    found, last = letters.marks(tx, bulk.which, bulk.window, until)
                    rest, window = sorted(found, key=lambda mark: mark.key), bulk.window
                    bulk = replace(bulk, window_end=until if last is None else last)
                rest = [mark for mark in rest if bulk.last is None or mark.key > bulk.last]
                bulk = self._piece(tx, bulk, rest)
        return bulk

    def stop(self, identifier: int) -> Bulk:
        """Note that no process works on a bulk action any more.

        :raises NotPossible: there is no such bulk action, or it has ended.
        :raises StorageError: the store failed.
        """
        return self._become(identifier, BulkState.STOPPED)

    def resume(self, identifier: int, actor: Actor, *, reason: str = "") -> Bulk:
        """Let a bulk action go on that was stopped, or whose process was killed. The rest is done in its selection.

        :raises NotPossible: there is no such bulk action, or it has ended.
        :raises StorageError: the store failed.
        """
        return self._become(identifier, BulkState.RUNNING, actor, "resume", reason)

    def cancel(self, identifier: int, actor: Actor, *, reason: str = "") -> Bulk:
        """End a bulk action. What is done stays done; the other letters stay dead letters.

        :raises NotPossible: there is no such bulk action, or it has ended.
        :raises StorageError: the store failed.
        """
        return self._become(identifier, BulkState.CANCELLED, actor, "cancel", reason)

    def one(self, identifier: int) -> Bulk | None:
        """A bulk action; ``None`` = there is none.

        :raises StorageError: the store failed.
        """
        with self._store.transaction() as tx:
            return bulks.one(tx, identifier)

    def newest(self, limit: int = 20) -> list[Bulk]:
        """The newest bulk actions first.

        :raises StorageError: the store failed.
        """
        with self._store.transaction() as tx:
            return bulks.newest(tx, limit)

    # --- pieces ----------------------------------------------------------------------------------------------------

    def _piece(self, tx: SqlTransaction, bulk: Bulk, rest: list[LetterMark]) -> Bulk:
        """Handle the next letters of a window, and write how far the action is.

        :param rest: the letters of the window that are not handled.
        """
        piece = first_piece(rest)
        if piece:
            work = LetterWork(
                action=bulk.action,
                actor=bulk.actor,
                endpoint=bulk.endpoint,
                allow_duplicate=bulk.allow_duplicate,
                reason=bulk.note,
                bulk=bulk.id,
            )
            handled = self._actions.handle(tx, [mark.id for mark in piece], work)
            bulk = replace(
                bulk,
                done=bulk.done + len(handled.done),
                refused=bulk.refused + len(handled.refused),
                refusals=(*bulk.refusals, *handled.refused)[:MOST_REFUSALS],
                last=piece[-1].key,
            )
        end = bulk.last_position if bulk.window_end is None else bulk.window_end
        if len(piece) == len(rest) and end < bulk.last_position:
            bulk = replace(bulk, window=end, window_end=None, last=None)
        elif len(piece) == len(rest):
            bulk = replace(bulk, state=BulkState.DONE)
        bulk = replace(bulk, changed_at=self._clock())
        bulks.save(tx, bulk)
        return bulk

    def _become(
        self, identifier: int, state: BulkState, actor: Actor | None = None, action: str = "", reason: str = ""
    ) -> Bulk:
        with self._store.transaction() as tx:
            bulk = _locked(tx, identifier)
            if state not in FOLLOWING[bulk.state]:
                raise NotPossible(f"this bulk action is {bulk.state.value}: it does nothing any more")
            now = self._clock()
            changed = replace(bulk, state=state, changed_at=now)
            bulks.save(tx, changed)
            if actor is not None:
                before, after = {"state": bulk.state.value}, {"state": state.value}
                bulks.note(tx, entry_of(now, actor, action, TargetKind.BULK, str(identifier), before, after, reason))
        return changed


def _locked(tx: SqlTransaction, identifier: int) -> Bulk:
    bulk = bulks.locked(tx, identifier)
    if bulk is None:
        raise NotPossible(f"there is no bulk action {identifier}")
    return bulk


def _words(which: LetterFilter) -> dict[str, object]:
    """A filter as the audit shows it."""
    return {name: getattr(value, "value", value) for name, value in asdict(which).items() if value is not None}
