"""The guards of the times of messages, each with the test that must fail when it is removed."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

LIVE = "tests/scenario/test_time_to_live.py"
LATER = "tests/scenario/test_scheduled_messages.py"
STORE = "tests/conformance/test_lifetimes.py"


def life(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A guard of the times of messages that is removed."""
    return Mutant(f"life: {name}", (Change(f"mercury.{symbol}", before, after),), test=test)


LIFE = (
    life(
        "a message that has expired gets a number",
        "engine.source.numbering:Numbering._too_old",
        "if row.expires_at is not None and is_expired(row, self._now):",
        "if False:",
        f"{LIVE}::test_while_the_peer_is_down_only_the_messages_expire_whose_time_has_come",
    ),
    life(
        "messages expire behind a full window when it opens",
        "engine.source.numbering:Numbering.run",
        "current.window_full = True\n                done += self._expired(rows[place:])",
        "current.window_full = True",
        f"{LIVE}::test_a_message_behind_a_full_window_expires_at_its_time",
    ),
    life(
        "a message with a time to live has a number before anything can be sent",
        "engine.source.lifetimes:waits_until",
        "if is_being_created(current) and",
        "if False and",
        f"{LIVE}::test_while_the_peer_is_down_only_the_messages_expire_whose_time_has_come",
    ),
    life(
        "the first message of a sequence that is not created yet does not expire",
        "engine.source.lifetimes:withdraw_expired",
        "if first and is_expired(first[0], now):",
        "if False:",
        f"{LIVE}::test_a_message_that_expires_alone_before_its_sequence_exists_leaves_nothing_behind",
    ),
    life(
        "the handler is called for a message that has expired",
        "engine.delivery.run:DeliveryRun.is_never_called",
        " or self.is_expired(message)",
        "",
        f"{LIVE}::test_a_numbered_message_that_arrives_too_late_is_a_dead_letter_of_the_receiver",
    ),
    life(
        "the receiver does not learn the time to live",
        "engine.envelopes:message",
        "None if row.expires_at is None else left(row.expires_at, now)",
        "None",
        f"{LIVE}::test_a_numbered_message_that_arrives_too_late_is_a_dead_letter_of_the_receiver",
    ),
    life(
        "messages of a batch have none",
        "engine.envelopes:batch",
        "None if row.expires_at is None else left(row.expires_at, now)",
        "None",
        f"{LIVE}::test_messages_of_a_batch_have_a_time_to_live_each",
    ),
    life(
        "a message is sent before its time",
        "engine.source.lifetimes:waits_until",
        "return row.not_before if row.not_before is not None and row.not_before > now else None",
        "return None",
        f"{LATER}::test_a_scheduled_message_is_sent_at_its_time_and_nothing_before",
    ),
    life(
        "an abandonment waits for the time of a message",
        "engine.source.numbering:Numbering._wait",
        "abandoned = self._abandon(rows)",
        "abandoned: list[OutboundMessage] = []",
        f"{LATER}::test_an_abandonment_does_not_wait_for_the_time",
    ),
    life(
        "the age of a scheduled message begins when it is handed over",
        "engine.source.numbering:Numbering._too_old",
        "(row.not_before or row.created_at)",
        "row.created_at",
        f"{LATER}::test_the_limit_by_age_counts_from_the_time_of_the_message",
    ),
    life(
        "a key that holds its rows is not due when one expires",
        "storage.sql.work:_waiting",
        "if at else []",
        "if False else []",
        f"{STORE}::test_a_key_that_holds_its_rows_is_due_when_one_expires",
    ),
    life(
        "nobody wakes when a row expires",
        "storage.sql.work:_next_rms",
        "timed = _earlier(due.scalar_subquery(), _next_expiry(wanted, at=False))",
        "timed = due.scalar_subquery()",
        f"{STORE}::test_a_key_that_holds_its_rows_is_due_when_one_expires",
    ),
    life(
        "what became due after the query for due keys is not looked for",
        "engine.source.found_keys:FoundKeys.next",
        "not asks or ",
        "",
        "tests/unit/engine/source/test_found_keys.py::test_key_that_is_due_after_the_query_is_found_although_its_event_is_over",
    ),
    life(
        "a key that has become due again during a query is not looked for",
        "engine.source.found_keys:FoundKeys.next",
        "more or len(left) < len(keys)",
        "more",
        "tests/unit/engine/source/test_found_keys.py"
        "::test_key_that_is_worked_on_elsewhere_during_a_query_is_asked_for_once_more",
    ),
    life(
        "what was found before its arrivals were handled is worked on again",
        "engine.source.worker:SourceWorker.refill",
        "tx.after_commit(partial(self._found.worked, key))",
        "pass",
        "tests/storage/test_many_keys.py"
        "::test_keys_that_were_worked_on_with_their_arrivals_are_not_worked_on_because_they_were_due_before",
    ),
    life(
        "a creation that waits for an exchange is sent again",
        "engine.source.transmission:KeyWork._control",
        "if repeated and work is RmsWork.CREATE and self._process.is_in_flight(record.id, 0, False):",
        "if False:",
        "tests/unit/engine/source/test_transmission.py::test_creation_that_is_not_posted_yet_is_not_posted_again",
    ),
    life(
        "a creation that waits behind others is looked at as if it had been posted",
        "engine.source.transmission:KeyWork._control",
        "self._process.least_pause(record.channel.endpoint) if work is RmsWork.CREATE else 0.0",
        "0.0",
        "tests/unit/engine/source/test_transmission.py"
        "::test_creation_that_waits_behind_others_is_not_looked_at_before_its_turn_may_have_come",
    ),
    life(
        "an identifier that two responses of one transaction give",
        "engine.destination.batch:Batch.change_rms",
        "self._sources.add(record)",
        "pass",
        "tests/storage/test_many_keys.py"
        "::test_an_identifier_that_two_responses_of_one_transaction_give_is_that_of_one_sequence",
    ),
    life(
        "a creation that is repeated in one transaction",
        "engine.destination.made_sequences:MadeSequences.add",
        "self._by_key[record.create_key] = record",
        "pass",
        "tests/unit/engine/destination/test_sequences_of_a_batch.py"
        "::test_destination_sequence_is_found_by_a_repetition_of_its_creation_in_the_same_transaction",
    ),
    life(
        "an identifier that a source sequence has no more",
        "engine.destination.sources_by_name:SourcesByName.named",
        "and record.machine.identifier == identifier",
        "",
        "tests/unit/engine/destination/test_sequences_of_a_batch.py"
        "::test_source_sequence_is_not_found_by_an_identifier_that_it_has_no_more",
    ),
    life(
        "priorities of sequences that are due",
        "storage.sql.work:due_rms",
        "if urgent:",
        "if False:",
        "tests/conformance/test_priorities.py::test_a_higher_priority_comes_first",
    ),
    life(
        "a priority of which nothing wears off",
        "storage.sql.work:_turn",
        "return since - func.coalesce(table.c.priority, 0) * HEAD_START",
        "return since - func.coalesce(table.c.priority, 0) * 1e9",
        "tests/conformance/test_priorities.py::test_a_key_that_has_waited_long_comes_before_a_new_one_with_a_priority",
    ),
    life(
        "a limit on the rate to an endpoint",
        "engine.source.transmission:KeyWork._choose",
        "return due if self.context.rates is None else",
        "return due if True else",
        "tests/scenario/test_rates.py::test_an_endpoint_gets_as_many_messages_a_second_as_it_may",
    ),
    life(
        "repetitions are not counted",
        "engine.rates:Rates.sendable",
        "bucket.spend(again + len(new[:room]), now)",
        "bucket.spend(len(new[:room]), now)",
        "tests/scenario/test_rates.py::test_a_message_that_is_lost_is_sent_again_at_its_time_and_counts",
    ),
    life(
        "a limit on the rate of a service",
        "engine.delivery.invocation:InvocationWorker._load",
        "left = None if rates is None else rates.callable(record.service, now)",
        "left = None",
        "tests/scenario/test_rates.py::test_the_handlers_of_a_service_get_as_many_messages_a_second_as_they_may",
    ),
    life(
        "a service that is held back is asked for all the time",
        "engine.delivery.turns:Turns.work_filter",
        "if self._held:",
        "if False:",
        "tests/scenario/test_rates.py::test_nothing_is_asked_until_the_limit_lets_calls_pass",
    ),
    life(
        "a bucket that is filled by a clock that is set",
        "statemachine.token_bucket:TokenBucket._fill",
        "max(0.0, now - self._at)",
        "abs(now - self._at)",
        "tests/unit/statemachine/test_token_bucket.py::test_a_clock_that_is_set_back_neither_fills_nor_blocks_it",
    ),
)
