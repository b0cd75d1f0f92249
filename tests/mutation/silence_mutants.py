"""The guards of what follows silence, each with the test that must fail when it is removed."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

RESPONSES = "tests/scenario/test_silent_response_sequences.py"
ACKNOWLEDGEMENTS = "tests/scenario/test_acknowledgements.py"
ONE_ONE = "SOAP 1.2, WS-Addressing 1.0, WS-RM 1.1"


def silence(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A guard of silent sequences that is removed."""
    return Mutant(f"silence: {name}", (Change(f"mercury.{symbol}", before, after),), test=test)


SILENCES = (
    silence(
        "a pair that goes on loses its sequence for responses",
        "engine.destination.worker:DestinationWorker._work",
        "machine.is_silent(now, policy) and _awaits_responses(tx, record)",
        "False",
        f"{RESPONSES}::test_first_request_after_a_long_time_of_one_way_messages_is_answered[anonymous]",
    ),
    silence(
        "requests that wait lose their sequence for responses",
        "engine.destination.worker:_awaits_responses",
        "source.machine.alive or source.machine.unanswered",
        "source.machine.alive",
        f"{RESPONSES}::test_response_is_taken_that_comes_long_after_the_server_has_ended_the_sequence_of_its_request",
    ),
    silence(
        "a sequence for responses stays without requests",
        "engine.destination.worker:_awaits_responses",
        "return any(",
        "return record.service is None or any(",
        f"{RESPONSES}::test_no_response_sequence_of_a_server_that_has_vanished_stays[answered-listening]",
    ),
    silence(
        "an ended sequence is not acknowledged at an address",
        "engine.destination.worker:DestinationWorker._work",
        "                step.posts += self._acknowledge_in_time(record, rooms, now)\n                self._save",
        "                self._save",
        f"{ACKNOWLEDGEMENTS}::test_a_requested_acknowledgement_of_an_ended_sequence_goes_to_acks_to_once[{ONE_ONE}]",
    ),
    silence(
        "the acknowledgement of an ended sequence waits until it is forgotten",
        "statemachine.rmd:RMDSequence.next_due",
        "times = (self.ack_due, self.end_due, self.ended_at",
        "times = (self.end_due, self.ended_at",
        f"{ACKNOWLEDGEMENTS}::test_a_requested_acknowledgement_of_an_ended_sequence_goes_to_acks_to_once[{ONE_ONE}]",
    ),
)
