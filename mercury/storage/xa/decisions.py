"""The decision log: the arbiter of two-phase commits (decision 16).

A row states whether a transaction commits or aborts. The coordinator inserts `commit`; recovery inserts `abort` before
it rolls anything back, and both obey the row that exists. The second insert waits until the first one is committed or
rolled back. A transaction therefore has one decision, even if a process was stopped for long in between.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import Connection, Engine, RowMapping, delete, insert, select, update

from mercury.errors import Conflict, TransientStorageError
from mercury.storage.sql.dialect import Dialect, chunks
from mercury.storage.sql.errors import translated
from mercury.storage.sql.releasing import release
from mercury.storage.sql.schema import DECISION, HEURISTIC, INCARNATION
from mercury.storage.xa.names import Gtrid, prefix, read_gtrid

#: Milliseconds that recovery waits for a coordinator that is about to decide; afterwards it retries later.
LOCK_TIMEOUT = 1000


class Verdict(enum.Enum):
    """The outcome of a transaction."""

    COMMIT = "commit"
    ABORT = "abort"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One row of the log."""

    gtrid: Gtrid
    verdict: Verdict
    #: Seconds since the epoch.
    decided_at: float
    #: PostgreSQL's transaction id of each branch that may be unfinished, by the name of the resource.
    branches: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Incarnation:
    """One start of one process."""

    id: str
    seen_at: float
    dead: bool

    def ends(self, lease: float) -> float:
        """When it counts as dead unless it sends another heartbeat: seconds since the epoch, by the log's clock.

        :param lease: `Timing.lease`.
        """
        return 0.0 if self.dead else self.seen_at + lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Heuristic:
    """A branch that was finished by hand against its decision."""

    gid: str
    resource: str
    decided: str
    found: str
    found_at: float


class IncarnationIsDead(TransientStorageError):
    """Other processes have declared this process dead, because it sent no heartbeat for too long. It continues under a
    new
    name."""


class DecisionLog:
    """The decisions of one store, in the store's database or in a separate one.

    :param store: the store's id; several stores may share a log.
    """

    def __init__(self, engine: Engine, dialect: Dialect, store: str) -> None:
        self._engine = engine
        self._dialect = dialect
        self._store = store

    # --- incarnations ----------------------------------------------------------------------------------------------

    def enroll(self, incarnation: str, now: float) -> None:
        """Insert an incarnation that begins."""
        with self.writing() as connection:
            row = {"id": incarnation, "started_at": now, "seen_at": now, "dead": False}
            connection.execute(insert(INCARNATION).values(row))

    def heartbeat(self, incarnation: str, now: float) -> bool:
        """Store the time of a heartbeat. Returns ``False`` if the incarnation was declared dead."""
        with self.writing() as connection:
            alive = INCARNATION.c.id == incarnation, ~INCARNATION.c.dead
            done = connection.execute(update(INCARNATION).where(*alive).values(seen_at=now))
        return done.rowcount == 1

    def incarnations(self) -> dict[str, Incarnation]:
        """All incarnations in the log, by name."""
        with translated(), self._engine.connect() as connection:
            rows = connection.execute(select(INCARNATION)).mappings().all()
        return {row["id"]: Incarnation(id=row["id"], seen_at=row["seen_at"], dead=row["dead"]) for row in rows}

    def declare_dead(self, incarnation: str, before: float) -> bool:
        """Declare an incarnation dead, unless it sent a heartbeat since ``before``: it can no longer make decisions.

        Waits for decisions that it is about to commit.

        :raises TransientStorageError: such a decision did not end within the limit.
        """
        with self.writing(patient=False) as connection:
            this = select(INCARNATION).where(INCARNATION.c.id == incarnation, INCARNATION.c.seen_at < before)
            # FOR UPDATE, no weaker lock: a decision holds FOR KEY SHARE on this row.
            if connection.execute(this.with_for_update()).first() is None:
                return False
            connection.execute(update(INCARNATION).where(INCARNATION.c.id == incarnation).values(dead=True))
        return True

    # --- decisions -------------------------------------------------------------------------------------------------

    def decide(self, connection: Connection, decision: Decision) -> None:
        """Insert `commit` in the transaction of ``connection``; its commit is the decision.

        :raises TransientStorageError: recovery has decided `abort` before.
        :raises IncarnationIsDead: this incarnation was declared dead.
        """
        incarnation = decision.gtrid.incarnation
        this = select(INCARNATION.c.id).where(INCARNATION.c.id == incarnation, ~INCARNATION.c.dead)
        alive = this.with_for_update(read=True, key_share=True)
        try:
            with translated():
                if connection.execute(alive).first() is None:
                    raise IncarnationIsDead(f"{decision.gtrid}: other processes have declared this process dead")
                connection.execute(insert(DECISION).values(_values(decision)))
        except Conflict as error:
            raise TransientStorageError(f"{decision.gtrid} was rolled back by recovery meanwhile") from error

    def arbitrate(self, decision: Decision) -> tuple[Decision, bool]:
        """Insert and commit ``decision`` unless the transaction has one already, then read the decision.

        :returns: the decision to obey, and whether this call inserted it.
        :raises TransientStorageError: the coordinator is about to decide, or the log does not answer.
        """
        with self.writing(patient=False) as connection:
            statement = self._dialect.upsert(DECISION).values(_values(decision)).on_conflict_do_nothing()
            new = connection.execute(statement.returning(DECISION.c.gtrid)).first() is not None
        found = self.find(decision.gtrid)
        if found is None:
            raise TransientStorageError(f"{decision.gtrid} was decided and forgotten meanwhile")
        return found, new

    def find(self, gtrid: Gtrid) -> Decision | None:
        """The decision on a transaction, as committed."""
        with translated(), self._engine.connect() as connection:
            row = connection.execute(select(DECISION).where(DECISION.c.gtrid == str(gtrid))).mappings().first()
        return _decision(row) if row is not None else None

    def unfinished(self) -> list[Decision]:
        """Decisions of this store with branches that may be unfinished, the oldest first."""
        mine = DECISION.c.gtrid.startswith(prefix(self._store), autoescape=True), DECISION.c.branches != "{}"
        with translated(), self._engine.connect() as connection:
            rows = connection.execute(select(DECISION).where(*mine).order_by(DECISION.c.decided_at)).mappings().all()
        return [_decision(row) for row in rows]

    def add_branch(self, gtrid: Gtrid, resource: str, xid: int) -> None:
        """Add a branch that has to be finished to a decision."""
        with self.writing() as connection:
            row = self._locked(connection, gtrid)
            if row is not None:
                values = {"branches": json.dumps(json.loads(row["branches"]) | {resource: xid})}
                connection.execute(update(DECISION).where(DECISION.c.gtrid == str(gtrid)).values(values))

    def finished(self, gtrid: Gtrid, resource: str) -> None:
        """Remove a finished branch from its decision; a `commit` without branches is deleted."""
        with self.writing() as connection:
            row = self._locked(connection, gtrid)
            if row is None:
                return
            left = {name: xid for name, xid in json.loads(row["branches"]).items() if name != resource}
            if left or row["outcome"] == Verdict.ABORT.value:
                values = {"branches": json.dumps(left)}
                connection.execute(update(DECISION).where(DECISION.c.gtrid == str(gtrid)).values(values))
            else:
                connection.execute(delete(DECISION).where(DECISION.c.gtrid == str(gtrid)))

    def forget(self, gtrids: Iterable[Gtrid]) -> None:
        """Delete the decisions of transactions whose branches are all committed."""
        commit = DECISION.c.outcome == Verdict.COMMIT.value
        with self.writing() as connection:
            for part in chunks(str(gtrid) for gtrid in gtrids):
                connection.execute(delete(DECISION).where(DECISION.c.gtrid.in_(part), commit))

    def purge(self, before: float) -> None:
        """Delete dead incarnations whose last heartbeat was before a time, with their `abort` rows.

        A dead incarnation can make no `commit` any more, so the rows are not needed (decision 20).
        """
        gone = select(INCARNATION.c.id).where(INCARNATION.c.dead, INCARNATION.c.seen_at < before)
        kept = select(DECISION.c.incarnation)
        with self.writing() as connection:
            aborted = DECISION.c.outcome == Verdict.ABORT.value, DECISION.c.branches == "{}"
            connection.execute(delete(DECISION).where(DECISION.c.incarnation.in_(gone), *aborted))
            connection.execute(delete(INCARNATION).where(INCARNATION.c.id.in_(gone), INCARNATION.c.id.not_in(kept)))

    # --- heuristic outcomes ----------------------------------------------------------------------------------------

    def record(self, heuristic: Heuristic) -> bool:
        """Store a heuristic outcome for the operator. Returns whether it is new."""
        row = {"gid": heuristic.gid, "resource": heuristic.resource, "decided": heuristic.decided,
               "found": heuristic.found, "found_at": heuristic.found_at}  # fmt: skip
        with self.writing() as connection:
            statement = self._dialect.upsert(HEURISTIC).values(row).on_conflict_do_nothing()
            return connection.execute(statement.returning(HEURISTIC.c.gid)).first() is not None

    def heuristics(self) -> list[Heuristic]:
        """All heuristic outcomes of this store, the oldest first."""
        mine = HEURISTIC.c.gid.startswith(prefix(self._store), autoescape=True)
        with translated(), self._engine.connect() as connection:
            rows = connection.execute(select(HEURISTIC).where(mine).order_by(HEURISTIC.c.found_at)).mappings().all()
        return [Heuristic(**row) for row in rows]

    # --- within ----------------------------------------------------------------------------------------------------

    def _locked(self, connection: Connection, gtrid: Gtrid) -> RowMapping | None:
        this = select(DECISION).where(DECISION.c.gtrid == str(gtrid))
        return connection.execute(this.with_for_update()).mappings().first()

    def now(self) -> float:
        """The log's clock, seconds since the epoch."""
        with translated(), self._engine.connect() as connection:
            return self._dialect.now(connection)

    @contextmanager
    def open(self) -> Iterator[Connection]:
        """A transaction on the log, which the caller commits. Closing it never raises, as the commit may be done."""
        with translated():
            connection = self._engine.connect()
            try:
                self._dialect.begin_writing(connection)
                yield connection
            finally:
                release(connection)

    @contextmanager
    def writing(self, *, patient: bool = True) -> Iterator[Connection]:
        """A transaction on the log, committed at the end of the block."""
        with self.open() as connection:
            if not patient:
                self._dialect.limit_lock_wait(connection, LOCK_TIMEOUT)
            yield connection
            connection.commit()


def _values(decision: Decision) -> dict[str, object]:
    return {
        "gtrid": str(decision.gtrid),
        "outcome": decision.verdict.value,
        "incarnation": decision.gtrid.incarnation,
        "branches": json.dumps(dict(decision.branches)),
        "decided_at": decision.decided_at,
    }


def _decision(row: RowMapping) -> Decision:
    return Decision(
        gtrid=read_gtrid(row["gtrid"]),
        verdict=Verdict(row["outcome"]),
        decided_at=row["decided_at"],
        branches={name: int(xid) for name, xid in json.loads(row["branches"]).items()},
    )
