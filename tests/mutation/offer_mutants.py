"""The guards of offers that are refused, each with the test that must fail when it is removed."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

STORY = "tests/scenario/test_refused_offers.py"
MACHINE = "tests/unit/statemachine/test_rms_faults.py"
STORE = "tests/storage/test_refused_offers.py"


def offer(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A guard of refused offers that is removed."""
    return Mutant(f"offers: {name}", (Change(f"mercury.{symbol}", before, after),), test=test)


OFFERS = (
    offer(
        "the source asks for ever",
        "statemachine.rms_guards:holds",
        "given.offered and _is_refused(given)",
        "_is_refused(given)",
        f"{MACHINE}::test_a_refusal_of_the_first_create_sequence_with_an_offer_asks_at_once_without_one",
    ),
    offer(
        "WSRMRequired drops the offer",
        "statemachine.rms_guards:holds",
        "given.offered and _is_refused(given)",
        "given.offered",
        f"{MACHINE}::test_other_refusals_of_a_create_sequence_with_an_offer_say_nothing_of_the_offer[WSRMRequired]",
    ),
    offer(
        "the second refusal counts as that of a repetition",
        "statemachine.rms:RMSSequence._fault",
        "self.control_attempts, self.control_due = 0, now",
        "self.control_due = now",
        f"{MACHINE}::test_a_refusal_of_the_first_create_sequence_with_an_offer_asks_at_once_without_one",
    ),
    offer(
        "the source asks without an offer after a pause",
        "statemachine.rms:RMSSequence._fault",
        "self.control_attempts, self.control_due = 0, now",
        "self.control_attempts = 0",
        f"{STORY}::test_destination_that_refuses_offers_gets_its_messages_without_a_setting"
        "[SOAP 1.2, WS-Addressing 1.0, WS-RM 1.0-anonymous]",
    ),
    offer(
        "the message without an offer has the MessageID of the one with it",
        "engine.source.apply_effects:apply_rms_effects",
        "record.create_message_id, record.offered, record.last_error = context.ids.new(), None, None",
        "record.offered, record.last_error = None, None",
        f"{STORY}::test_destination_that_refuses_offers_gets_its_messages_without_a_setting"
        "[SOAP 1.2, WS-Addressing 1.0, WS-RM 1.0-anonymous]",
    ),
    offer(
        "the refusal is the error of a sequence that works",
        "engine.source.apply_effects:apply_rms_effects",
        "record.create_message_id, record.offered, record.last_error = context.ids.new(), None, None",
        "record.create_message_id, record.offered = context.ids.new(), None",
        f"{STORY}::test_destination_that_refuses_offers_gets_its_messages_without_a_setting"
        "[SOAP 1.2, WS-Addressing 1.0, WS-RM 1.0-anonymous]",
    ),
    offer(
        "a sequence that is asked for anew makes an offer again",
        "engine.source.numbering:Numbering._create",
        "channel.policy.offer and not any(each.offered is None for each in replaced)",
        "channel.policy.offer",
        f"{STORY}::test_refused_repetition_of_create_sequence_without_an_offer_is_asked_anew_without_one_and_then_ends",
    ),
    offer(
        "a copy of the refusal counts as that of the message without an offer",
        "engine.destination.sources_by_name:SourcesByName.created_by",
        "record if record is not None and record.create_message_id == message_id else None",
        "record",
        f"{STORY}::test_copy_of_the_refusal_does_not_fail_the_sequence[in one transaction]",
    ),
    offer(
        "a database keeps the offer",
        "storage.sql.rms:SqlRms.save",
        ', "offered": own.offered}',
        "}",
        f"{STORE}::test_restart_after_the_refusal_of_an_offer_asks_without_one[sqlite]",
    ),
    offer(
        "a database keeps the MessageID",
        "storage.sql.rms:SqlRms.save",
        ' "create_message_id": own.create_message_id,',
        "",
        f"{STORE}::test_restart_after_the_refusal_of_an_offer_asks_without_one[sqlite]",
    ),
    offer(
        "a copy of the refusal on the connection of the first CreateSequence",
        "engine.destination.inbound_faults:_source",
        "request.envelope.message_id != record.create_message_id",
        "False",
        "tests/scenario/test_refused_offers.py::"
        "test_copy_of_the_refusal_on_the_connection_of_the_first_attempt_does_not_fail_the_sequence",
    ),
)
