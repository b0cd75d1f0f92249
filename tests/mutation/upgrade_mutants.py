"""The guards of upgrades and of processes that share a port, each with the test that must fail when it is removed."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

TESTS = "tests/storage/test_upgrades.py"


def guard(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    return Mutant(f"upgrade: {name}", (Change(symbol, before, after),), test=test)


UPGRADES = (
    guard(
        "a newer schema that does not name this version",
        "mercury.storage.sql.versions:SchemaStatus.usable",
        "self.oldest is not None and self.oldest <= HEAD",
        "True",
        f"{TESTS}::test_a_newer_schema_that_does_not_name_this_version_is_refused",
    ),
    guard(
        "a newer schema stays as it is",
        "mercury.storage.sql.upgrades:upgrade",
        "        if found.newer:\n            return found\n",
        "",
        f"{TESTS}::test_a_newer_schema_that_names_this_version_is_used_as_it_is",
    ),
    guard(
        "a short wait for locks",
        "mercury.storage.sql.upgrades:_migrate_in_turns",
        "dialect.limit_lock_wait(connection, LOCK_WAIT)",
        "dialect.limit_lock_wait(connection, 20_000)",
        f"{TESTS}::test_an_upgrade_lets_a_reader_pass_while_it_waits",
    ),
    guard(
        "locks are given back between attempts",
        "mercury.storage.sql.upgrades:_migrate_in_turns",
        "with translated(), connection.begin_nested():",
        "with translated():",
        f"{TESTS}::test_an_upgrade_waits_for_a_long_transaction_and_lets_others_pass",
    ),
    guard(
        "indexes beside writers",
        "mercury.storage.sql.postgres_dialect:Postgres.create_indexes_beside_writers",
        'copy.dialect_options["postgresql"]["concurrently"] = True',
        "pass",
        f"{TESTS}::test_an_index_of_a_table_in_use_is_created_without_keeping_writers_waiting",
    ),
    guard(
        "an index that was interrupted",
        "mercury.storage.sql.indexes:missing",
        "present -= dialect.unfinished_indexes(connection)",
        "pass",
        f"{TESTS}::test_an_index_of_a_table_in_use_is_created_without_keeping_writers_waiting",
    ),
    guard(
        "one process creates indexes",
        "mercury.storage.sql.postgres_dialect:Postgres.create_indexes_beside_writers",
        "                return\n",
        "                pass\n",
        f"{TESTS}::test_an_index_that_another_process_creates_is_left_to_it",
    ),
    guard(
        "a process that has ended is replaced",
        "mercury.service.worker_processes:WorkerProcesses.run",
        "if not self._ending and (report := self._fork()) is not None:",
        "if False and (report := self._fork()) is not None:",
        "tests/acceptance/test_worker_processes.py::test_a_process_that_is_killed_is_replaced",
    ),
    guard(
        "processes end with their parent",
        "mercury.service.worker_processes:WorkerProcesses._end",
        "os.kill(pid, signal.SIGTERM)",
        "pass",
        "tests/acceptance/test_worker_processes.py::test_a_process_that_is_killed_is_replaced",
    ),
)
