"""The guards of batches, each with the test that must fail when it is removed."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

SCENARIO = "tests/scenario/test_batches.py"
WIRE = "tests/unit/wire/test_batches.py"
POOL = "tests/unit/engine/runtime/test_sender_pool.py"
REFUSED = "test_batch_that_is_none_is_refused"


def batch(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A guard of batches that is removed."""
    return Mutant(f"batch: {name}", (Change(f"mercury.{symbol}", before, after),), test=test)


BATCHES = (
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
        "record.batch_messages = 0",
        "pass",
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
        "engine.source.batching:_may_be_batched",
        "row.headers or row.to_parameters",
        "row.to_parameters",
        f"{SCENARIO}::test_message_with_header_blocks_leaves_alone",
    ),
    batch(
        "a request whose response comes on its connection",
        "engine.source.batching:_may_be_batched",
        "answered_there = row.expects_response and channel.reply_to.anonymous",
        "answered_there = False",
        f"{SCENARIO}::test_requests_whose_responses_come_on_their_connections_leave_singly",
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
        "depth behind a batch",
        "wire.scan:Scanner._end",
        "self._floor, self._bodies, self._max_depth = depth, 0, self._limits.max_depth",
        "self._floor, self._bodies = depth, 0",
        f"{WIRE}::test_content_behind_a_batch_is_not_nested_deeper",
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
