"""The guards of lone messages, each with the test that must fail when it is removed (decision 111)."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

STORED = "tests/storage/test_sent_in_the_application.py"
RUNNING = "tests/acceptance/test_lone_messages.py"
SEND, LONE = "engine.source.worker:SourceWorker.send_in", "engine.source.worker:SourceWorker._lone"
QUIET = "engine.appended:AppendedKeys.is_quiet"
FAILING = "test_action_that_fails_keeps_neither_the_worker_nor_other_actions_from_being_called"
KEPT = "tests/storage/test_kept_connection.py"
SETTING = "test_setting_of_the_application_does_not_outlive_its_transaction"
LOCK = "storage.sql.rms:SqlRms.lock_appended"


def lone(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A guard that is removed."""
    return Mutant(f"lone messages: {name}", (Change(f"mercury.{symbol}", before, after),), test=test)


LONE_MESSAGES = (
    lone(
        "many messages share a turn",
        LONE,
        "not 0 < len(appended) <= MOST_AT_ONCE",
        "not appended",
        f"{STORED}::test_many_messages_of_one_transaction_are_left_to_a_turn[memory]",
    ),
    lone(
        "large ones are left",
        LONE,
        " or sum(len(row.payload) for row in appended) > BYTES_AT_ONCE",
        "",
        f"{STORED}::test_large_message_is_left_to_a_turn[memory]",
    ),
    lone(
        "an end is left",
        "engine.source.worker:_may_be_lone",
        "row.kind is OutboundKind.MESSAGE",
        "True",
        f"{STORED}::test_message_with_the_end_of_its_sequence_is_left_to_a_turn[memory]",
    ),
    lone(
        "one key in a transaction",
        LONE,
        "not others and ",
        "",
        f"{STORED}::test_messages_to_several_keys_are_left_to_a_turn[memory]",
    ),
    lone(
        "nothing of the key is on its way",
        QUIET,
        "not known.waits and ",
        "",
        f"{STORED}::test_message_behind_one_that_is_on_its_way_is_left_to_a_turn[memory]",
    ),
    lone(
        "nothing of the key waits",
        QUIET,
        " and key.digest not in self._appended",
        "",
        f"{STORED}::test_message_behind_one_that_waits_for_a_turn_is_left_to_it_too[memory]",
    ),
    lone(
        "few other keys are busy",
        QUIET,
        "quiet and len(self._waiting) < FEW_KEYS",
        "quiet",
        f"{STORED}::test_messages_share_transactions_while_several_keys_are_busy[memory]",
    ),
    lone(
        "a key that has failed rests",
        SEND,
        " or self._cool_down.waits(str(key), now)",
        "",
        f"{STORED}::test_key_whose_work_has_failed_is_left_to_a_turn[memory]",
    ),
    lone(
        "work that fails is undone",
        SEND,
        "with tx.savepoint(waits=True):",
        "if True:",
        f"{STORED}::test_message_whose_work_fails_is_committed_and_left_to_a_turn[sqlite]",
    ),
    lone(
        "a store that does not answer fails the transaction",
        SEND,
        "if isinstance(known, TransientStorageError):",
        "if False:",
        f"{STORED}::test_store_that_does_not_answer_fails_the_transaction[memory]",
    ),
    lone(
        "what was undone is announced",
        "storage.sql.transaction:SqlTransaction.savepoint",
        "            self.appended_keys = keys\n",
        "",
        f"{STORED}::test_message_whose_work_fails_is_committed_and_left_to_a_turn[sqlite]",
    ),
    lone(
        "what has left is not announced",
        "storage.sql.rms_rows:SqlRmsRows.number",
        "self._tx.appended_keys.discard(record.channel.key.digest)",
        "pass",
        f"{STORED}::test_commit_announces_nothing_that_has_left[sqlite]",
    ),
    lone(
        "the claim",
        LOCK,
        "[Claim(**row) for row in held] != [claim]",
        "False",
        f"{STORED}::test_message_under_a_claim_that_is_lost_is_left[sqlite]",
    ),
    lone(
        "the claim in memory",
        "storage.memory.rms:MemoryRms.lock_appended",
        "not self._holds(claim)",
        "False",
        f"{STORED}::test_message_under_a_claim_that_is_lost_is_left[memory]",
    ),
    lone(
        "nothing waits for the key",
        LOCK,
        " or not self._tx.read(*free)",
        "",
        f"{STORED}::test_key_that_another_transaction_has_locked_is_not_waited_for[postgres]",
    ),
    lone(
        "nothing leaves before the commit",
        "engine.runtime.threads:Runtime.send_in",
        "tx.after_commit(partial(self.run_behind, partial(self._post_behind, step)))",
        "self.run_behind(partial(self._post_behind, step))",
        f"{RUNNING}::test_nothing_leaves_if_the_commit_fails",
    ),
    lone(
        "it leaves before the actions of its application",
        "storage.sql.transaction:SqlTransaction._send_first",
        "self._after_commit += of_application",
        "self._after_commit[:0] = of_application",
        f"{STORED}::test_lone_message_leaves_before_the_actions_of_its_application[sqlite]",
    ),
    lone(
        "the worker does not wait for actions of the application",
        "storage.sql.transaction:SqlTransaction.committed",
        "self.joined or self._of_application",
        "False",
        f"{STORED}::test_worker_hears_of_a_commit_before_the_actions_of_its_application[sqlite]",
    ),
    lone(
        "the worker does not wait for actions of an application with several databases",
        "storage.sql.store:SqlStore.transaction",
        "of_application=before_commit is not None",
        "",
        "tests/xa/test_commit.py::test_worker_hears_of_a_commit_before_the_actions_of_its_application",
    ),
    lone(
        "an action that fails does not keep the worker from being called",
        "storage.sql.transaction:SqlTransaction.committed",
        "call_each((*self._after_commit, self._announce))",
        "call_each(self._after_commit)\n            self._announce()",
        f"{STORED}::{FAILING}[sqlite-engine]",
    ),
    lone(
        "it leaves before the actions of its application in memory",
        "storage.memory.transaction:MemoryTransaction._send_first",
        "self._after_commit += of_application",
        "self._after_commit[:0] = of_application",
        f"{STORED}::test_lone_message_leaves_before_the_actions_of_its_application[memory]",
    ),
    lone(
        "the worker does not wait for actions of the application in memory",
        "storage.memory.transaction:MemoryTransaction._committed",
        "self._before_commit is not None",
        "False",
        f"{STORED}::test_worker_hears_of_a_commit_before_the_actions_of_its_application[memory]",
    ),
    lone(
        "an action that fails does not keep the worker from being called in memory",
        "storage.memory.transaction:MemoryTransaction._committed",
        "call_each((*self._after_commit, announce))",
        "call_each(self._after_commit)\n            announce()",
        f"{STORED}::{FAILING}[memory-engine]",
    ),
    lone(
        "an action that fails does not keep the others from being called",
        "storage.application:call_each",
        "first = first or error",
        "raise",
        f"{STORED}::{FAILING}[memory-application]",
    ),
    lone(
        "observers are called in another thread",
        SEND,
        "work.do(cast(Transaction, later))",
        "work.do(tx)",
        f"{RUNNING}::test_observers_are_not_called_in_the_thread_of_the_application",
    ),
    lone(
        "not in a transaction that waits at its commit",
        "storage.sql.postgres_dialect:Postgres.commits_at_once",
        "COMMITS_AT_ONCE",
        "COMMITS_AT_ONCE.partition(' and ')[0]",
        f"{STORED}::test_transaction_whose_commit_may_wait_leaves_its_message_to_a_turn",
    ),
    lone(
        "not in a transaction that sees an older state",
        "storage.sql.postgres_dialect:Postgres.commits_at_once",
        "COMMITS_AT_ONCE",
        "COMMITS_AT_ONCE.partition(' and ')[2]",
        f"{STORED}::test_transaction_that_sees_an_older_state_leaves_its_message_to_a_turn",
    ),
    lone(
        "not in a transaction that a crash may undo",
        "storage.sql.postgres_dialect:Postgres.commits_at_once",
        "COMMITS_AT_ONCE",
        "COMMITS_AT_ONCE.rpartition(' and ')[0]",
        f"{STORED}::test_transaction_whose_commit_may_be_lost_leaves_its_message_to_a_turn",
    ),
    lone(
        "a connection that is lost behind the commit",
        "storage.sql.store_connections:StoreConnection._settle",
        "contextlib.suppress(psycopg.OperationalError)",
        "contextlib.nullcontext()",
        f"{KEPT}::test_connection_that_is_lost_behind_the_commit_changes_no_outcome",
    ),
    lone(
        "settings of the application end with its transaction",
        "storage.sql.releasing:release",
        "driver.grown or driver.changed",
        "driver.grown",
        f"{KEPT}::{SETTING}[on its connection-set synchronous_commit = off]",
    ),
    lone(
        "settings of the application end with its transaction, executed later",
        "storage.sql.application_calls:application_call",
        " and not changes_session(statement)",
        "",
        f"{KEPT}::{SETTING}[executed later-select set_config('synchronous_commit', 'off', false)]",
    ),
    lone(
        "settings of the application end with its transaction, although the word true occurs",
        "storage.sql.store_connections",
        r"set_config\b(?!{_LOCAL})",
        r"set_config\b(?!.*\btrue\b)",
        f"{KEPT}::{SETTING}[on its connection-select set_config('synchronous_commit', 'off', false), true]",
    ),
    lone(
        "settings of the application end with its transaction, set in a block",
        "storage.sql.store_connections",
        r"|do\b(?=.*\b(?:set|reset|set_config|execute)\b)",
        "",
        f"{KEPT}::{SETTING}[on its connection-do $$ begin set synchronous_commit = off; end $$]",
    ),
    lone(
        "settings of the transaction cost no session",
        "storage.sql.store_connections",
        r"(?!\s+(?:local|transaction|constraints)\b)",
        "",
        f"{KEPT}::test_session_that_the_application_leaves_as_it_was_is_used_again[set local synchronous_commit = off]",
    ),
    lone(
        "a message with a time is left",
        "engine.source.worker:_may_be_lone",
        " and not timed",
        "",
        f"{STORED}::test_message_with_a_time_is_left_to_a_turn[memory-expires_at]",
    ),
    lone(
        "a key is busy until it is acknowledged",
        "engine.source.transmission:KeyWork.do",
        "machine.lowest_outstanding() <= machine.last_number",
        "machine.in_flight",
        f"{STORED}::test_message_of_a_key_whose_sequence_is_being_created_is_left_to_a_turn[memory]",
    ),
    lone(
        "keys whose destinations are away are not busy",
        QUIET,
        "if now - BUSY < first[1] <= now:",
        "if True:",
        f"{STORED}::test_keys_whose_destinations_are_away_do_not_count_as_busy[memory]",
    ),
    lone(
        "nothing leaves after the stop",
        "engine.runtime.threads:Runtime.send_in",
        "None if self._stopping.is_set() else ",
        "",
        f"{RUNNING}::test_message_that_is_committed_while_the_engine_stops_is_left",
    ),
    lone(
        "not where several databases take part",
        "storage.sql.store:SqlStore.transaction",
        "return self.coordinator.transaction(of_application=before_commit is not None)",
        "tx = self.coordinator.transaction()\n            tx._before_commit = before_commit\n            return tx",
        f"{RUNNING}::test_message_in_a_transaction_of_several_databases_is_left_to_the_engine",
    ),
)
