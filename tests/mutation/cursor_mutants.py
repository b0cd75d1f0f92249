"""The guards of statements that are executed without psycopg, each with the test that must fail when it is removed."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

TESTS = "tests/storage/test_cursor.py"
LEFT = "test_everything_that_only_psycopg_can_execute_is_left_to_it"


def cursor(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A condition for executing a statement without psycopg that is removed."""
    return Mutant(f"cursor: {name}", (Change(f"mercury.storage.sql.{symbol}", before, after),), test=f"{TESTS}::{test}")


CURSORS = (
    cursor(
        "thread that gets interrupts",
        "cursor:StoreCursor._execute_directly",
        "            or threading.current_thread() is threading.main_thread()\n",
        "",
        "test_statement_that_comes_again_is_prepared_in_a_thread_and_not_where_an_interrupt_may_come",
    ),
    cursor(
        "begin of the transaction",
        "cursor:StoreCursor._execute_directly",
        "            or libpq.transaction_status != TransactionStatus.INTRANS\n",
        "",
        "test_transaction_begins_with_a_statement_that_is_prepared",
    ),
    cursor(
        "pipeline of the application",
        "cursor:StoreCursor._execute_directly",
        "            or libpq.pipeline_status != PipelineStatus.OFF\n",
        "",
        LEFT,
    ),
    cursor("closed cursor", "cursor:StoreCursor._execute_directly", "            or self.closed\n", "", LEFT),
    cursor("percent sign", "cursor:_is_direct", ' and "%" not in _PLACEHOLDER.sub("", text)', "", LEFT),
    cursor(
        "kinds of statements",
        "cursor:_is_direct",
        "_DIRECT.match(text) is not None",
        "True",
        "test_copy_is_refused_by_psycopg",
    ),
    cursor(
        "adapters of the application",
        "cursor:StoreCursor._execute_directly",
        "Transformer(self)",
        "session._transformer",
        "test_adapters_that_the_application_registers_meanwhile_are_used",
    ),
    cursor(
        "statements that were deallocated",
        "round_trips:Session.name_of",
        "        if self.doubtful:\n            return None\n",
        "",
        "test_error_is_that_of_psycopg_and_a_savepoint_undoes_it",
    ),
    cursor(
        "statements that were deallocated in an earlier transaction",
        "round_trips:Session._forget",
        "        self._of_application.clear()\n",
        "",
        "test_statement_of_an_earlier_transaction_that_was_rolled_back_is_found_or_prepared_again",
    ),
    cursor(
        "number of prepared statements",
        "round_trips:Session.name_of",
        " or len(self._of_application) >= MOST_OF_APPLICATION",
        "",
        "test_many_statements_are_not_all_kept_prepared",
    ),
)
