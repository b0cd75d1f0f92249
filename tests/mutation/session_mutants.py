"""The guards of sessions with .NET, and of sequences that end by a fault."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

CLIENTS = "tests/scenario/test_dotnet_clients.py"
SERVICES = "tests/scenario/test_dotnet_services.py"
END = "mercury.engine.source.open_exchanges:put_off_end"
CARRIER = "mercury.engine.destination.shared_acknowledgements:_carrier"


def guard(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A mutant that one test finds."""
    return Mutant(f"sessions: {name}", (Change(symbol, before, after),), test=test)


SESSIONS = (
    guard(
        "a message is answered by an acknowledgement without its number",
        CARRIER,
        "del exchange.acknowledge[identifier]",
        "pass",
        f"{CLIENTS}::test_message_of_a_request_reply_session_is_answered_by_an_acknowledgement_with_its_own_number_or_by_none",
    ),
    guard(
        "one of several messages is acknowledged for all",
        CARRIER,
        "elif not exchange.waiting:",
        "elif False:",
        f"{CLIENTS}::test_each_message_of_a_request_reply_session_has_an_acknowledgement_of_its_own_if_several_come_together",
    ),
    guard(
        "a sequence ends while exchanges with its messages are open",
        "mercury.engine.source.transmission:KeyWork._control",
        "not due or put_off_end(record, self._process, self.now)",
        "not due",
        f"{SERVICES}::test_end_waits_until_no_exchange_of_a_message_is_open",
    ),
    guard(
        "the end waits for exchanges although the application does not",
        END,
        " or machine.abandoned",
        "",
        f"{SERVICES}::test_end_waits_for_no_exchange_after_terminate_or_without_a_sequence_of_responses",
    ),
    guard(
        "the end waits for the latest exchange of each message only",
        "mercury.engine.runtime.in_flight:InFlight.end",
        "if not self._exchanges[record_id]:",
        "if True:",
        "tests/unit/engine/runtime/test_sender_pool.py"
        "::test_sequence_has_an_open_exchange_until_the_last_one_of_its_messages_ends_however_long_it_takes",
    ),
    guard(
        "a sequence whose source ends it by a fault stays open",
        "mercury.engine.destination.inbound_faults:faulted",
        "if record is None and _ends_received(batch, exchange, fault):",
        "if False:",
        f"{CLIENTS}::test_fault_by_which_a_client_ends_its_sequence_ends_it_here",
    ),
    guard(
        "another peer ends a sequence by a fault",
        "mercury.engine.destination.inbound_faults:_ends_received",
        "batch.rmd(exchange, fault.identifier)",
        "batch.rmds.get(fault.identifier)",
        "tests/scenario/test_ownership_of_sequences.py::test_another_client_cannot_end_a_sequence_by_a_fault",
    ),
)
