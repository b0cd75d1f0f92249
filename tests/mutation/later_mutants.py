"""The guards of statements that are executed later, each with the test that must fail when it is removed."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

LATER = "tests/storage/test_execute_later.py"
MIGRATED = "tests/storage/test_types_changed_elsewhere.py"


def later(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A guard that is removed."""
    change = Change(f"mercury.storage.sql.{symbol}", before, after)
    return Mutant(f"statements executed later: {name}", (change,), test=f"{LATER}::{test}")


STATEMENTS = (
    later(
        "none waits when the application has a connection",
        "application_part:ApplicationPart._leave",
        "self._handed_out or ",
        "",
        "test_a_query_on_a_connection_from_before_sees_it_too[postgres]",
    ),
    later(
        "none waits under a time limit",
        "application_part:ApplicationPart._leave",
        "self._limit is not None or ",
        "",
        "test_a_handler_with_a_time_limit_is_stopped_in_the_statement",
    ),
    later(
        "none waits in a transaction of the application",
        "application_part:ApplicationPart._leave",
        "not self._may_wait or ",
        "",
        "test_in_a_transaction_of_the_application_nothing_waits[postgres]",
    ),
    later(
        "other databases",
        "application_part:ApplicationPart._leave",
        " or not self._is_own(resource)",
        "",
        "test_other_databases_get_it_at_once",
    ),
    later(
        "the values of the call",
        "application_part:ApplicationPart._leave",
        "session.ready(call)",
        "call",
        "test_the_values_are_those_of_the_call",
    ),
    later(
        "a value is missing",
        "application_calls:application_call",
        "    if missing:",
        "    if False:",
        "test_a_value_that_cannot_be_sent_is_told_at_once[postgres-none]",
    ),
    later(
        "large values",
        "application_calls:application_call",
        " or are_many_bytes(parameters.values())",
        "",
        "test_long_statements_and_large_values_are_not_kept",
    ),
    later(
        "long statements",
        "application_calls:application_call",
        "len(statement) <= MOST_REMEMBERED and ",
        "",
        "test_long_statements_and_large_values_are_not_kept",
    ),
    later(
        "kinds of statements",
        "application_calls:application_call",
        " and _MAY_WAIT.match(statement)",
        "",
        "test_a_statement_that_may_end_the_transaction_is_executed_at_once_as_by_a_connection",
    ),
    later(
        "what waits is bounded",
        "statements:Statements.leave",
        "        if len(self._left) >= MOST_LEFT:\n            self.send_pending()\n",
        "",
        "test_few_statements_wait_at_once",
    ),
    later(
        "what belongs to a block that fails is dropped",
        "statements:Statements.drop_pending",
        "        self._left.clear()\n",
        "",
        "test_statement_that_is_left_in_a_block_that_fails_is_not_executed",
    ),
    Mutant(
        "statements executed later: none waits for the commit if a constraint is checked there",
        (
            Change(
                "mercury.storage.sql.application_part:ApplicationPart.only_leaves", " and not self._deferred.any", ""
            ),
        ),
        test="tests/storage/test_executed_with_the_commit.py"
        "::test_constraint_that_is_checked_at_the_commit_fails_the_call_on_arrival",
    ),
    later(
        "an error with a SQLSTATE of the application's own",
        "round_trips:error_of",
        "psycopg.errors.error_from_result(result)",
        "psycopg.errors.lookup(result.error_field(DiagnosticField.SQLSTATE).decode())(result.get_error_message())",
        "test_an_error_with_a_state_of_the_application_at_the_commit_is_one_of_the_storage[MY001-StorageError]",
    ),
    later(
        "the SQLSTATE of an error that is named",
        "round_trips:_error_in",
        "type(error)(named, info=error.pgresult)",
        "type(error)(named)",
        "test_an_error_with_a_state_of_the_application_is_one_of_the_storage[57MY1-StorageError]",
    ),
    later(
        "an error of the application at its commit",
        "transaction:SqlTransaction._commit_together",
        "raise self.translate(failed.error) or failed from failed.error",
        "raise translate(failed.error) or failed from failed.error",
        "test_one_that_fails_at_the_commit_takes_the_message_with_it_and_is_named",
    ),
    later(
        "an error of the application before its commit",
        "statements:Statements._application_errors",
        "            raise self.translate(failed.error) or failed from failed.error",
        "            raise failed.error from None",
        "test_one_that_fails_is_told_to_what_follows_it",
    ),
    later(
        "the application has a part of the prepared statements",
        "round_trips:Session._are_many",
        "len(self._of_application) >= MOST_OF_APPLICATION",
        "False",
        "test_statements_that_differ_each_time_do_not_crowd_out_mercurys",
    ),
    Mutant(
        "statements executed later: one that is outdated is prepared again",
        (
            Change(
                "mercury.storage.sql.round_trips:Session._forget_failed",
                "not executes or state.startswith(OUTDATED)",
                "not executes",
            ),
        ),
        test=f"{MIGRATED}::test_a_statement_left_for_later_fails_at_most_once_after_a_migration[text to jsonb]",
    ),
    Mutant(
        "statements executed later: one that is outdated is deallocated",
        (
            Change(
                "mercury.storage.sql.round_trips:Session._forget_failed",
                "if executes and name is not None:",
                "if False:",
            ),
        ),
        test=f"{MIGRATED}::test_statements_that_always_fail_are_not_kept_in_the_server",
    ),
    Mutant(
        "statements executed later: one that is gone is not deallocated",
        (Change("mercury.storage.sql.round_trips:Session._forget_all", "self._outdated.clear()", "pass"),),
        test=f"{MIGRATED}::test_statement_that_is_gone_already_is_not_deallocated",
    ),
)
