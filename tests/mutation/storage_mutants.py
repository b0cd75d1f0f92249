"""The guards of the stores and of two-phase commit, each with the test that must fail when it is removed."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

STORAGE = (
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
        (
            Change(
                "mercury.storage.sql.transaction:SqlTransaction._check",
                "        if not self.read_locked(HELD, values):\n            raise Conflict(",
                "        if False:\n            raise Conflict(",
            ),
        ),
        test="tests/conformance/test_claims.py::test_transaction_under_a_lost_claim_is_rolled_back",
    ),
    Mutant(
        "mark of a commit",
        (
            Change(
                "mercury.storage.sql.transaction:SqlTransaction._complete",
                "if not self.store.commit_markers.was_committed(marker, error):",
                "if True:",
            ),
        ),
        test="tests/storage/test_lost_answer.py::test_committed_transaction_is_not_reported_as_failed",
    ),
    Mutant(
        "order after a broken commit",
        (Change("mercury.storage.sql.rms_rows:SqlRmsRows.append", "        self._tx.store.settle()\n", ""),),
        test="tests/xa/test_order.py::test_nothing_is_sent_before_what_this_process_has_left_prepared",
    ),
    Mutant(
        "conditional delivery mark",
        (Change("mercury.storage.sql.invoker:SqlInvoker.save_delivered", "if marked.rowcount != 1:", "if False:"),),
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
)
