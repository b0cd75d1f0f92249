"""The guards of searches by indexes, each with the test that must fail when it is removed."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

SOURCE = "test_a_source_searches_its_rows_by_indexes"
CREATION = "test_creations_of_sequences_read_none_but_their_own"
DESTINATION = "test_a_destination_searches_its_rows_by_indexes"


def search(
    name: str, symbol: str, before: str, after: str, test: str, *, file: str = "test_statistics_of_an_empty_queue"
) -> Mutant:
    """A guard that is removed."""
    change = Change(f"mercury.storage.sql.{symbol}", before, after)
    return Mutant(f"searches by indexes: {name}", (change,), test=f"tests/storage/{file}.py::{test}")


SEARCHES = (
    search(
        "one of each row",
        "prepared:sought",
        "Sought(column, value)",
        "column == value",
        f"{SOURCE}[20-analyze]",
    ),
    search(
        "updates by lists",
        "postgres_texts:update_text",
        'any (array[v."{key}"])',
        'v."{key}"',
        f"{SOURCE}[20-analyze]",
    ),
    search(
        "no table as a whole in a transaction",
        "statements:Statements._begin_to_search",
        "self._searches or ",
        "True or ",
        f"{SOURCE}[20-vacuum analyze]",
    ),
    search(
        "no table as a whole for what is due",
        "prepared:search",
        "session is None",
        "True",
        f"{SOURCE}[1-analyze]",
    ),
    search(
        "the rows of each buffer",
        "invoker:_parts",
        "if dialect.changes_in_queries:",
        "if False:",
        f"{DESTINATION}[1-analyze]",
    ),
    search(
        "a change with a result",
        "statements:Statements.read_changing",
        "*self._begin_to_search(), ",
        "",
        "test_a_change_with_a_result_searches_too",
    ),
    search(
        "queries that have to read a table are not compiled",
        "round_trips",
        "set_config('jit', 'off', true)",
        "set_config('jit', 'on', true)",
        "test_queries_for_what_is_due_are_not_compiled",
    ),
    search(
        "not by the application",
        "application_part:ApplicationPart.connection",
        "self._end_search()",
        "()",
        "test_the_statements_of_the_application_are_planned_as_ever",
    ),
    search(
        "not what the application leaves",
        "application_part:ApplicationPart._leave",
        "self._end_search()",
        "()",
        "test_a_statement_that_waits_is_planned_as_ever",
    ),
    search(
        "not before handlers",
        "statements:Statements.read_ahead",
        " if handlers or not delivers else []",
        "",
        "test_locks_before_handlers",
        file="test_round_trips",
    ),
    search(
        "not for one sequence before handlers",
        "rmd:SqlRmd.lock",
        "len(part) > 1",
        "True",
        "test_lock_of_one_sequence_before_handlers_is_planned_as_ever",
    ),
    search(
        "not after the savepoint for handlers",
        "statements:Statements._begin_to_search",
        " or (self._delivers and not ends)",
        "",
        "test_a_change_behind_handlers_is_planned_as_ever",
    ),
    search(
        "not behind a handler that fails",
        "transaction:SqlTransaction.savepoint",
        "self._searches or searches",
        "self._searches",
        "test_the_statements_behind_a_handler_that_fails_are_planned_as_ever",
    ),
    search(
        "again after a rollback",
        "transaction:SqlTransaction.restart",
        "self._writing = self._searches = False",
        "self._writing = False",
        "test_mercury_searches_again_behind_a_failed_handler_with_which_all_was_rolled_back",
    ),
    search(
        "sequences that are read before handlers",
        "rmd:SqlRmd.read_many",
        ", handlers=True)",
        ")",
        "test_several_sequences_are_read_without_a_setting_to_end_before_handlers",
    ),
    search(
        "several sequences before handlers",
        "rmd:SqlRmd.lock",
        "len(part) > 1",
        "False",
        f"{CREATION}[locked-alone]",
    ),
    search(
        "what a CreateSequence has made",
        "rmd:SqlRmd.find_created",
        '.search(CREATED, {"create_keys": part}, handlers=True)',
        '.read(CREATED, {"create_keys": part})',
        f"{CREATION}[made by a CreateSequence-alone]",
    ),
    search(
        "several sequences that are only read",
        "rmd:SqlRmd.read_many",
        "else partial(self._tx.search, handlers=True)",
        "else self._tx.read",
        f"{CREATION}[read-alone]",
    ),
    search(
        "an offered sequence",
        "rms:SqlRms._keys_by",
        "self._tx.search(",
        "self._tx.read(",
        f"{CREATION}[offered-alone]",
    ),
    search(
        "the sequences of new keys",
        "rms:SqlRms._load",
        "self._tx.search(",
        "self._tx.read(",
        f"{CREATION}[of new keys-alone]",
    ),
    search(
        "after handlers",
        "statements:Statements.search",
        "handlers or self._delivers",
        "handlers",
        f"{CREATION}[offered-behind handlers]",
    ),
    search(
        "no round trip before handlers",
        "invoker:SqlInvoker.expect",
        "handlers=True",
        "handlers=False",
        "test_a_lone_message_at_its_destination",
        file="test_round_trips",
    ),
)
