"""One unit of work on a SQL store: one connection, one local transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from mercury.errors import Conflict, DataError, NotActive, StorageError, TransientStorageError
from mercury.storage.api import BeforeCommit
from mercury.storage.application import Ending, Outcome, call_each
from mercury.storage.claims import INACTIVE, Claim
from mercury.storage.sql import claim_guard, round_trips
from mercury.storage.sql.application_part import ApplicationPart
from mercury.storage.sql.attachments import SqlAttachments
from mercury.storage.sql.dead_letters import SqlDeadLetters
from mercury.storage.sql.dialect import Marker, chunks
from mercury.storage.sql.errors import LOST, translated
from mercury.storage.sql.invoker import SqlInvoker
from mercury.storage.sql.new_work import NOTHING
from mercury.storage.sql.notify import Announcement
from mercury.storage.sql.parts import Part, StorePart
from mercury.storage.sql.peer_stores import SqlPeerStores
from mercury.storage.sql.prepared import run, session_of
from mercury.storage.sql.releasing import release
from mercury.storage.sql.replay import SqlReplay
from mercury.storage.sql.rmd import SqlRmd
from mercury.storage.sql.rms import SqlRms
from mercury.storage.sql.round_trips import ApplicationCallFailed, Call, CommitFailed, Ready
from mercury.storage.sql.savepoints import FIRST_SAVEPOINT, Savepoint, Savepoints
from mercury.storage.sql.store_parts import StoreParts


class SqlTransaction(ApplicationPart):
    """`Transaction` on a SQL store. The connection is taken at its first use.

    :param connection: the application's connection, in a transaction that the application commits.
    :param before_commit: as for `StorageManager.transaction`.
    """

    #: Whether the connection may be kept for the next transaction.
    _keeps = True

    def __init__(
        self, store: StoreParts, connection: Connection | None = None, before_commit: BeforeCommit | None = None
    ) -> None:
        super().__init__(store, connection)
        self._before_commit = before_commit
        #: Whether it is a transaction of the application that Mercury ends.
        self._of_application = before_commit is not None
        #: Whether the commit may announce the topics to other processes, and whether it has done so.
        self._announces = False
        self._announced: Announcement | None = None
        self._claims: list[Claim] = []
        #: What sends the last statements with the commit, in one round trip; ``None`` = they are sent before it.
        self._sends_last: round_trips.Session | None = None
        #: Whether the claims are checked by the statement before the commit.
        self._guards = False
        #: Of `StorageManager.guard_all`, when this transaction began.
        self._member = store.guarded_by
        self._after_commit: list[Callable[[], None]] = []
        self._savepoints: Savepoints | None = None
        self.outcome = Outcome()
        self.rmd = SqlRmd(self)
        self.invoker = SqlInvoker(self)
        self.rms = SqlRms(self)
        self.dead_letters = SqlDeadLetters(self)
        self.attachments = SqlAttachments(self)
        self.replay = SqlReplay(self)
        self.peer_stores = SqlPeerStores(self)

    # --- the contract ----------------------------------------------------------------------------------------------

    @contextmanager
    def savepoint(self, *, waits: bool = False) -> Iterator[None]:
        self.require_whole()
        self.flush_records()
        self._sessions.flush()
        lengths = len(self.rms.appended), len(self._after_commit)
        locks, keys = (set(self._locked), self._highest), set(self.appended_keys)
        limit = self._limit
        limited = 0 if limit is None else limit.count
        outer, part, uses, searches = self._part, self._begin_part(), self._uses, self._searches
        self._part = part
        try:
            with self._sessions.level():
                yield
                self._require_connections()
            self.check_usable()
            self.flush_records()
            if not (waits and (self.only_leaves or (self._before_commit is not None and self._uses == uses))):
                self.send_pending()
                self.check_deferred()
        except BaseException as error:
            self._part = outer
            self._searches = self._searches or searches  # the rollback may undo the end of the search too
            self.drop_pending()
            self.rmd.forget_changes()
            self.rms.forget_changes()
            self.rms.truncate(lengths[0])
            del self._after_commit[lengths[1] :]
            self.appended_keys = keys
            self._locked, self._highest = locks  # the rollback has released the locks taken since
            if limit is not None:
                limit.undone(limited)
            self._undo(part, error)
            raise
        self._part = outer
        part.keep()

    def _undo(self, part: Part, error: BaseException) -> None:
        """Undo the work since a savepoint. If that is not possible, the transaction has ended: nothing of it is kept.

        :param error: why it is undone, which the caller raises.
        :raises TransientStorageError: instead of an error that does not say that the transaction may be repeated.
        """
        try:
            part.undo()
        except Exception as failed:
            known = self.translate(failed) or StorageError(repr(failed))
            transient = isinstance(known, TransientStorageError)
            if self.broken is None:
                self.broken = known if transient else DataError(f"the work since a savepoint is not undone: {known}")
            says_so = isinstance(error, Exception) and isinstance(self.translate(error), TransientStorageError)
            if transient and isinstance(error, Exception) and not says_so:
                raise known from failed

    def check_usable(self) -> None:
        self.require_whole()
        super().check_usable()

    def _begin_part(self) -> Part:
        return StorePart(self)

    def begin_savepoint(self) -> Savepoint | None:
        """Begin a savepoint in the store's database; ``None`` = nothing is written yet, and no savepoint is needed.

        In SQLite a savepoint would lock the file, long before the first write.
        """
        if not self._writing and not self.joined:
            return None
        begun = self._savepoints is None and FIRST_SAVEPOINT in self._ahead
        connection = self.writing()
        if self._savepoints is None:
            self._savepoints = Savepoints(connection, self.dialect)
        return self._savepoints.begin(begun=begun)

    def restart(self) -> None:
        """Roll back everything that this transaction has done in the database, and begin again."""
        self.drop_pending()
        if self._writing and self._connection is not None:
            self._ending = True
            with translated():
                self._connection.rollback()
            self._ending = self._writing = self._searches = False
            self.broken = None
            self._savepoints = None

    def guard(self, claim: Claim) -> None:
        self._claims.append(claim)

    def after_commit(self, action: Callable[[], None]) -> None:
        self.require_whole()
        self._after_commit.append(action)

    # --- the end ---------------------------------------------------------------------------------------------------

    def __enter__(self) -> SqlTransaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self.joined:
            return
        try:
            if error is None:
                self.require_whole()
                self._require_connections()
                self.close_sessions(keep=True)
                if self._before_commit is not None:
                    self._send_first(self._before_commit)
                self._complete()
            else:
                self._roll_back()
        except BaseException:
            self._roll_back()
            raise
        finally:
            self._release()
        if error is None:
            self.committed()

    def _require_connections(self) -> None:
        """Check that no connection is lost: the application may have caught the error.

        :raises TransientStorageError: one is lost.
        """
        if self._connection is not None and self._connection.invalidated:
            raise TransientStorageError(LOST)

    def _send_first(self, before_commit: BeforeCommit) -> None:
        """Call `before_commit`. The actions that it adds do not wait for those of the application."""
        of_application, self._after_commit = self._after_commit, []
        before_commit(self)
        self._after_commit += of_application

    def _complete(self) -> None:
        """Write unsaved changes, check claims and constraints, and commit.

        :raises StorageError: the commit failed; the caller rolls back.
        :raises OutcomeUnknown: the commit was not answered, and the query for its marker was not answered either.
        """
        marker, made_at = self._new_marker(), self.store.clock()
        self.prepare_commit(marker, last=True)
        self._announces = marker is not None  # an error of the announcement must not be taken for one of the commit
        try:
            self.commit_store()
        except StorageError as error:
            refused = self._announced is None and not isinstance(error, TransientStorageError)
            if marker is None or refused:
                raise
            self._connected().invalidate()
            self.outcome = Outcome(ending=Ending.UNKNOWN)
            if not self.store.commit_markers.was_committed(marker, error, self.store.clock() - made_at):
                self.outcome = Outcome(ending=Ending.ROLLED_BACK)
                raise
        self.outcome = Outcome(ending=Ending.COMMITTED)
        if marker is not None:
            self.store.commit_markers.answered(marker)

    def _new_marker(self) -> Marker | None:
        """A commit marker, if a lost answer to the commit would leave the outcome unknown.

        Work under claims can be repeated and needs none; the application's statements and messages cannot. SQLite
        needs none: the answer to a commit cannot be lost.
        """
        applications = not self._claims and (self._deferred is not None or self.rms.has_appended)
        if not applications or not self.dialect.remote:
            return None
        return self.store.commit_markers.new()

    def flush_records(self) -> None:
        """Write the records that were saved since the last flush."""
        self.rmd.flush()
        self.rms.flush()

    def prepare_commit(self, marker: Marker | None = None, *, last: bool = False) -> None:
        """Write all collected changes and the marker, and check the claims: the last statements before the commit.

        :param last: nothing else is checked before the commit: they may be sent with it.
        """
        self.flush_records()
        if not self.rms.flush_appended(marker) and marker is not None:
            self.insert_marker(marker)
        if self.unnamed:
            self.attachments.remove_unnamed()
        if last and self._connection is not None:
            self._sends_last = session_of(self._connection)
        if self._writing and (self._claims or self._member is not None):
            if self._sends_last is not None:
                self._guards = True
            else:
                self._check_claims()
        if self._sends_last is None:
            self.send_pending()

    def _check_claims(self) -> None:
        """Lock the claims of this transaction, and that of the active member.

        :raises NotActive: this process is not the active member any more.
        :raises Conflict: another claim is lost.
        """
        held: set[Claim] = set()
        member = [] if self._member is None else [self._member]
        for part in chunks([claim.resource for claim in (*member, *self._claims)]):
            held.update(Claim(**row) for row in self.read_changing(claim_guard.HELD, {"resources": part}))
        if self._member is not None and self._member not in held:
            raise NotActive(INACTIVE)
        for claim in self._claims:
            if claim not in held:
                raise Conflict(f"the claim on {claim.resource} is lost")

    def check_member(self) -> None:
        """In a transaction that the application commits: lock the claim of the active member until then. The database
        ends the transaction of a process that stops meanwhile (`Dialect.limit_session`): no other could become active.

        :raises NotActive: this process is not the active member any more.
        """
        if self._member is not None:
            with translated():
                self.dialect.limit_session(self.writing())
            self._check_claims()

    def commit_store(self) -> None:
        """Commit this transaction's part in the store's database."""
        self._ending = True
        if self._connection is not None:
            announcement = self.store.announcement(self.work_elsewhere()) if self._announces else None
            if self._commit_together(self._connection, announcement):
                return
            self._announced = announcement
            try:
                with translated():
                    if self._writing:
                        self.dialect.check_usable(self._connection)
                    if announcement is not None:
                        self.dialect.commit_and_announce(self._connection, announcement.text)
                    self._connection.commit()
            except Conflict as error:  # a deferred constraint of the application; Mercury's tables have none
                raise DataError(str(error)) from error

    def _commit_together(self, connection: Connection, announcement: Announcement | None) -> bool:
        """Send what waits, the check of the claims, the commit and the announcement in one round trip, if the database
        can."""
        session = self._sends_last or session_of(connection)
        if session is None:
            return False
        calls = self._last_calls()
        self.statements += len(calls)
        try:
            with translated():
                run(connection, session, calls, commit=True, behind=announcement and announcement.text)
        # At the commit it is a deferred constraint of the application: Mercury's tables have none.
        except (ApplicationCallFailed, CommitFailed) as failed:
            raise self.translate(failed.error) or failed from failed.error
        except DataError as error:
            if self._guards and claim_guard.LOST in str(error):
                self._tell_lost(connection)
            raise
        self._announced = announcement
        connection.commit()  # which tells SQLAlchemy
        return True

    def _last_calls(self) -> list[Call | Ready]:
        """The changes that wait, and the check of the claims: at most one statement."""
        if not self._guards:
            return self.take_pending()
        claims = {*self._claims, *([] if self._member is None else [self._member])}
        return self.take_pending(*claim_guard.guard(list(claims), self.dialect))

    def _tell_lost(self, connection: Connection) -> None:
        """Raise that a claim is lost, after its check has ended the transaction.

        :raises NotActive: the claim of the active member.
        :raises Conflict: another one.
        """
        connection.rollback()
        self._check_claims()
        raise Conflict("a claim is lost")

    def _roll_back(self) -> None:
        self._ending = True
        if self.outcome.ending is Ending.OPEN:
            self.outcome = Outcome(ending=Ending.ROLLED_BACK)
        self.drop_pending()
        if self._connection is None:
            return
        try:
            self._sessions.give_up()
            self._connection.rollback()
        except Exception:  # the connection is lost, and its transaction is rolled back
            self._connection.invalidate()

    def _release(self) -> None:
        self.ended()
        connection, self._connection = self._connection, None
        if connection is None:
            return
        # The application may use a connection that it has got after the transaction: no other thread must have it then.
        may_keep = self.outcome.ending is Ending.COMMITTED and self._keeps and not self._handed_out
        if not (may_keep and self.store.kept.keep(connection)):
            release(connection)

    def committed(self) -> None:
        """After the commit: announce the topics, and call the actions of `after_commit`."""
        if self.store.counter is not None:
            self.store.counter(self.statements)
        if self.joined or self._of_application:
            call_each((self._announce, *self._after_commit))  # the actions are the application's, which may be slow
        else:
            call_each((*self._after_commit, self._announce))

    def _announce(self) -> None:
        """Announce the topics of the commit to the workers, and to other processes if it has not done so."""
        if self._announced is not None:
            self.store.announced(self._announced)
            self.store.notify(self.work(), NOTHING)
        elif elsewhere := self.work_elsewhere():
            self.store.notify(self.work(), elsewhere)
