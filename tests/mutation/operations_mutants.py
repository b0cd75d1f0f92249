"""Guards of the operator's layer."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

ACTIONS, READS = "tests/storage/test_operator_actions.py", "tests/storage/test_operator_reads.py"
BULK, ENDS = "tests/storage/test_bulk_actions.py", "tests/storage/test_ends_of_named_sequences.py"
COMMAND = "tests/storage/test_dlq_command.py"
DOUBT, SELECTED = "tests/storage/test_lasting_doubt.py", "tests/storage/test_selected_sequences.py"
LATER = (
    "tests/conformance/test_gauges.py"
    "::test_a_message_that_waits_for_its_time_counts_and_is_not_the_oldest_unacknowledged"
)


def guard(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A mutant that one test finds."""
    return Mutant(name=name, changes=(Change(symbol, before, after),), test=test)


OPERATIONS = (
    guard(
        "a killed process is replaced when its claims are over",
        "mercury.operations.nodes:_is_replaced",
        "gone.alive or gone.claims",
        "gone.alive",
        "tests/storage/test_nodes.py::"
        "test_a_killed_process_is_no_warning_any_more_when_its_claims_are_over_and_another_one_serves",
    ),
    guard(
        "the place of a bulk action",
        "mercury.operations.bulk_actions:BulkActions.advance",
        "if bulk.last is None or mark.key > bulk.last",
        "if True",
        f"{BULK}::test_another_process_goes_on_where_one_was_killed_and_nothing_is_done_twice",
    ),
    guard(
        "the window of a bulk action keeps its end",
        "mercury.operations.bulk_actions:BulkActions.advance",
        "bulk.last_position if bulk.window_end is None else bulk.window_end",
        "bulk.last_position",
        f"{BULK}::test_letters_of_one_window_are_handled_by_number_and_windows_follow_each_other",
    ),
    guard(
        "letters that die during a bulk action",
        "mercury.storage.sql.reads.letters:marks",
        "by > after, by <= until",
        "by > after",
        f"{BULK}::test_a_letter_that_dies_meanwhile_is_not_in_the_selection",
    ),
    guard(
        "a suspension takes the work away",
        "mercury.storage.sql.steering:suspend",
        '"owner": taken.excluded.owner, ',
        "",
        f"{ACTIONS}::test_a_suspended_source_sends_nothing_until_it_is_resumed",
    ),
    guard(
        "a suspension outlasts the check of the clock",
        "mercury.storage.sql.clocks:advance_overdue",
        ", ~suspends)",
        ")",
        f"{ACTIONS}::test_a_suspension_is_no_claim_that_a_clock_which_ran_ahead_has_left",
    ),
    guard(
        "paused services",
        "mercury.storage.sql.work:_workable",
        "_called(),",
        "",
        f"{ACTIONS}::test_no_handler_of_a_paused_service_is_called_and_reception_goes_on",
    ),
    guard(
        "what the operator saw",
        "mercury.operations.acting:check",
        "expected is not None and expected != found",
        "False",
        f"{ACTIONS}::test_an_action_fails_if_the_sequence_is_not_as_the_operator_saw_it",
    ),
    guard(
        "only the newest sequence of a key is closed or terminated",
        "mercury.operations.steering:SequenceActions._end_source",
        "newest.id != record.id",
        "False",
        f"{ACTIONS}::test_a_sequence_that_waits_for_responses_is_not_ended_in_place_of_its_successor",
    ),
    guard(
        "the end of one sequence does not end its successor",
        "mercury.operations.steering:SequenceActions._end_source",
        "end.sequence_id = record.id",
        "pass",
        f"{ENDS}::test_a_sequence_that_failed_meanwhile_is_not_ended_in_its_successor",
    ),
    guard(
        "the abandonment of one sequence does not wait beside its successor",
        "mercury.engine.source.numbering:Numbering._create",
        "if len(self._records) > 1:",
        "if False:",
        f"{ENDS}::test_a_sequence_that_failed_meanwhile_is_not_ended_in_its_successor",
    ),
    guard(
        "a sequence is ended although its successor begins first",
        "mercury.engine.source.numbering:Numbering._ends_another",
        "for record in self._records:",
        "for record in ():",
        f"{ENDS}::test_a_sequence_that_waits_for_responses_is_terminated_although_its_successor_begins_first",
    ),
    guard(
        "a sequence is ended although its creation was begun anew",
        "mercury.engine.source.numbering:Numbering._ends_another",
        ", *replaced_before(self._records[:-1]))",
        ",)",
        f"{ENDS}::test_a_sequence_is_terminated_although_its_creation_was_begun_anew",
    ),
    guard(
        "a key without a sequence is ended",
        "mercury.operations.steering:SequenceActions._end_source",
        "record.machine.state is not RmsState.NEW",
        "True",
        f"{ENDS}::test_a_key_of_which_only_the_messages_wait_for_their_time_is_closed_behind_them",
    ),
    guard(
        "the end of a sequence that waits for responses is not promised",
        "mercury.operations.steering:_ends_when",
        "not machine.unanswered or machine.abandoned",
        "True",
        f"{ENDS}::test_a_refusal_says_truly_when_the_sequence_ends",
    ),
    guard(
        "a restart marks what is in doubt",
        "mercury.operations.restarting:restart",
        "tx.rms.unnumber(record, moved, again)",
        "tx.rms.unnumber(record, moved)",
        f"{DOUBT}::test_a_message_that_is_sent_again_and_dies_before_may_have_been_delivered",
    ),
    guard(
        "doubt lasts in the store",
        "mercury.storage.sql.rms_rows:SqlRmsRows.unnumber",
        ', "in_doubt")',
        ")",
        f"{DOUBT}::test_a_message_that_is_sent_again_and_dies_before_may_have_been_delivered",
    ),
    guard(
        "doubt lasts over several sequences",
        "mercury.storage.sql.rms_rows:SqlRmsRows.unnumber",
        "row.in_doubt or (",
        "(",
        f"{DOUBT}::test_a_message_that_is_sent_again_and_dies_before_may_have_been_delivered",
    ),
    guard(
        "a dead letter in doubt is not said to be undelivered",
        "mercury.storage.letters:outbound_letter",
        "Certainty.UNKNOWN if row.in_doubt else certainty",
        "certainty",
        f"{DOUBT}::test_a_message_that_is_sent_again_and_dies_before_may_have_been_delivered",
    ),
    guard(
        "doubt lasts over a redrive",
        "mercury.storage.letters:redriven_outbound",
        "letter.certainty is Certainty.UNKNOWN",
        "False",
        f"{DOUBT}::test_a_dead_letter_in_doubt_that_is_redriven_and_dies_again_is_still_in_doubt",
    ),
    guard(
        "a savepoint of the application is no commit",
        "mercury.storage.sql.joining:Joins._session_committed",
        "session.in_nested_transaction()",
        "False",
        "tests/storage/test_joining.py::test_an_action_after_the_commit_follows_no_savepoint",
    ),
    guard(
        "messages in doubt at a restart",
        "mercury.operations.restarting:restart",
        "doubt and in_doubt is InDoubt.REFUSE",
        "False",
        f"{ACTIONS}::test_a_restart_is_refused_while_the_other_side_may_have_messages",
    ),
    guard(
        "rows that one page reads",
        "mercury.storage.sql.reads.walking:Walk._rows",
        "query.limit(MOST_ROWS)",
        "query",
        f"{READS}::test_a_search_reads_a_bounded_number_of_rows_and_says_where_it_stopped",
    ),
    guard(
        "readers of the operator's API change nothing",
        "mercury.console.operator_api:OperatorApi._result",
        "self._calls.changes(name) and user.role is not ConsoleRole.OPERATOR",
        "False",
        "tests/storage/test_operator_api.py::test_without_the_token_of_operators_nothing_is_changed",
    ),
    guard(
        "the time limit of a handler",
        "mercury.engine.delivery.time_limit:within_limit",
        "took > limit",
        "False",
        "tests/storage/test_time_limit.py::test_a_call_may_take_as_long_as_its_limit_and_no_longer",
    ),
    guard(
        "a statement that outlasts the time limit of its handler",
        "mercury.storage.sql.application_part:ApplicationPart._limit_statements_on",
        "self._limit is not None",
        "False",
        "tests/storage/test_time_limit.py::test_a_statement_that_outlasts_the_limit_is_ended_and_the_sequence_goes_on",
    ),
    guard(
        "a limit that a savepoint has taken with it is not restored again",
        "mercury.storage.sql.transaction:SqlTransaction.savepoint",
        "limit.undone(limited)",
        "pass",
        "tests/storage/test_time_limit.py"
        "::test_handler_that_catches_the_error_of_its_savepoint_ends_within_its_limit[behind a change]",
    ),
    guard(
        "a limit that the application has undone is not restored again",
        "mercury.storage.sql.postgres_dialect",
        "    where current_setting('mercury.statement_timeout', true) <> ''\n",
        "",
        "tests/storage/test_time_limit.py::test_limit_that_was_rolled_back_is_not_restored_again",
    ),
    guard(
        "a restored store gives numbers that the destination has to other messages",
        "mercury.engine.source.after_start:AfterStart.look",
        "record.machine.last_heard < self._since()",
        "False",
        "tests/scenario/test_restarted_sources.py::test_nothing_is_sent_after_a_start_before_the_destination_has_said_what_it_has",
    ),
    guard(
        "a destination that knows more numbers than the source",
        "mercury.engine.source.apply_effects:_note_forgotten",
        "high > record.machine.highest_sent",
        "False",
        "tests/reconcile/test_restored_stores.py::test_client_restored_alone_sends_nothing_although_it_has_more_messages_than_the_server",
    ),
    guard(
        "a database that has lost its last commits under a running process",
        "mercury.storage.sql.history:History._connected",
        "self.since = self._clock()",
        "pass",
        "tests/storage/test_history.py::test_another_history_is_noticed_by_the_connection_that_meets_it",
    ),
    guard(
        "the history of the database is asked for when the sequence is locked",
        "mercury.engine.source.worker:SourceWorker._known_since",
        "max(self._since, self._context.store.history_since)",
        "self._since",
        "tests/scenario/test_restarted_sources.py::test_nothing_is_sent_after_a_fail_over_of_the_database_before_the_destination_has_said_what_it_has",
    ),
    guard(
        "only a later acknowledgement tells that the destination has lost messages",
        "mercury.statemachine.rms:RMSSequence._acknowledged",
        "new and merged is given.ranges",
        "merged is given.ranges",
        "tests/unit/statemachine/test_rms_stories.py::test_an_acknowledgement_that_arrives_late_tells_nothing",
    ),
    guard(
        "acknowledged at delivery also in messages of the other direction",
        "mercury.engine.source.pair_acknowledgements:of_pair",
        "machine.accepted() if ends else said.ranges",
        "machine.accepted()",
        "tests/unit/engine/source/test_pair_acknowledgements.py::test_stored_messages_are_acknowledged_before_their_delivery_only_by_policy_or_at_the_end",
    ),
    guard(
        "no commit is forced while the coordinator is alive",
        "mercury.storage.xa.operator:Operator.resolve",
        "if verdict is Verdict.COMMIT:\n                self._check_ended",
        "if False:\n                self._check_ended",
        "tests/xa/test_operator.py::test_a_commit_is_not_forced_while_the_coordinator_may_still_decide",
    ),
    guard(
        "no verdict where the decision log may be another one",
        "mercury.storage.xa.operator:Operator.resolve",
        "if known is None and not unknown_process:",
        "if False:",
        "tests/xa/test_operator.py::test_a_transaction_is_not_resolved_where_its_decision_log_is_not_named",
    ),
    guard(
        "two letters of one message",
        "mercury.client.dead_letters:refusals",
        "waiting.add(letter.message_id)",
        "pass",
        "tests/storage/test_dead_letters.py::test_of_two_letters_of_one_message_one_is_redriven",
    ),
    Mutant(
        name="a message that is handled while it is parked",
        changes=(
            Change(
                "mercury.client.waiting:WaitingMessages._mark",
                "tx.invoker.read(_inbound(tx, position).sequence",
                "tx.invoker.read((seen := _inbound(tx, position)).sequence",
            ),
            Change("mercury.client.waiting:WaitingMessages._mark", "            seen = _inbound(tx, position)\n", ""),
        ),
        test="tests/storage/test_operator_commands.py::"
        "test_a_message_that_is_handled_while_an_operator_parks_it_stays_handled",
    ),
    guard(
        "a commit of a connection is announced when it is over",
        "mercury.storage.sql.joining:_follow_commit",
        "transaction is not None and transaction.is_active",
        "False",
        "tests/storage/test_joining.py::test_commit_of_a_connection_that_takes_long_is_heard_of_when_it_is_over",
    ),
    guard(
        "keys with colons in what people read",
        "mercury.cli.output:console",
        ", emoji=False",
        "",
        "tests/unit/cli/test_output.py::test_names_between_colons_are_printed_as_they_are",
    ),
    guard(
        "states of sequences that there are not",
        "mercury.operations.calls.sequence_selection:selection",
        'chosen(STATES, each, "states") for each',
        "each for each",
        f"{SELECTED}::test_state_that_there_is_not_is_refused_with_those_that_there_are",
    ),
    guard(
        "filters on sequences in memory",
        "mercury.operations.calls.memory:_list_sequences",
        " if _is_selected(which, status, wait)",
        "",
        f"{SELECTED}::test_sources_are_selected_by_each_condition",
    ),
    guard(
        "filters on a status",
        "mercury.cli.sequences:list_sequences",
        '_refuse_filters(at, which | {"limit": limit, "after": after})',
        "pass",
        f"{SELECTED}::test_command_refuses_a_filter_that_a_process_without_the_operators_api_would_not_apply",
    ),
    guard(
        "pause of a service that nobody knows",
        "mercury.operations.calls.database:_pause",
        "on.services.one(service) is not None",
        "True",
        "tests/storage/test_operator_commands.py::"
        "test_pause_of_a_name_that_nobody_hosts_and_nothing_waits_for_is_done_with_a_note",
    ),
    guard(
        "figures of a check in a peer's text",
        "mercury.cli.check:_end",
        'printable(text).replace("|", "/")',
        "text",
        "tests/unit/cli/test_check_lines.py::test_a_line_break_or_bar_in_the_text_ends_no_line_and_begins_no_figures",
    ),
    guard(
        "letters that die after the question of a command",
        "mercury.cli.letter_selection:confirm",
        '{"dead_before": time.time()} | which',
        "which",
        f"{COMMAND}::test_a_letter_that_dies_after_the_question_is_not_in_its_answer",
    ),
    guard(
        "retained replies are rows that were counted",
        "mercury.storage.sql.reads.depth:depth",
        "oldest is None and more",
        "False",
        f"{READS}::test_replies_that_are_retained_hide_neither_what_waits_behind_them_nor_its_age",
    ),
    guard(
        "retained replies do not wait",
        "mercury.storage.sql.reads.depth:_by_endpoint",
        "waits = not_(row.retained)",
        "waits = or_(row.retained, not_(row.retained))",
        f"{READS}::test_replies_that_are_retained_are_in_no_figure",
    ),
    guard(
        "gauge of a message that waits for its time in SQL",
        "mercury.storage.sql.gauges:_outbound",
        "func.min(case((in_time, row.created_at)))",
        "func.min(row.created_at)",
        LATER,
    ),
    guard(
        "gauge of a message that waits for its time in memory",
        "mercury.storage.memory.gauges:read",
        " and is_in_time(row):",
        ":",
        LATER,
    ),
    guard(
        "an identifier that is empty",
        "mercury.operations.calls.database:_name",
        "if not part.strip():",
        "if False:",
        f"{READS}::test_an_empty_identifier_means_no_sequence_also_if_there_is_only_one",
    ),
    guard(
        "the whole identifier of a sequence",
        "mercury.operations.sequences:Sequences.find",
        "if sequences.is_name(tx, part)",
        "if False",
        f"{READS}::test_the_whole_identifier_of_a_sequence_is_found_beside_longer_ones_with_it",
    ),
    guard(
        "the reason to go on with a bulk action",
        "mercury.cli.bulk:resume",
        "acts=True, ",
        "",
        f"{COMMAND}::test_a_store_that_fails_in_the_middle_leaves_the_way_to_go_on",
    ),
    guard(
        "the way to go on after an error",
        "mercury.cli.bulk:_stopping",
        "except MercuryError:",
        "except ZeroDivisionError:",
        f"{COMMAND}::test_a_store_that_fails_in_the_middle_leaves_the_way_to_go_on",
    ),
    guard(
        "large letters that are named",
        "mercury.operations.letter_actions:LetterActions._all",
        "first_piece(rest)",
        "rest[:BATCH]",
        f"{BULK}::test_large_letters_that_are_named_are_locked_in_pieces_too",
    ),
    guard(
        "a page of dead letters without bodies",
        "mercury.storage.sql.reads.letters:page",
        "select(*LINE)",
        "select(TABLE)",
        f"{READS}::test_lists_of_dead_letters_read_no_bodies",
    ),
)
