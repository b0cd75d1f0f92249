"""The application's work and its messages are committed together or not at all, in each form of commit."""

from __future__ import annotations

from contextlib import suppress

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from mercury.errors import Conflict, StorageError
from mercury.storage.api import Topic
from mercury.storage.application import Ending

from .places import Places, send, work


class Base(DeclarativeBase):
    pass


class Placed(Base):
    """An order in the application's database."""

    __tablename__ = "placed"
    id: Mapped[int] = mapped_column(primary_key=True)


class ResolutionRefused(Exception):
    """The application has changed its mind."""


def test_both_are_committed(any_places: Places) -> None:
    with any_places.process() as coordinator:
        with coordinator.transaction() as tx:
            work(tx, 1)
            assert any_places.state == ([], [], [])
        assert tx.outcome.ending is Ending.COMMITTED
        assert tx.outcome.away == ()
        assert any_places.state == ([1], [1], [])


def test_worker_hears_of_a_commit_before_the_actions_of_its_application(any_places: Places) -> None:
    """They may be slow."""
    with any_places.process() as coordinator:
        store, told, seen = coordinator.store, list[frozenset[Topic]](), list[bool]()
        store.listen(told.append)
        with store.transaction(lambda _tx: None) as tx:
            work(tx, 1)
            tx.after_commit(lambda: seen.append(frozenset({Topic.RMS}) in told))
        assert tx.outcome.ending is Ending.COMMITTED
        assert seen == [True]


def test_neither_is_committed_when_the_application_raises(any_places: Places) -> None:
    with any_places.process() as coordinator:
        with pytest.raises(ResolutionRefused), coordinator.transaction() as tx:
            work(tx, 1)
            raise ResolutionRefused
        assert tx.outcome.ending is Ending.ROLLED_BACK
        assert any_places.state == ([], [], [])


def test_the_store_refuses_and_the_application_keeps_nothing(any_places: Places) -> None:
    with any_places.process() as coordinator:
        with coordinator.transaction() as tx:
            send(tx, 1)
        with pytest.raises(StorageError), coordinator.transaction() as tx:
            work(tx, 1)  # the same message once more
        assert tx.outcome.ending is Ending.ROLLED_BACK
        assert any_places.state == ([], [1], [])
        with coordinator.transaction() as tx:
            work(tx, 2)
        assert any_places.state == ([2], [1, 2], [])


def test_a_statement_that_failed_unseen_is_never_prepared(any_places: Places) -> None:
    """PostgreSQL answers PREPARE TRANSACTION with a rollback and no error, if a statement had failed."""
    with any_places.process() as coordinator:
        with pytest.raises(StorageError), coordinator.transaction() as tx:
            work(tx, 1)
            with pytest.raises(IntegrityError):
                tx.connection("app").execute(text("insert into placed values (1)"))
        assert any_places.state == ([], [], [])


def test_the_answer_to_prepare_is_read(places: Places) -> None:
    """A second guard, in case that the driver does not know that a statement had failed."""
    with places.process() as coordinator:
        with pytest.raises(StorageError, match="has not prepared"), coordinator.transaction() as tx:
            work(tx, 1)
            coordinator.prepare = lambda branch, gtrid: (  # type: ignore[method-assign]
                branch.connection.exec_driver_sql("savepoint s"),
                branch._driver.pgconn.exec_(b"select 1/0"),
                setattr(branch, "_check", lambda: None),
                branch.prepare(gtrid),
            )[-1]
        assert places.state == ([], [], [])


def test_a_deferred_constraint_that_fails_at_the_end_undoes_both(any_places: Places) -> None:
    with any_places.process() as coordinator:
        with pytest.raises(StorageError, match="child"), coordinator.transaction() as tx:
            work(tx, 1)
            tx.connection("app").execute(text("insert into child values (7)"))
        assert any_places.state == ([], [], [])


def test_unpreparable_transaction_is_an_error_and_rolls_back_both(places: Places) -> None:
    with places.process() as coordinator:
        with pytest.raises(StorageError, match="NOTIFY"), coordinator.transaction() as tx:
            work(tx, 1)
            tx.connection("app").execute(text("notify something"))
        assert places.state == ([], [], [])


def test_a_database_that_is_only_read_is_not_prepared(places: Places) -> None:
    with places.process() as coordinator:
        with coordinator.transaction() as tx:
            assert tx.connection("app").execute(text("select count(*) from placed")).scalar() == 0
            send(tx, 1)
        assert tx.outcome.gtrid is None
        assert places.state == ([], [1], [])
        assert places.decisions() == []


def test_only_the_other_database_is_written_to(places: Places) -> None:
    with places.process() as coordinator:
        with coordinator.transaction() as tx:
            tx.connection("app").execute(text("insert into placed values (1)"))
        assert places.state == ([1], [], [])


def test_decisions_are_forgotten_together(places: Places) -> None:
    with places.process() as coordinator:
        for number in range(3):
            with coordinator.transaction() as tx:
                work(tx, number)
        assert len(places.decisions()) == 3
        coordinator.recovery.run_once(0.0)
        assert places.decisions() == []
        assert places.state == ([0, 1, 2], [0, 1, 2], [])


# --- sessions --------------------------------------------------------------------------------------------------------


def test_pending_session_changes_are_flushed_before_the_commit(any_places: Places) -> None:
    with any_places.process() as coordinator:
        with coordinator.transaction() as tx:
            tx.session("app").add(Placed(id=1))
            assert tx.session("app").get(Placed, 1) is not None
            send(tx, 1)
        assert any_places.state == ([1], [1], [])


def test_the_commit_of_a_session_is_not_the_transactions(any_places: Places) -> None:
    with any_places.process() as coordinator:
        with pytest.raises(ResolutionRefused), coordinator.transaction() as tx:
            session = tx.session("app")
            session.add(Placed(id=1))
            session.commit()
            send(tx, 1)
            raise ResolutionRefused
        assert any_places.state == ([], [], [])


def test_the_rollback_of_a_session_is_not_the_transactions(any_places: Places) -> None:
    with any_places.process() as coordinator:
        with coordinator.transaction() as tx:
            work(tx, 1)
            session = tx.session("app")
            session.add(Placed(id=2))
            session.flush()
            session.rollback()
        assert any_places.state == ([1], [1], [])


def test_session_that_cannot_flush_rolls_back_both(any_places: Places) -> None:
    with any_places.process() as coordinator:
        with coordinator.transaction() as tx:
            work(tx, 1)
        with pytest.raises(StorageError, match="placed_pkey"), coordinator.transaction() as tx:
            tx.session("app").add(Placed(id=1))
            send(tx, 2)
        assert any_places.state == ([1], [1], [])


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_the_application_cannot_end_the_transaction_by_itself(any_places: Places, end: str) -> None:
    with any_places.process() as coordinator:
        with pytest.raises(StorageError, match=r"Mercury's|on its own"), coordinator.transaction() as tx:
            work(tx, 1)
            getattr(tx.connection("app"), end)()
        assert any_places.state == ([], [], [])


@pytest.mark.parametrize("end", ["commit", "rollback"])
@pytest.mark.parametrize("continues", [False, True], ids=["", "and continues"])
def test_a_transaction_that_was_ended_by_a_statement_is_noticed(any_places: Places, end: str, continues: bool) -> None:
    with any_places.process() as coordinator:
        with pytest.raises(StorageError, match="on its own"), coordinator.transaction() as tx:
            work(tx, 1)
            with suppress(StorageError):
                tx.connection("app").exec_driver_sql(end)
            if continues:
                work(tx, 2)
        assert any_places.state == ([], [], [])


def test_a_branch_that_was_rolled_back_in_a_savepoint_is_not_committed_without_what_was_before(places: Places) -> None:
    with places.process() as coordinator:
        with pytest.raises(StorageError, match="on its own"), coordinator.transaction() as tx:
            work(tx, 1)
            with pytest.raises(ResolutionRefused), tx.savepoint():
                tx.connection().exec_driver_sql("select 1")
                tx.connection("app").rollback()
                raise ResolutionRefused
            with suppress(StorageError):
                work(tx, 2)
        assert places.state == ([], [], [])


def test_a_transaction_that_was_ended_unseen_is_not_prepared(places: Places) -> None:
    with places.process() as coordinator:
        with pytest.raises(StorageError, match="by itself"), coordinator.transaction() as tx:
            work(tx, 1)
            driver = tx.connection("app").connection.dbapi_connection
            assert driver is not None
            driver.cursor().execute("rollback")
        assert places.state == ([], [], [])


# --- savepoints ------------------------------------------------------------------------------------------------------


def test_a_savepoint_undoes_the_work_in_every_database(any_places: Places) -> None:
    with any_places.process() as coordinator:
        with coordinator.transaction() as tx:
            work(tx, 1)
            with pytest.raises(ResolutionRefused), tx.savepoint():
                work(tx, 2)
                raise ResolutionRefused
            with tx.savepoint():
                work(tx, 3)
        assert any_places.state == ([1, 3], [1, 3], [])


def test_a_database_that_came_in_within_a_savepoint_is_undone_with_it(any_places: Places) -> None:
    with any_places.process() as coordinator:
        with coordinator.transaction() as tx:
            with pytest.raises(ResolutionRefused), tx.savepoint():
                with tx.savepoint():
                    work(tx, 1)
                raise ResolutionRefused
            with tx.savepoint():
                work(tx, 2)
                with pytest.raises(ResolutionRefused), tx.savepoint():
                    work(tx, 3)
                    raise ResolutionRefused
        assert any_places.state == ([2], [2], [])


def test_nothing_is_left_to_commit_when_everything_was_undone(any_places: Places) -> None:
    with any_places.process() as coordinator:
        with coordinator.transaction() as tx, pytest.raises(ResolutionRefused), tx.savepoint():
            work(tx, 1)
            raise ResolutionRefused
        assert tx.outcome.ending is Ending.COMMITTED
        assert any_places.state == ([], [], [])


def test_a_deferred_constraint_is_checked_when_a_savepoint_ends(any_places: Places) -> None:
    """One message that breaks it shall not undo the whole run."""
    with any_places.process() as coordinator:
        with coordinator.transaction() as tx:
            with tx.savepoint():
                work(tx, 1)
            with pytest.raises(IntegrityError, match="child"), tx.savepoint():
                work(tx, 2)
                tx.connection("app").execute(text("insert into child values (7)"))
            with tx.savepoint():
                work(tx, 3)
        assert any_places.state == ([1, 3], [1, 3], [])


def test_the_check_of_deferred_constraints_leaves_them_deferred(any_places: Places) -> None:
    with any_places.process() as coordinator:
        with coordinator.transaction() as tx:
            with tx.savepoint():
                work(tx, 1)
            with tx.savepoint():
                work(tx, 2)
                tx.connection("app").execute(text("insert into child values (7)"))
                tx.connection("app").execute(text("insert into parent values (7)"))
        assert any_places.state == ([1, 2], [1, 2], [])


def test_a_session_ends_with_its_savepoint(any_places: Places) -> None:
    with any_places.process() as coordinator:
        with coordinator.transaction() as tx:
            tx.session("app").add(Placed(id=1))
            with tx.savepoint():
                tx.session("app").add(Placed(id=2))
            with pytest.raises(ResolutionRefused), tx.savepoint():
                tx.session("app").add(Placed(id=3))
                tx.session("app").commit()
                raise ResolutionRefused
            send(tx, 1)
        assert any_places.state == ([1, 2], [1], [])


@pytest.mark.parametrize("places", ["sqlite"], indirect=True)
def test_sending_does_not_lock_a_sqlite_store_before_the_commit(places: Places) -> None:
    with places.process() as coordinator, places.process() as other:
        with coordinator.transaction() as tx:
            with tx.savepoint():
                work(tx, 1)
            with other.transaction() as beside:
                send(beside, 2)
        assert places.state == ([1], [2, 1], [])


# --- claims ----------------------------------------------------------------------------------------------------------


def test_the_other_database_is_written_to_only_while_the_claim_holds(places: Places) -> None:
    """Even when there is nothing for the store to write."""
    with places.process() as coordinator:
        store = coordinator.store
        mine = store.claim("rms a", "me", 0.0, 0.0)
        assert mine is not None
        assert store.claim("rms a", "other", 1e12, 1.0) is not None
        with pytest.raises(Conflict), coordinator.transaction() as tx:
            tx.guard(mine)
            tx.connection("app").execute(text("insert into placed values (1)"))
        assert places.state == ([], [], [])
