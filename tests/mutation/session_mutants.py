"""The guards of sessions with .NET."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

CLIENTS = "tests/scenario/test_dotnet_clients.py"
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
)
