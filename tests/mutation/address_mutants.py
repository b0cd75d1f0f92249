"""The guards of where messages go: responses, faults, acknowledgements, and their wsa:To."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

STORIES = "tests/scenario/test_reply_to_and_fault_to.py"
ENDS = "tests/scenario/test_acknowledgements.py"
HANDLER = "mercury.engine.delivery.handler_call:HandlerCall"
PAIR = "mercury.engine.source.pair_acknowledgements:of_pair"


def guard(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A mutant that one test finds."""
    return Mutant(f"addresses: {name}", (Change(symbol, before, after),), test=test)


ADDRESSES = (
    guard(
        "a response follows the offer and not its ReplyTo",
        "mercury.engine.channels:channel_of_response",
        "endpoint_of(reply_to.address) == endpoint_of(offered.endpoint)",
        "not offered.back_channel",
        f"{STORIES}::test_response_goes_to_the_reply_to_of_its_request_and_not_to_the_endpoint_of_the_offer",
    ),
    guard(
        "an address in another form is another address",
        "mercury.engine.channels:channel_of_response",
        "endpoint_of(reply_to.address) == endpoint_of(offered.endpoint)",
        "reply_to.address == offered.endpoint",
        f"{STORIES}::test_response_to_the_endpoint_of_the_offer_uses_the_offered_sequence",
    ),
    guard(
        "a fault passes over FaultTo",
        f"{HANDLER}._respond",
        "self._fault_to(request) if response.is_fault else message.reply_to",
        "message.reply_to",
        f"{STORIES}::test_fault_of_a_handler_goes_to_fault_to",
    ),
    guard(
        "a response goes to FaultTo",
        f"{HANDLER}._respond",
        "self._fault_to(request) if response.is_fault else message.reply_to",
        "self._fault_to(request)",
        f"{STORIES}::test_response_goes_to_reply_to_whatever_fault_to_says",
    ),
    guard(
        "FaultTo that is not allowed",
        f"{HANDLER}._fault_to",
        "refused or self._exceeds_addresses",
        "self._exceeds_addresses",
        f"{STORIES}::test_fault_goes_to_reply_to_where_nothing_can_be_sent_to_fault_to",
    ),
    guard(
        "FaultTo is one address too many",
        f"{HANDLER}._fault_to",
        "refused or self._exceeds_addresses(channel_of_response(request, fault_to))",
        "refused",
        f"{STORIES}::test_fault_goes_to_reply_to_where_fault_to_is_one_address_too_many",
    ),
    guard(
        "a client that waits on its connection gets no fault there",
        f"{HANDLER}._fault_to",
        " or reply_to is None or reply_to.anonymous",
        "",
        f"{STORIES}::test_fault_for_who_waits_on_the_connection_comes_there_whatever_fault_to_says",
    ),
    guard(
        "AckRequested alone has the URL as its wsa:To",
        "mercury.engine.envelopes:ack_requested_alone",
        "EndpointReference(record.channel.to)",
        "EndpointReference(record.channel.endpoint)",
        "tests/scenario/test_restarted_sources.py::test_question_after_a_start_has_the_wsa_to_of_all_other_messages",
    ),
    guard(
        "acknowledgements of requests go with the end of their responses whatever AcksTo says",
        PAIR,
        "record.channel.pair and (found.acks_to.address != record.channel.to or found.acks_to.parameters)",
        "False",
        f"{ENDS}::test_the_end_of_the_responses_acknowledges_no_requests_whose_acknowledgements_go_elsewhere",
    ),
    guard(
        "acknowledgements go where the parameters of AcksTo are missing",
        PAIR,
        " or found.acks_to.parameters)",
        ")",
        f"{ENDS}::test_the_end_of_the_responses_acknowledges_no_requests_whose_acknowledgements_go_elsewhere",
    ),
    guard(
        "the last acknowledgement of the other direction does not say that it is the last",
        PAIR,
        "replace(said, ranges=ranges",
        "replace(said, final=False, ranges=ranges",
        "tests/scenario/test_dotnet_clients.py::test_request_reply_session_of_a_client_with_an_address",
    ),
)
