"""The guards of batches, each with the test that must fail when it is removed."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

SCENARIO = "tests/scenario/test_batches.py"
WIRE = "tests/unit/wire/test_batches.py"
POOL = "tests/unit/engine/runtime/test_sender_pool.py"
REFUSED = "test_batch_that_is_none_is_refused"
REQUESTS = "tests/scenario/test_batches_of_requests.py"
HELD = "tests/unit/engine/runtime/test_held_exchanges_released.py"
TOGETHER = "tests/unit/engine/test_answered_together.py"
SIZES = "tests/unit/engine/test_arrivals.py"


def batch(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A guard of batches that is removed."""
    return Mutant(f"batch: {name}", (Change(f"mercury.{symbol}", before, after),), test=test)


REQUESTS_IN_BATCHES = (
    batch(
        "requests in a batch of one-way messages",
        "engine.source.batching:_continues",
        "answered_there(record, row) == answered_there(record, first)",
        "True",
        f"{REQUESTS}::test_one_way_messages_and_requests_are_in_different_batches",
    ),
    batch(
        "as many requests as ever although few are answered together",
        "engine.source.batching:in_batches",
        "len(together) >= most_requests",
        "False",
        f"{REQUESTS}::test_where_responses_come_late_requests_leave_in_smaller_batches_and_later_in_large_ones_again",
    ),
    batch(
        "the answer to a batch is not noticed",
        "engine.runtime.core:Engine.answered",
        "outgoing.last is not None and reply.status < 300",
        "False",
        f"{REQUESTS}::test_where_responses_come_late_requests_leave_in_smaller_batches_and_later_in_large_ones_again",
    ),
    batch(
        "requests that were not answered together once stay single for ever",
        "engine.answered_together:AnsweredTogether.most",
        "not 0 < limit.until - now <= REMEMBERED",
        "False",
        f"{TOGETHER}::test_a_limit_is_forgotten_after_a_while_and_when_the_clock_was_set_back",
    ),
    batch(
        "keys are remembered without limit",
        "engine.answered_together:AnsweredTogether.__init__",
        "BoundedDict(MOST_KEYS)",
        "BoundedDict(MOST_KEYS**9)",
        f"{TOGETHER}::test_memory_has_a_limit_and_the_oldest_keys_give_way",
    ),
    batch(
        "the requests of a batch wait for no response",
        "engine.destination.batched:received",
        "exchange.waiting += single.waiting",
        "pass",
        f"{REQUESTS}::test_requests_that_are_due_together_leave_together_and_so_do_their_responses",
    ),
    batch(
        "the first response ends the exchange of a batch",
        "engine.exchange:HeldExchange.is_complete",
        "not self.missing or",
        "True or",
        f"{HELD}::test_exchange_of_a_batch_is_answered_once_all_its_responses_exist",
    ),
    batch(
        "responses of any size wait in memory for the last one",
        "engine.exchange:HeldExchange.is_complete",
        "self._bytes >= self._most",
        "False",
        f"{HELD}::test_large_responses_are_not_kept_in_memory_until_the_last_one_exists",
    ),
    batch(
        "responses with a gap in a batch",
        "engine.source.back_channel:_follows",
        "_number(response) == _number(before) + 1",
        "True",
        f"{HELD}::test_responses_that_do_not_fit_in_one_envelope_are_left_for_the_repetitions_of_their_requests",
    ),
    batch(
        "responses of two sequences in a batch",
        "engine.source.back_channel:_follows",
        "sequence.identifier == last.identifier",
        "True",
        f"{HELD}::test_responses_that_do_not_fit_in_one_envelope_are_left_for_the_repetitions_of_their_requests",
    ),
    batch(
        "a response that leaves alone in a batch",
        "engine.source.back_channel:_follows",
        "response.batches is not None and same",
        "same",
        f"{HELD}::test_responses_that_do_not_fit_in_one_envelope_are_left_for_the_repetitions_of_their_requests",
    ),
    batch(
        "more responses than the client takes",
        "engine.source.back_channel:_together",
        "len(together) >= limits.messages or size > limits.size",
        "size > limits.size",
        f"{HELD}::test_batch_of_responses_is_no_larger_than_its_client_takes",
    ),
    batch(
        "more bytes of responses than the client takes",
        "engine.source.back_channel:_together",
        "len(together) >= limits.messages or size > limits.size",
        "len(together) >= limits.messages",
        f"{HELD}::test_batch_of_responses_is_no_larger_than_its_client_takes",
    ),
    batch(
        "the exchange waits for its last response",
        "service.endpoint:_response",
        "if 0 < len(held.found) == so_far:",
        "if False:",
        f"{REQUESTS}::test_exchange_with_some_of_its_responses_ends_when_no_other_has_come_for_a_while",
    ),
    batch(
        "what exists already is waited for",
        "engine.runtime.held_exchanges:HeldExchanges.hold",
        "HeldExchange(waiting, stored)",
        "HeldExchange(waiting)",
        f"{HELD}::test_responses_that_exist_already_count",
    ),
)

BATCHES = (
    *REQUESTS_IN_BATCHES,
    batch(
        "large parts, which each of its messages would have",
        "wire.decode:_Reading._body",
        "if self.parts:",
        "if False:",
        "tests/unit/wire/test_attachments.py::test_batch_with_a_large_part_is_refused",
    ),
    batch(
        "a batch that was not agreed is taken",
        "engine.destination.batched:received",
        "if not record.takes_batches:",
        "if False:",
        f"{SCENARIO}::test_batch_that_was_not_agreed_is_refused_and_its_messages_are_sent_singly",
    ),
    batch(
        "messages after one that is refused as busy",
        "engine.destination.batched:received",
        "single.fault is not None and single.fault.busy:\n            break",
        "False:\n            break",
        f"{SCENARIO}::test_messages_after_a_busy_one_are_not_taken",
    ),
    batch(
        "the acknowledgement of those before it",
        "engine.destination.batched:received",
        "exchange.accepted_in_part = exchange.fault.busy",
        "exchange.accepted_in_part = False",
        f"{SCENARIO}::test_messages_before_a_refused_one_are_acknowledged_and_the_rest_is_sent_again",
    ),
    batch(
        "a refused batch is sent again as it is",
        "engine.destination.inbound_faults:_send_singly",
        "record.batch_messages = 1",
        "pass",
        f"{SCENARIO}::test_batch_that_was_not_agreed_is_refused_and_its_messages_are_sent_singly",
    ),
    batch(
        "a destination that refused a batch is Mercury no longer",
        "engine.destination.inbound_faults:_send_singly",
        "record.batch_messages = 1",
        "record.batch_messages = 0",
        f"{SCENARIO}::test_batch_that_was_not_agreed_is_refused_and_its_messages_are_sent_singly",
    ),
    batch(
        "a retransmission is as large as before",
        "engine.source.batching:_continues",
        "record.batch_messages // SMALLER ** min(row.attempts, SMALLER)",
        "record.batch_messages",
        f"{SCENARIO}::test_lost_batch_is_sent_again_in_smaller_ones",
    ),
    batch(
        "numbers that are not consecutive",
        "engine.source.batching:_continues",
        "row.number == (before.number or 0) + 1",
        "True",
        f"{SCENARIO}::test_batch_has_consecutive_numbers",
    ),
    batch(
        "bytes of a batch",
        "engine.source.batching:in_batches",
        "added <= record.batch_size",
        "True",
        f"{SCENARIO}::test_batch_is_no_larger_than_the_policy_says",
    ),
    batch(
        "a message with header blocks",
        "engine.source.batching:may_be_batched",
        "row.headers or row.to_parameters",
        "row.to_parameters",
        f"{SCENARIO}::test_message_with_header_blocks_leaves_alone",
    ),
    batch(
        "more than the policy allows",
        "engine.batches:agree",
        "min(policy.batch, stated.messages)",
        "stated.messages",
        f"{SCENARIO}::test_batch_is_no_larger_than_the_policy_says",
    ),
    batch(
        "more than the destination takes",
        "engine.batches:agree",
        "min(policy.batch, stated.messages)",
        "policy.batch",
        f"{SCENARIO}::test_batch_is_no_larger_than_the_destination_takes",
    ),
    batch(
        "messages of a batch in flight",
        "engine.runtime.in_flight:InFlight._with",
        "each[2] <= slot[2] <= self._batches[each]",
        "False",
        f"{POOL}::test_every_message_of_a_batch_is_under_way_while_the_batch_waits_and_while_it_is_posted",
    ),
    batch(
        "a batch of another sequence in flight",
        "engine.runtime.in_flight:InFlight._with",
        "each[:2] == slot[:2]",
        "True",
        f"{POOL}::test_every_message_of_a_batch_is_under_way_while_the_batch_waits_and_while_it_is_posted",
    ),
    batch(
        "number of messages",
        "wire.scan:Scanner._start",
        "if self._bodies == depth + 1 and len(parent.children) > self._limits.max_batch:",
        "if False:",
        f"{WIRE}::test_batch_has_at_most_as_many_messages_as_the_limit_says",
    ),
    batch(
        "other header blocks",
        "wire.decode:_Reading._assemble",
        "[*headers, *parameters]",
        "parameters",
        f"{WIRE}::test_batch_has_few_bytes_of_other_header_blocks_for_they_are_stored_with_each_message",
    ),
    batch(
        "reference parameters",
        "wire.decode:_Reading._assemble",
        "[*headers, *parameters]",
        "headers",
        f"{WIRE}::test_batch_has_few_bytes_of_reference_parameters_for_they_are_stored_with_each_message",
    ),
    batch(
        "size of the header blocks of each message",
        "engine.exchange:size_of",
        " + headers * len(messages)",
        "",
        f"{SIZES}::test_size_counts_the_header_blocks_that_are_stored_with_each_message",
    ),
    batch(
        "size of the header blocks of a single message",
        "engine.exchange:size_of",
        "return len(xml) + headers",
        "return len(xml)",
        f"{SIZES}::test_size_counts_the_header_blocks_that_are_stored_with_each_message",
    ),
    batch(
        "depth behind a batch",
        "wire.scan:Scanner._end",
        "self._floor, self._bodies, self._max_depth = depth, 0, self._limits.max_depth",
        "self._floor, self._bodies = depth, 0",
        f"{WIRE}::test_content_behind_a_batch_is_not_nested_deeper",
    ),
    batch(
        "the action of each message",
        "wire.batch:_message",
        "if not named:",
        "if False:",
        f"{WIRE}::test_message_of_a_batch_that_has_an_action_in_neither_place_is_refused[absent]",
    ),
    batch(
        "outside any sequence",
        "wire.batch:read_batch",
        "if sequence is None:",
        "if sequence is None and False:",
        f"{WIRE}::test_batch_outside_any_sequence_or_with_last_message_is_refused",
    ),
    batch(
        "LastMessage",
        "wire.batch:read_batch",
        "if sequence.last:",
        "if False:",
        f"{WIRE}::test_batch_outside_any_sequence_or_with_last_message_is_refused",
    ),
    batch(
        "no message",
        "wire.batch:read_batch",
        "not node.children or",
        "",
        f"{WIRE}::test_empty_batch_is_refused",
    ),
    batch(
        "highest number",
        "wire.batch:read_batch",
        "if sequence.message_number + len(node.children) - 1 > MAX_MESSAGE_NUMBER:",
        "if False:",
        f"{WIRE}::test_last_number_of_a_batch_is_at_most_the_highest_there_is",
    ),
    batch(
        "two bodies of one message",
        "wire.batch:_message",
        "or len(node.children) > 1",
        "",
        f"{WIRE}::{REFUSED}",
    ),
    batch(
        "a message without MessageID",
        "wire.batch:_message",
        "if not message_id:",
        "if False:",
        f"{WIRE}::{REFUSED}",
    ),
    batch("a batch in a batch", "wire.batch:_body", "if body.name == BATCH:", "if False:", f"{WIRE}::{REFUSED}"),
    batch(
        "length of an attribute",
        "wire.batch:_uri",
        "if len(value) > limit // 4 and len(value.encode()) > limit:",
        "if False:",
        f"{WIRE}::{REFUSED}",
    ),
)
