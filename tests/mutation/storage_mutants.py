"""The guards of the stores and of two-phase commit, each with the test that must fail when it is removed."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

STORAGE = (
    Mutant(
        "servers that are cut off without a word",
        (Change("mercury.storage.sql.postgres_dialect:Postgres.engine", "**limits_of_silence(url.query),", ""),),
        test="tests/storage/test_silence.py::test_the_operating_system_notices_that_nobody_answers",
    ),
    Mutant(
        "servers that are cut off without a word while a process waits for notifications",
        (
            Change(
                "mercury.storage.sql.notify:Notifier._connect",
                "**limits_of_silence(self._address), ",
                "",
            ),
        ),
        test="tests/storage/test_silence.py::test_the_operating_system_notices_that_nobody_answers",
    ),
    Mutant(
        "limits of silence in the URL of a store",
        (Change("mercury.storage.sql.silence:limits_of_silence", " if name not in given", ""),),
        test="tests/storage/test_silence.py::test_limits_in_the_url_stay",
    ),
    Mutant(
        "limit of the database for a transaction",
        (Change("mercury.storage.sql.errors:TRANSIENT", ', "25P04"', ""),),
        test="tests/unit/storage/test_database_errors.py::test_a_limit_of_the_server_that_ends_a_session_ends_no_work",
    ),
    Mutant(
        "time for which the marker of a commit is kept",
        (
            Change(
                "mercury.storage.sql.retention:sweep",
                "COMMIT.c.made_at < idle_before - MARKERS_KEPT)",
                "COMMIT.c.made_at < idle_before)",
            ),
        ),
        test="tests/storage/test_retention.py::test_the_marker_of_a_commit_outlives_idle_rows",
    ),
    Mutant(
        "age of the marker of a commit",
        (
            Change(
                "mercury.storage.sql.commit_markers:CommitMarkers.was_committed",
                "            if found or age < MARKERS_KEPT / 2:",
                "            if True:",
            ),
        ),
        test="tests/storage/test_lost_answer.py::test_a_marker_that_may_be_gone_leaves_it_unknown",
    ),
    Mutant(
        "clock of retention",
        (
            Change(
                "mercury.storage.sql.store:SqlStore.sweep",
                "                idle_before=idle_before + ahead,",
                "                idle_before=idle_before,",
            ),
        ),
        test="tests/storage/test_retention.py::test_a_clock_that_is_an_hour_ahead_removes_nothing_that_is_used",
    ),
    Mutant(
        "end of a transaction",
        (
            Change(
                "mercury.storage.sql.transaction:SqlTransaction._release",
                "        self.ended()\n",
                "",
            ),
        ),
        test="tests/storage/test_ended_by_application.py::"
        "test_statements_after_the_end_of_a_transaction_are_refused_and_lock_nothing",
    ),
    Mutant(
        "message after the end of a transaction",
        (
            Change(
                "mercury.storage.sql.rms_rows:SqlRmsRows.append",
                "        self._tx.require_whole()\n",
                "",
            ),
        ),
        test="tests/conformance/test_transactions.py::test_transaction_that_has_ended_takes_no_message_and_no_action",
    ),
    Mutant(
        "end of a joined transaction",
        (
            Change(
                "mercury.storage.sql.joining:Joins._end",
                "            tx.ended()",
                "            pass",
            ),
        ),
        test="tests/storage/test_joining.py::test_message_behind_the_end_of_a_joined_transaction_is_refused",
    ),
    Mutant(
        "store of a process that was forked",
        (
            Change(
                "mercury.storage.sql.store:SqlStore._require_open",
                "        if os.getpid() != self._process:",
                "        if False:",
            ),
        ),
        test="tests/conformance/test_transactions.py::test_forked_process_cannot_use_the_store_of_its_parent",
    ),
    Mutant(
        "delivery from several buffers that has failed",
        (
            Change(
                "mercury.engine.delivery.several:SeveralBuffers.deliver",
                "            return Delivered()",
                "            raise",
            ),
        ),
        test="tests/storage/test_many_buffers.py::test_a_buffer_that_cannot_be_saved_stops_no_other",
    ),
    Mutant(
        "turns after a delivery from several buffers that has failed",
        (
            Change(
                "mercury.engine.delivery.several:SeveralBuffers.deliver",
                "            self._alone_turns = ALONE_TURNS\n",
                "",
            ),
        ),
        test="tests/storage/test_many_buffers.py::"
        "test_after_a_failure_each_buffer_has_its_own_transaction_for_some_turns",
    ),
    Mutant(
        "claims of a delivery from several buffers",
        (
            Change(
                "mercury.engine.delivery.several:SeveralBuffers._commit",
                "                tx.guard(claims[run.record.sequence])",
                "                pass",
            ),
        ),
        test="tests/storage/test_many_buffers.py::"
        "test_a_sequence_that_another_process_has_taken_meanwhile_stops_no_other",
    ),
    Mutant(
        "assurance of a delivery from several buffers",
        (
            Change(
                "mercury.engine.delivery.several:is_simple",
                "return context.application.policy(record.service).assurance is DeliveryAssurance.EXACTLY_ONCE",
                "return True",
            ),
        ),
        test="tests/storage/test_many_buffers.py::test_under_at_most_once_the_begin_of_each_run_is_committed_first",
    ),
    Mutant(
        "rate of a service in a delivery from several buffers",
        (
            Change(
                "mercury.engine.delivery.several:is_simple",
                "        return False  # a limit on its rate counts the calls of each run",
                "        pass",
            ),
        ),
        test="tests/scenario/test_fair_scheduling.py::"
        "test_buffers_of_a_service_with_a_limited_rate_get_no_more_together",
    ),
    Mutant(
        "time of a delivery from several buffers",
        (
            Change(
                "mercury.engine.delivery.several:SeveralBuffers._commit",
                "lambda: monotonic() >= until",
                "lambda: False",
            ),
        ),
        test="tests/scenario/test_fair_scheduling.py::"
        "test_one_transaction_with_several_buffers_ends_in_time_for_the_others",
    ),
    Mutant(
        "buffer that was served since the query",
        (Change("mercury.engine.delivery.turns:Turns.served", "self._served |= ", "_ = "),),
        test="tests/unit/engine/delivery/test_turns_of_buffers.py::"
        "test_buffer_that_was_served_since_the_query_is_not_worked_on_again",
    ),
    Mutant(
        "version of buffers that are saved together",
        (
            Change(
                "mercury.storage.sql.invoker:SqlInvoker.save_in_order",
                ' or stored[name]["version"] != record.version',
                "",
            ),
        ),
        test="tests/conformance/test_invoker.py::test_none_of_several_buffers_is_saved_if_one_has_an_old_version",
    ),
    Mutant(
        "bytes of parts of several buffers",
        (Change("mercury.storage.sql.invoker:_that_fit", "part.c.upto <= bindparam(", "part.c.upto >= bindparam("),),
        test="tests/conformance/test_invoker.py::test_first_parts_of_many_buffers_have_no_more_bytes_together",
    ),
    Mutant(
        "bytes of a transaction of several keys",
        (Change("mercury.engine.source.worker:SourceWorker._commit_together", " or size >= MOST_BYTES", ""),),
        test="tests/storage/test_many_keys.py::test_a_transaction_ends_after_so_many_bytes",
    ),
    Mutant(
        "posts of a transaction of several keys",
        (
            Change(
                "mercury.engine.source.worker:SourceWorker._commit_together", "len(step.posts) >= MOST_POSTS or ", ""
            ),
        ),
        test="tests/storage/test_many_keys.py::"
        "test_a_transaction_ends_after_so_many_posts_and_the_next_turn_has_the_other_keys",
    ),
    Mutant(
        "keys of a transaction that has failed",
        (
            Change(
                "mercury.engine.source.worker:SourceWorker._together", "            return None", "            raise"
            ),
        ),
        test="tests/storage/test_many_keys.py::test_a_key_that_fails_stops_no_other",
    ),
    Mutant(
        "window in bytes",
        (Change("mercury.storage.sql.window:_fits", "or_(first.c.upto <= MOST_BYTES,", "or_(first.c.upto >= 0,"),),
        test="tests/storage/test_large_messages.py::test_window_counts_bytes_and_moves_on_with_acknowledgements",
    ),
    Mutant(
        "window in bytes of the store in memory",
        (Change("mercury.storage.sizes:within", "> most_bytes and taken", "> most_bytes and False"),),
        test="tests/storage/test_large_messages.py::test_window_counts_bytes_and_moves_on_with_acknowledgements",
    ),
    Mutant(
        "bytes of messages that are read to be numbered",
        (
            Change(
                "mercury.engine.source.numbering",
                "from mercury.engine.source.in_window import WINDOW_BYTES",
                "WINDOW_BYTES = 2**62",
            ),
        ),
        test="tests/storage/test_large_messages.py::test_memory_for_messages_in_flight_does_not_grow_with_their_number",
    ),
    Mutant(
        "bytes of messages that one run reads",
        (Change("mercury.engine.delivery.invocation:InvocationWorker._load", "+ limit, RUN_BYTES)", "+ limit)"),),
        test="tests/storage/test_large_messages.py::test_a_run_reads_so_many_bytes_and_the_next_run_the_others",
    ),
    Mutant(
        "buffers of the driver that a large body was sent with",
        (
            Change(
                "mercury.storage.sql.postgres_dialect:Postgres.insert",
                "            note_bytes(connection, [row[name] for row in rows for name in names])\n",
                "            pass\n",
            ),
        ),
        test="tests/storage/test_large_messages.py::test_connection_that_has_carried_a_large_body_is_not_used_again",
    ),
    Mutant(
        "buffers of the driver that a large body was received with",
        (
            Change(
                "mercury.storage.sql.prepared:_rows",
                "        note_bytes(connection, chain.from_iterable(rows))\n",
                "        pass\n",
            ),
        ),
        test="tests/storage/test_large_messages.py::test_connection_that_has_carried_a_large_body_is_not_used_again",
    ),
    Mutant(
        "buffers of the driver that a large body was sent with by the application",
        (
            Change(
                "mercury.storage.sql.postgres_dialect:Postgres.insert_both",
                "note_bytes(connection, [row[name] for row in inserted for name in binary_columns(table)])",
                "pass",
            ),
        ),
        test="tests/storage/test_large_messages.py::"
        "test_connection_that_an_application_has_sent_a_large_body_with_is_not_used_again",
    ),
    Mutant(
        "bodies in binary",
        (Change("mercury.storage.sql.postgres_dialect:Postgres", "has_texts = True", "has_texts = False"),),
        test="tests/storage/test_large_messages.py::test_body_is_received_as_its_bytes_and_not_as_a_text_twice_as_long",
    ),
    Mutant(
        "a single body as a value",
        (
            Change(
                "mercury.storage.sql.postgres_dialect:Postgres.inserting",
                "one = len(rows) == 1",
                "one = False",
            ),
        ),
        test="tests/storage/test_large_messages.py::"
        "test_body_that_is_stored_alone_is_not_put_into_a_list_for_the_driver",
    ),
    Mutant(
        "a body as it is for the driver",
        (
            Change(
                "mercury.storage.sql.store_connections:StoreConnection.opened",
                "        driver.adapters.register_dumper(bytes, UncopiedBytes)\n",
                "",
            ),
        ),
        test="tests/storage/test_large_messages.py::test_body_is_sent_as_it_is_and_not_as_a_copy_that_the_driver_keeps",
    ),
    Mutant(
        "an answer that is freed when it is read",
        (Change("mercury.storage.sql.round_trips:Session.load", "set_pgresult(None)", "set_pgresult(result)"),),
        test="tests/storage/test_large_messages.py::test_answer_of_the_database_is_freed_when_its_rows_are_read",
    ),
    Mutant(
        "two changes of a table in one statement",
        (Change("mercury.storage.sql.statements:Statements._later", "self._send_pending_of(change.tables)", "pass"),),
        test="tests/storage/test_together.py::test_a_change_finds_the_row_that_a_change_of_the_same_table_before_it_has_made",
    ),
    Mutant(
        "a deletion beside a change of its table",
        (
            Change(
                "mercury.storage.sql.statements:Statements.read_changing",
                "self._send_pending_of([table.name for table in tables])",
                "pass",
            ),
        ),
        test="tests/storage/test_together.py::test_a_row_that_is_numbered_and_settled_in_one_transaction_is_deleted",
    ),
    Mutant(
        "a query before the changes that wait",
        (Change("mercury.storage.sql.statements:Statements.read", "self.send_pending()", "pass"),),
        test="tests/storage/test_together.py::test_a_query_of_the_same_transaction_sees_a_change_that_waited",
    ),
    Mutant(
        "a savepoint keeps the changes that wait",
        (Change("mercury.storage.sql.transaction:SqlTransaction.savepoint", "self.drop_pending()", "pass"),),
        test="tests/storage/test_together.py::test_a_change_that_waited_is_undone_with_its_savepoint",
    ),
    Mutant(
        "changes wait for a commit of the application",
        (Change("mercury.storage.sql.statements:Statements._may_wait", " and not self.joined", ""),),
        test="tests/storage/test_together.py::test_a_change_in_a_transaction_that_the_application_commits_does_not_wait",
    ),
    Mutant(
        "caught error of the database",
        (
            Change(
                "mercury.storage.sql.application_part:ApplicationPart.check_usable",
                "if self._deferred is not None and self._writing:",
                "if False:",
            ),
        ),
        test="tests/storage/test_caught_errors.py::test_caught_error_is_found_before_anything_else_is_executed",
    ),
    Mutant(
        "buffer that has lost the row of an incomplete end",
        (Change("mercury.engine.delivery.repair:lost_cut", "if machine.cut or", "if True or"),),
        test="tests/storage/test_damaged_ends.py::test_an_end_that_was_altered_ends_its_sequence_and_holds_up_no_other",
    ),
    Mutant(
        "buffer whose row of the end was removed by another process",
        (Change("mercury.storage.sql.work:_stuck_invoker", "or_(stray, and_(~has_rows, ended))", "stray"),),
        test="tests/storage/test_damaged_ends.py::test_an_end_that_was_altered_ends_its_sequence_and_holds_up_no_other",
    ),
    Mutant(
        "buffer that has lost the row of its last number",
        (
            Change(
                "mercury.engine.delivery.invocation:InvocationWorker._repair",
                "knows_last = last is None or machine.last is not None",
                "knows_last = True",
            ),
        ),
        test="tests/storage/test_damaged_ends.py::test_an_end_that_was_altered_ends_its_sequence_and_holds_up_no_other",
    ),
    Mutant(
        "lost connection whose error was caught",
        (
            Change(
                "mercury.storage.sql.transaction:SqlTransaction._require_connections",
                "raise TransientStorageError(LOST)",
                "pass",
            ),
        ),
        test="tests/storage/test_caught_errors.py"
        "::test_lost_connection_is_an_outage_at_the_end_of_the_block_although_its_error_was_caught",
    ),
    Mutant(
        "statement on a lost connection whose error was caught",
        (
            Change(
                "mercury.storage.sql.errors:translate",
                "isinstance(error, exc.PendingRollbackError) and error.code == LOST_BEFORE",
                "False",
            ),
        ),
        test="tests/xa/test_handlers.py"
        "::test_handler_that_catches_the_loss_of_a_named_database_is_called_again_without_a_failed_attempt",
    ),
    Mutant(
        "lost session of a named database whose error was caught",
        (
            Change(
                "mercury.storage.xa.transaction:XaTransaction._require_connections",
                "branch.require_connection()",
                "pass",
            ),
        ),
        test="tests/xa/test_ended_sessions.py"
        "::test_session_of_a_database_that_ends_in_a_savepoint_is_an_outage_although_its_error_was_caught",
    ),
    Mutant(
        "transaction that SQLite has rolled back by itself",
        (
            Change(
                "mercury.storage.sql.sqlite_connections:SqliteCursor._run",
                "owner.ended_by_database(error)",
                "pass",
            ),
        ),
        test="tests/storage/test_ended_by_database.py::test_nothing_is_executed_behind_the_end_of_the_transaction",
    ),
    *(
        Mutant(
            f"commit by a method of the driver of SQLite: {how}",
            (Change(f"mercury.storage.sql.sqlite_connections:SqliteConnection.{method}", before, after),),
            test="tests/storage/test_ended_by_application.py"
            f"::test_commit_by_a_method_of_the_driver_of_sqlite_is_noticed[{how}]",
        )
        for how, method, before, after in (
            ("execute", "execute", "self.cursor()", "super()"),
            ("executemany", "executemany", "self.cursor()", "super()"),
            ("executescript", "executescript", "self.cursor()", "super()"),
            ("with", "__exit__", "if self.owner is not None:", "if False:"),
        )
    ),
    Mutant(
        "transaction whose lock was waited for in vain",
        (
            Change(
                "mercury.storage.sql.statements:Statements._begun",
                "            if not self.joined:",
                "            self._writing = True\n            if not self.joined:",
            ),
        ),
        test="tests/storage/test_ended_by_database.py"
        "::test_transaction_begins_when_its_lock_is_free_although_the_application_has_caught_the_error_before",
    ),
    Mutant(
        "statements behind the end of a transaction in SQLite",
        (
            Change(
                "mercury.storage.sql.sqlite_connections:SqliteCursor._run",
                "            raise owner.broken\n",
                "",
            ),
        ),
        test="tests/storage/test_ended_by_database.py::test_nothing_is_executed_behind_the_end_of_the_transaction",
    ),
    Mutant(
        "end of a transaction that no statement has shown",
        (
            Change(
                "mercury.storage.sql.transaction:SqlTransaction.commit_store",
                "self.dialect.check_usable(self._connection)",
                "pass",
            ),
        ),
        test="tests/storage/test_ended_by_database.py::test_end_that_no_statement_has_shown_is_noticed_before_the_commit",
    ),
    Mutant(
        "work since a savepoint that is not undone",
        (
            Change(
                "mercury.storage.sql.transaction:SqlTransaction._undo",
                "self.broken = known if transient else",
                "_ =",
            ),
        ),
        test="tests/storage/test_ended_by_application.py::test_nothing_is_kept_if_the_work_since_a_savepoint_cannot_be_undone",
    ),
    Mutant(
        "statement that ends the transaction of another database",
        (Change("mercury.storage.xa.branch:enlist", "            _note_ends(connection, owner)\n", ""),),
        test="tests/xa/test_commit.py::test_a_transaction_that_was_ended_by_a_statement_is_noticed",
    ),
    Mutant(
        "branch that has ended in a savepoint which is undone",
        (Change("mercury.storage.xa.transaction:XaTransaction.restart", "if self._branches:", "if False:"),),
        test="tests/xa/test_commit.py"
        "::test_a_branch_that_was_rolled_back_in_a_savepoint_is_not_committed_without_what_was_before",
    ),
    Mutant(
        "error of what ended the transaction",
        (
            Change(
                "mercury.storage.sql.transaction:SqlTransaction.savepoint",
                "self._undo(part, error)",
                "part.undo()",
            ),
        ),
        test="tests/storage/test_ended_by_application.py::test_nothing_is_kept_if_the_work_since_a_savepoint_cannot_be_undone",
    ),
    Mutant(
        "statement that commits Mercury's transaction",
        (
            Change(
                "mercury.storage.sql.ends:note_end",
                "owner.ended_by_application(commit=commits)",
                "pass",
            ),
        ),
        test="tests/storage/test_ended_by_application.py::test_statement_that_commits_is_not_executed",
    ),
    Mutant(
        "end of a transaction in a text that is not understood",
        (
            Change(
                "mercury.storage.sql.store_connections:StoreCursor.execute",
                "owner.ended_by_application(commit=False)",
                "pass",
            ),
        ),
        test="tests/storage/test_ended_by_application.py::test_end_is_found_among_other_statements_too",
    ),
    Mutant(
        "error of a savepoint",
        (
            Change(
                "mercury.storage.sql.postgres_dialect:Postgres.execute_all",
                "if result.status != ExecStatus.COMMAND_OK:",
                "if False:",
            ),
        ),
        test="tests/storage/test_savepoints.py::test_lost_connection_at_a_savepoint_is_a_transient_error",
    ),
    Mutant(
        "a key that was locked in an undone savepoint is not read before it is locked again",
        (Change("mercury.storage.sql.rms:SqlRms.forget_changes", "self._to_load.clear()", "pass"),),
        test="tests/storage/test_savepoints.py"
        "::test_key_that_was_locked_in_an_undone_savepoint_is_read_when_it_is_locked_again",
    ),
    Mutant(
        "savepoint of the application around a kept one",
        (Change("mercury.storage.sql.savepoints:Savepoints.begin", " and outer is self._kept_in", ""),),
        test="tests/storage/test_savepoints.py::"
        "test_kept_one_does_not_end_a_savepoint_that_the_application_has_begun_since",
    ),
    Mutant(
        "SQLAlchemy learns of a lost connection",
        (Change("mercury.storage.sql.prepared:note_lost", "if known and ", "if False and "),),
        test="tests/storage/test_prepared.py::"
        "test_application_can_roll_back_its_session_after_mercury_has_found_its_connection_lost",
    ),
    Mutant(
        "times are read with all their digits",
        (Change("mercury.storage.sql.postgres_dialect:Postgres.engine", '"-c extra_float_digits=1"', '""'),),
        test="tests/storage/test_settings_of_the_database.py"
        "::test_with_few_digits_of_floats_a_joined_session_appends_a_message_that_is_not_damaged",
    ),
    Mutant(
        "encoding of a connection",
        (
            Change(
                "mercury.storage.sql.postgres_dialect:Postgres.engine",
                '"client_encoding": "utf8",',
                "",
            ),
        ),
        test="tests/storage/test_settings_of_the_database.py"
        "::test_texts_are_stored_as_they_are_whatever_encoding_the_environment_has",
    ),
    Mutant(
        "savepoint before the driver has begun the transaction",
        (
            Change(
                "mercury.storage.sql.postgres_dialect:Postgres.execute_all",
                "if not isinstance(driver, psycopg.Connection) or not _in_transaction(driver):",
                "if not isinstance(driver, psycopg.Connection):",
            ),
        ),
        test="tests/storage/test_savepoints.py::test_savepoint_before_the_first_statement_is_in_the_transaction",
    ),
    Mutant(
        "PREPARE that was not done",
        (
            Change(
                "mercury.storage.xa.branch:Branch.prepare",
                'if cursor.statusmessage != "PREPARE TRANSACTION":',
                "if False:",
            ),
        ),
        test="tests/xa/test_commit.py::test_the_answer_to_prepare_is_read",
    ),
    Mutant(
        "decision row",
        (
            Change(
                "mercury.storage.xa.coordinator:Coordinator.decide",
                "        self.decisions.decide(connection, decision)\n",
                "",
            ),
        ),
        test="tests/xa/test_recovery.py::test_dead_after_the_decision_was_committed_everything_is_committed",
    ),
    Mutant(
        "recovery without its abort row",
        (
            Change(
                "mercury.storage.xa.recovery:Recovery.arbitrate",
                "        return decisions.arbitrate("
                "Decision(gtrid=branch.gtrid, verdict=Verdict.ABORT, decided_at=now))\n",
                "        return Decision(gtrid=branch.gtrid, verdict=Verdict.ABORT, decided_at=now), True\n",
            ),
        ),
        test="tests/xa/test_paused.py::test_stopped_before_its_decision_it_is_rolled_back_and_cannot_commit_any_more",
    ),
    Mutant(
        "the store's part first",
        (
            Change(
                "mercury.storage.xa.coordinator:Coordinator.commit",
                "[*self._commit_two_phase(tx, gtrid, branches), *branches]",
                "[*branches, *self._commit_two_phase(tx, gtrid, branches)]",
            ),
        ),
        test="tests/xa/test_order.py::test_the_coordinator_commits_the_stores_part_first",
    ),
    Mutant(
        "a decision that was forgotten before it was asked for",
        (
            Change(
                "mercury.storage.xa.coordinator:Coordinator._find_verdict",
                "return Verdict.COMMIT if self._is_committed(branches) else Verdict.ABORT",
                "return Verdict.ABORT",
            ),
        ),
        test="tests/xa/test_forgotten.py"
        "::test_the_answer_is_lost_and_another_process_has_finished_it_before_the_log_is_queried",
    ),
    Mutant(
        "epoch of a claim",
        (Change("mercury.storage.sql.transaction:SqlTransaction._check_claims", "if claim not in held:", "if False:"),),
        test="tests/conformance/test_claims.py::test_transaction_under_a_lost_claim_is_rolled_back",
    ),
    Mutant(
        "mark of a commit",
        (
            Change(
                "mercury.storage.sql.transaction:SqlTransaction._complete",
                "if not self.store.commit_markers.was_committed(marker, error, self.store.clock() - made_at):",
                "if True:",
            ),
        ),
        test="tests/storage/test_lost_answer.py::test_committed_transaction_is_not_reported_as_failed",
    ),
    Mutant(
        "commit in front of a failed notification",
        (
            Change(
                "mercury.storage.sql.transaction:SqlTransaction._complete",
                "refused = self._announced is None and not isinstance(error, TransientStorageError)",
                "refused = not isinstance(error, TransientStorageError)",
            ),
        ),
        test="tests/storage/test_lost_answer.py::test_a_notification_that_fails_does_not_fail_the_commit_before_it",
    ),
    Mutant(
        "commit sent together with a failed notification",
        (
            Change(
                "mercury.storage.sql.round_trips:Session.run",
                '            log.debug("what follows a commit has failed: %s", answers[-1].get_error_message())\n',
                "            raise error_of(answers[-1])\n",
            ),
        ),
        test="tests/storage/test_lost_answer.py::test_a_notification_that_fails_does_not_fail_the_commit_before_it",
    ),
    Mutant(
        "epoch of a claim that is checked with the commit",
        (Change("mercury.storage.sql.claim_guard:GUARD", " and c.epoch = g.epoch", ""),),
        test="tests/conformance/test_claims.py::test_transaction_under_a_lost_claim_is_rolled_back",
    ),
    Mutant(
        "epoch of the only claim that is checked with the commit",
        (
            Change(
                "mercury.storage.sql.claim_guard:GUARD_OF_ONE",
                " and epoch = %(guard_epoch)s::bigint",
                "",
            ),
        ),
        test="tests/conformance/test_claims.py::test_transaction_under_a_lost_claim_is_rolled_back",
    ),
    Mutant(
        "plan of a lock that PostgreSQL does not keep",
        (Change("mercury.storage.sql.prepared:Compiled.of", "return self.single", "return self"),),
        test="tests/storage/test_plans.py::test_a_source_of_lone_messages",
    ),
    Mutant(
        "plan of the check of a claim that PostgreSQL does not keep",
        (Change("mercury.storage.sql.claim_guard:guard", "if len(claims) == 1:", "if not claims:"),),
        test="tests/storage/test_plans.py::test_a_destination_that_delivers_on_arrival",
    ),
    Mutant(
        "plan of the first rows of a key that PostgreSQL does not keep",
        (Change("mercury.storage.sql.postgres_dialect:_text_array", "if more.get(SINGLE) else", "if False else"),),
        test="tests/storage/test_plans.py::test_a_source_of_lone_messages",
    ),
    Mutant(
        "lists of which only one has a single text",
        (Change("mercury.storage.sql.prepared:Compiled.of", "any(len", "all(len"),),
        test="tests/unit/storage/test_prepared.py::test_a_column_is_compared_with_the_only_text_of_a_list",
    ),
    Mutant(
        "connection that the application has had is kept",
        (Change("mercury.storage.sql.transaction:SqlTransaction._release", " and not self._handed_out", ""),),
        test="tests/storage/test_kept_connection.py::test_one_that_the_application_has_had_is_returned",
    ),
    Mutant(
        "connection is kept after a rollback",
        (
            Change(
                "mercury.storage.sql.transaction:SqlTransaction._release",
                "self.outcome.ending is Ending.COMMITTED",
                "True",
            ),
        ),
        test="tests/storage/test_kept_connection.py::test_one_whose_transaction_was_rolled_back_is_returned",
    ),
    Mutant(
        "connection of a store with other databases is kept",
        (Change("mercury.storage.sql.transaction:SqlTransaction._release", " and self._keeps", ""),),
        test="tests/storage/test_kept_connection.py::test_two_databases_use_the_pool",
    ),
    Mutant(
        "connection is kept although another one is lost",
        (Change("mercury.storage.sql.kept_connection:KeptConnection._invalidated", "self._drop()", "pass"),),
        test="tests/storage/test_kept_connection.py::test_it_is_returned_when_another_connection_is_lost",
    ),
    Mutant(
        "connection is kept by a closed store",
        (Change("mercury.storage.sql.kept_connection:KeptConnection.keep", " or self._ended", ""),),
        test="tests/storage/test_kept_connection.py::test_nothing_is_kept_once_the_store_is_closed",
    ),
    Mutant(
        "connection with grown buffers is kept",
        (Change("mercury.storage.sql.store_connections:StoreConnection.is_reusable", " or self.grown", ""),),
        test="tests/storage/test_kept_connection.py::test_one_whose_buffers_have_grown_is_closed",
    ),
    Mutant(
        "statements that were deallocated within a transaction",
        (
            Change(
                "mercury.storage.sql.round_trips:Session.usable",
                "return not self.doubtful or not self._names or self._is_idle",
                "return True",
            ),
        ),
        test="tests/storage/test_round_trips.py::test_an_application_may_roll_back_to_a_savepoint_and_send_behind_it",
    ),
    Mutant(
        "what was read ahead before a change",
        (Change("mercury.storage.sql.statements:Statements._later", "        self._ahead.clear()\n", ""),),
        test="tests/storage/test_round_trips.py::test_answers_read_ahead_hold_until_the_transaction_changes_something",
    ),
    Mutant(
        "notifications at the end of the process",
        (
            Change(
                "mercury.storage.sql.notify:Notifier._together",
                "if not self._waiting:",
                "if self._closing.is_set() or not self._waiting:",
            ),
        ),
        test="tests/storage/test_notifier.py::test_a_commit_that_fails_has_announced_nothing",
    ),
    Mutant(
        "single values as text",
        (
            Change(
                "mercury.storage.sql.postgres_values:single_values",
                "else _NUMBERS.get(kind, _element)(value)",
                "else value",
            ),
        ),
        test="tests/storage/test_arrays.py::test_a_row_with_other_nulls_is_the_same_statement_of_the_server",
    ),
    Mutant(
        "work that is committed during an announcement",
        (Change("mercury.storage.sql.notify:Notifier.announced", "if self._added == announcement.added:", "if True:"),),
        test="tests/storage/test_notifier.py::test_work_that_was_committed_during_an_announcement_is_announced_too",
    ),
    Mutant(
        "announcements of commits that fail",
        (
            Change(
                "mercury.storage.sql.notify:Notifier.claim",
                "work, added = work | self._waiting, self._added",
                "work, added = work | self._waiting, self._added\n            self._waiting = NOTHING",
            ),
        ),
        test="tests/storage/test_notifier.py::test_a_commit_that_fails_has_announced_nothing",
    ),
    Mutant(
        "a commit by the driver",
        (
            Change(
                "mercury.storage.sql.store_connections:StoreConnection.commit",
                "self.owner.ended_by_application(commit=True)",
                "pass",
            ),
        ),
        test="tests/storage/test_ended_by_application.py::test_an_end_by_the_driver_is_noticed_as_one_by_sqlalchemy[postgres-commit]",
    ),
    Mutant(
        "the owner of a connection that is returned",
        (Change("mercury.storage.sql.releasing:release", "            own(connection, None)\n", ""),),
        test="tests/storage/test_ended_by_application.py::test_a_connection_that_is_returned_reports_to_no_transaction",
    ),
    Mutant(
        "order after a broken commit",
        (Change("mercury.storage.sql.rms_rows:SqlRmsRows.append", "        self._tx.store.settle()\n", ""),),
        test="tests/xa/test_order.py::test_nothing_is_sent_before_what_this_process_has_left_prepared",
    ),
    Mutant(
        "conditional delivery mark",
        (Change("mercury.storage.sql.invoker:SqlInvoker.save_delivered", "if marked != 1:", "if False:"),),
        test="tests/conformance/test_invoker.py::test_save_delivered_with_an_old_version_is_rolled_back",
    ),
    Mutant(
        "duplicate filter that is not stored",
        (
            Change(
                "mercury.storage.sql.record_columns:RMD",
                'ranges("received", "machine.received")',
                'text("received", "machine.received", write=lambda _: "", '
                'read=lambda _: __import__("mercury.storage.sql.values").storage.sql.values.read_ranges(""))',
            ),
        ),
        test="tests/conformance/test_rmd.py::test_a_saved_sequence_is_changed",
    ),
    Mutant(
        "commit before acknowledgement",
        (
            Change(
                "mercury.engine.destination.reception:Reception._handle",
                "with self._context.store.transaction() as tx:",
                'with __import__("contextlib").suppress(Exception), self._context.store.transaction() as tx:',
            ),
        ),
        test="tests/scenario/test_acknowledgements.py::test_nothing_is_acknowledged_that_is_not_committed",
    ),
    Mutant(
        "checksum",
        (
            Change(
                "mercury.storage.sql.codec:inbound_message",
                'damaged = row["checksum"] != _inbound_checksum(row)',
                "damaged = False",
            ),
        ),
        test="tests/storage/test_damage.py"
        "::test_a_message_that_was_altered_before_its_handler_saw_it_is_not_delivered_and_the_others_are",
    ),
    Mutant(
        "checksum of a piece",
        (
            Change(
                "mercury.storage.sql.attachments:SqlAttachments.piece",
                ' or rows[0]["checksum"] != checksum(content)',
                "",
            ),
        ),
        test="tests/storage/test_damage.py::test_attachment_with_an_altered_byte_is_not_read",
    ),
    Mutant(
        "attachments of a dead letter",
        (
            Change(
                "mercury.storage.sql.attachments:UNUSED",
                "(INVOKER_MESSAGE, RMS_MESSAGE, DEAD_LETTER)",
                "(INVOKER_MESSAGE, RMS_MESSAGE)",
            ),
        ),
        test="tests/conformance/test_attachments.py::test_attachments_follow_a_message_to_its_dead_letter_and_back",
    ),
    Mutant(
        "attachments end with their message",
        (
            Change(
                "mercury.storage.sql.transaction:SqlTransaction.prepare_commit",
                "if self.unnamed:",
                "if False:",
            ),
        ),
        test="tests/conformance/test_attachments.py::test_attachments_of_a_delivered_message_are_removed_with_it",
    ),
    Mutant(
        "attachments end with their message, in memory",
        (
            Change(
                "mercury.storage.memory.transaction:MemoryTransaction._commit",
                "                self._remove_attachments()\n",
                "                pass\n",
            ),
        ),
        test="tests/conformance/test_attachments.py::test_attachments_of_a_delivered_message_are_removed_with_it",
    ),
    Mutant(
        "attachments of a message that this commit passes on, in memory",
        (
            Change(
                "mercury.storage.memory.transaction:MemoryTransaction._remove_attachments",
                "names_of(removed) - names_of(added)",
                "names_of(removed)",
            ),
        ),
        test="tests/conformance/test_attachments.py::test_attachments_follow_a_message_to_its_dead_letter_and_back",
    ),
    Mutant(
        "attachments can be read until the commit",
        (
            Change(
                "mercury.storage.sql.statements:Statements.note_unnamed",
                "            self.unnamed |= found\n",
                "            self.unnamed |= found\n            self.attachments.remove_unnamed()\n",
            ),
        ),
        test="tests/conformance/test_attachments.py"
        "::test_handler_reads_attachments_until_the_end_of_the_transaction_that_delivers",
    ),
    Mutant(
        "attachments of acknowledged messages, in one statement",
        (
            Change(
                "mercury.storage.sql.acknowledged_rows:AcknowledgedRows._remove",
                '            self._tx.note_unnamed(found["unnamed"] or ())\n',
                "",
            ),
        ),
        test="tests/conformance/test_attachments.py"
        "::test_attachments_of_a_message_that_is_acknowledged_and_released_at_once_are_removed",
    ),
    Mutant(
        "rows of several sequences that arrived and wait for a response",
        (Change("mercury.storage.sql.acknowledged_rows:AcknowledgedRows._flush_together", "if rest:", "if False:"),),
        test="tests/conformance/test_rms_rows.py"
        "::test_a_request_that_arrived_among_others_stays_until_its_response_is_consumed",
    ),
    Mutant(
        "rows that are acknowledged before their numbers are written",
        (
            Change(
                "mercury.storage.sql.acknowledged_rows:AcknowledgedRows.reach", "return any(", "return False and any("
            ),
        ),
        test="tests/conformance/test_rms_rows.py"
        "::test_rows_that_are_acknowledged_in_the_transaction_that_numbers_them_go",
    ),
    Mutant(
        "rows that are read ahead, and cut",
        (
            Change(
                "mercury.storage.sql.waiting_rows:WaitingRows.read",
                "(ahead.complete or len(ahead.rows) >= limit)",
                "True",
            ),
        ),
        test="tests/conformance/test_rms_rows.py::test_rows_that_are_read_ahead_are_those_that_wait",
    ),
    Mutant(
        "windows that are read ahead, and cut",
        (
            Change(
                "mercury.storage.sql.windows_ahead:WindowsAhead.take_ahead",
                'row["checksum"] is None or len(rows) == AHEAD',
                'row["checksum"] is None',
            ),
        ),
        test="tests/conformance/test_rms_rows.py::test_windows_that_are_read_ahead_are_those_that_are_read_alone",
    ),
    Mutant(
        "windows that are read ahead without large bodies",
        (
            Change(
                "mercury.storage.sql.windows_ahead:WindowsAhead.take_ahead",
                'row["checksum"] is None or len(rows) == AHEAD',
                "len(rows) == AHEAD",
            ),
        ),
        test="tests/conformance/test_rms_rows.py::test_large_bodies_in_windows_are_read_after_all",
    ),
    Mutant(
        "windows that are read ahead, and change",
        (Change("mercury.storage.sql.rms_rows:SqlRmsRows.resend", "self._windows.forget([record.id])", "pass"),),
        test="tests/conformance/test_rms_rows.py::test_windows_that_have_changed_since_they_were_read_are_read_again",
    ),
    Mutant(
        "windows that are read ahead, when some of their rows arrive",
        (Change("mercury.storage.sql.rms_rows:SqlRmsRows.acknowledge", "self._windows.forget([record.id])", "pass"),),
        test="tests/conformance/test_rms_rows.py::test_windows_that_have_changed_since_they_were_read_are_read_again",
    ),
    Mutant(
        "attachments of acknowledged messages, in several statements",
        (
            Change(
                "mercury.storage.sql.acknowledged_rows:AcknowledgedRows._remove",
                "self._tx.delete_naming(rows, values)",
                "self._tx.write(rows, values)",
            ),
        ),
        test="tests/conformance/test_attachments.py::test_attachments_of_an_acknowledged_message_are_removed_with_it",
    ),
    Mutant(
        "search for attachments that are written while the worker rests",
        (
            Change(
                "mercury.engine.runtime.threads:RETENTION_POLL_INTERVAL",
                "RETENTION_POLL_INTERVAL = ATTACHMENTS_PAUSE",
                "RETENTION_POLL_INTERVAL = 3600.0",
            ),
        ),
        test="tests/storage/test_retention.py"
        "::test_attachments_that_are_written_while_the_worker_rests_are_searched_soon",
    ),
    Mutant(
        "search for attachments without a pause",
        (
            Change(
                "mercury.engine.runtime.retention:RetentionWorker.run_once",
                "0.0 if removed >= ATTACHMENTS_BATCH else",
                "",
            ),
        ),
        test="tests/storage/test_retention.py"
        "::test_attachments_are_searched_soon_while_there_are_any_and_else_with_everything_else",
    ),
    Mutant(
        "search for attachments that the application's commit leaves",
        (Change("mercury.storage.sql.statements:Statements.note_unnamed", "self.store.attachments_used()", "pass"),),
        test="tests/storage/test_joining.py"
        "::test_attachments_of_a_row_that_the_application_commits_away_are_left_to_the_search",
    ),
    Mutant(
        "password behind an @ in the URL of a store",
        (Change("mercury.storage.opening:_parsed", 'parsed is None or "@" in (parsed.host or "")', "parsed is None"),),
        test="tests/unit/storage/test_opening.py"
        "::test_mistyped_url_is_refused_with_what_is_wrong_and_without_its_password",
    ),
    Mutant(
        "port of a mistyped URL of a store",
        (Change("mercury.storage.opening:_parsed", "except ValueError:", "except ZeroDivisionError:"),),
        test="tests/unit/storage/test_opening.py"
        "::test_mistyped_url_is_refused_with_what_is_wrong_and_without_its_password",
    ),
    Mutant(
        "passwords in the query of a URL",
        (
            Change(
                "mercury.masking:masked",
                '_OPTION.sub(r"\\1***", _OF_USER.sub(r"\\1:***@", text))',
                '_OF_USER.sub(r"\\1:***@", text)',
            ),
        ),
        test="tests/unit/test_masking.py::test_passwords_are_not_shown",
    ),
    Mutant(
        "passwords in the query of a store's URL",
        (
            Change(
                "mercury.storage.opening:open_sql_store",
                "masked(parsed.render_as_string())",
                "parsed.render_as_string()",
            ),
        ),
        test="tests/unit/test_masking.py::test_error_shows_the_url_of_a_database_without_its_passwords",
    ),
)
