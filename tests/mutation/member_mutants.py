"""The guards of members and of lists of addresses, each with the test that must fail when it is removed."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

CONTRACT = "tests/conformance/test_members.py"
POSTS = "tests/unit/engine/runtime/test_member_posts.py"
LEASE = "tests/unit/engine/runtime/test_lease.py"

MEMBERS = (
    Mutant(
        "claim of the active member at the commit",
        (
            Change(
                "mercury.storage.sql.transaction:SqlTransaction.prepare_commit",
                "(self._claims or self._member is not None)",
                "self._claims",
            ),
        ),
        test=f"{CONTRACT}::test_a_member_that_has_lost_its_claim_commits_nothing",
    ),
    Mutant(
        "claim of the active member at the commit in memory",
        (
            Change(
                "mercury.storage.memory.transaction:MemoryTransaction._commit",
                "if self._member is not None and self._writes:",
                "if False:",
            ),
        ),
        test=f"{CONTRACT}::test_a_member_that_has_lost_its_claim_commits_nothing",
    ),
    Mutant(
        "claim of the active member in a transaction of the application",
        (Change("mercury.storage.sql.joining:Joins.join", "            tx.check_member()", "            pass"),),
        test="tests/storage/test_members.py"
        "::test_an_application_that_joins_mercury_commits_nothing_after_the_claim_is_lost",
    ),
    Mutant(
        "claim of the active member in a transaction of an application that stops",
        (
            Change(
                "mercury.storage.sql.transaction:SqlTransaction.check_member",
                "self.dialect.limit_session(self.writing())",
                "self.writing()",
            ),
        ),
        test="tests/storage/test_members.py"
        "::test_application_that_joins_mercury_and_stops_before_its_commit_does_not_keep_the_claim",
    ),
    Mutant(
        "claim that a transaction began under",
        (
            Change(
                "mercury.storage.sql.transaction:SqlTransaction._check_claims",
                "        held: set[Claim] = set()\n",
                "        held: set[Claim] = set()\n        self._member = self.store.guarded_by\n",
            ),
        ),
        test=f"{CONTRACT}::test_a_transaction_keeps_the_claim_that_it_began_under",
    ),
    Mutant(
        "claim of the active member outside transactions",
        (Change("mercury.storage.sql.store:SqlStore._changing", "if self.guarded_by is None:", "if True:"),),
        test=f"{CONTRACT}::test_no_other_change_of_a_member_that_has_lost_its_claim_is_made",
    ),
    Mutant(
        "a member that was taken over is another owner",
        (
            Change(
                "mercury.engine.runtime.lease:ActiveLease._stop_to_serve",
                "        self._owner = self._new_owner()\n",
                "",
            ),
        ),
        test=f"{LEASE}::test_a_member_that_was_taken_over_and_comes_back_has_another_owner",
    ),
    Mutant(
        "an epoch that another member had meanwhile",
        (
            Change(
                "mercury.engine.membership:Member.answered",
                "claim is None or (self.state is MemberState.ACTIVE and claim != self.claim)",
                "claim is None",
            ),
        ),
        test="tests/unit/engine/test_membership.py::test_a_claim_that_another_member_had_meanwhile_is_lost",
    ),
    Mutant(
        "a standby writes nothing",
        (
            Change(
                "mercury.engine.runtime.lease:ActiveLease.turn",
                "        if self._member.state is MemberState.STANDBY:\n"
                "            self._store.guard_all(NEVER_ACTIVE)\n",
                "",
            ),
        ),
        test=f"{LEASE}::test_one_of_two_members_serves",
    ),
    Mutant(
        "the lease is prolonged while a member starts to serve",
        (
            Change(
                "mercury.engine.runtime.lease:ActiveLease._start_to_serve",
                "            with self._prolonged(claim):\n                self._serve()\n",
                "            self._serve()\n",
            ),
        ),
        test=f"{LEASE}::test_lease_of_a_member_that_takes_longer_than_it_to_start_is_prolonged_meanwhile",
    ),
    Mutant(
        "a member that takes over does not wait for databases",
        (
            Change(
                "mercury.storage.xa.coordinator:Coordinator.start",
                "        if self._keeper is None:\n            self.check()\n",
                "        self.check()\n        if self._keeper is None:\n",
            ),
        ),
        test="tests/acceptance/test_members.py"
        "::test_member_that_takes_over_does_not_wait_again_for_a_database_that_is_away",
    ),
    Mutant(
        "late answer of an address that was left",
        (
            Change(
                "mercury.engine.runtime.member_posts:MemberPosts._ended",
                "or exchange.number != each.exchanges",
                "",
            ),
        ),
        test=f"{POSTS}::test_silent_address_is_left_by_all_its_posts_and_its_late_answer_is_ignored",
    ),
    Mutant(
        "failures of one address that were open together",
        (Change("mercury.statemachine.failover:AddressList.failed", " or began < address.failed_at", ""),),
        test="tests/unit/statemachine/test_failover.py"
        "::test_failures_of_exchanges_that_were_open_together_are_one_failure",
    ),
    Mutant(
        "times of addresses while the clock is set back",
        (
            Change(
                "mercury.engine.runtime.member_posts:MemberPosts.__init__",
                "self._monotonic = monotonic",
                "self._monotonic = clock",
            ),
        ),
        test=f"{POSTS}::test_address_that_fails_after_the_clock_was_set_back_is_left_for_the_next",
    ),
    Mutant(
        "times of members while the clock is set back",
        (
            Change(
                "mercury.engine.runtime.posting:Posting.__init__",
                "engine.address_policy, monotonic, chance",
                "engine.address_policy, clock, chance",
            ),
        ),
        test="tests/unit/engine/runtime/test_posting.py"
        "::test_new_member_is_chosen_within_its_time_although_the_clock_is_set_back",
    ),
    Mutant(
        "answer of another store",
        (
            Change(
                "mercury.engine.runtime.store_guard:StoreGuard.check",
                "        if expected is None or found is None:\n",
                "        if True:\n",
            ),
        ),
        test=f"{POSTS}::test_answer_of_another_store_to_a_message_counts_as_none",
    ),
    Mutant(
        "store of an address before a message",
        (
            Change(
                "mercury.engine.runtime.store_guard:StoreGuard.needs_probe",
                "stated is not _Nothing.STATES_NONE and stated != outgoing.store",
                "False",
            ),
        ),
        test=f"{POSTS}::test_no_message_goes_to_an_address_before_it_has_said_that_it_has_the_store",
    ),
    Mutant(
        "message for another store at the server",
        (
            Change(
                "mercury.service.stores:check_store",
                "or meant.strip() == runtime.store_id",
                "or True",
            ),
        ),
        test="tests/acceptance/test_stores.py::test_server_does_nothing_with_what_is_for_another_store",
    ),
    Mutant(
        "store of the first answer",
        (
            Change(
                "mercury.engine.source.peer_store:is_made_there",
                "    if record.store == stated:\n",
                "    if True:\n",
            ),
        ),
        test="tests/scenario/test_stores_of_destinations.py"
        "::test_two_members_that_create_at_once_do_not_give_a_destination_two_stores",
    ),
    Mutant(
        "addresses that a client allows",
        (
            Change(
                "mercury.engine.runtime.member_updates:MemberUpdates._problem",
                " and not self._allowed.allows(url)",
                " and False",
            ),
        ),
        test="tests/unit/engine/runtime/test_member_updates.py"
        "::test_address_that_the_client_may_not_use_is_left_out[http://169.254.169.254/svc]",
    ),
    Mutant(
        "flood of answers in the local network",
        (
            Change(
                "mercury.engine.runtime.member_updates:MemberUpdates.update",
                "for each in found.urls if",
                "for each in found.urls[:MOST] if",
            ),
        ),
        test="tests/unit/engine/runtime/test_member_updates.py::test_forged_answers_do_not_hide_members_or_fill_the_log",
    ),
    Mutant(
        "answers to the questions of others",
        (
            Change(
                "mercury.engine.runtime.multicast_agent:_read",
                ' or asked not in (None, found.get("id"))',
                "",
            ),
        ),
        test="tests/acceptance/test_announced_members.py::test_garbage_and_answers_to_other_questions_are_no_members",
    ),
    Mutant(
        "questions that are shorter than their answers",
        (
            Change(
                "mercury.engine.runtime.multicast_agent:MulticastMember.answer",
                "len(datagram) != QUESTION_BYTES or ",
                "",
            ),
        ),
        test="tests/acceptance/test_announced_members.py::test_member_answers_no_other_datagram",
    ),
    Mutant(
        "hosts that a name server says",
        (
            Change(
                "mercury.engine.runtime.srv_records:look_up",
                "if _HOST.fullmatch(each[2]) and each[3]",
                "if each[3]",
            ),
        ),
        test="tests/acceptance/test_discovery.py::test_answers_of_a_name_server_are_bounded_and_checked",
    ),
    Mutant(
        "lease of an active member that is longer than those of sequences",
        (
            Change(
                "mercury.storage.sql.clocks:advance_overdue",
                "and_(claim.resource != ACTIVE_MEMBER, ~suspends)",
                "~suspends",
            ),
        ),
        test="tests/conformance/test_clock.py"
        "::test_the_active_member_keeps_a_lease_that_is_longer_than_those_of_sequences",
    ),
    Mutant(
        "lease of an active member that is longer than those of sequences in memory",
        (
            Change(
                "mercury.storage.memory.store:MemoryStore.advance_overdue",
                "claim.resource != ACTIVE_MEMBER and ",
                "",
            ),
        ),
        test="tests/conformance/test_clock.py"
        "::test_the_active_member_keeps_a_lease_that_is_longer_than_those_of_sequences",
    ),
    Mutant(
        "lease of an active member by the clock of the database",
        (
            Change(
                "mercury.storage.sql.store:SqlStore.active_member",
                "self.dialect.now(connection) if self._database_clock else now",
                "now",
            ),
        ),
        test="tests/storage/test_clock_and_notification.py"
        "::test_process_whose_clock_is_wrong_by_an_hour_does_not_start_beside_an_active_member",
    ),
)
