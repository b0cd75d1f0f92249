"""The guards of requests that are answered without a task (`mercury.service.direct`), and of the queue behind them."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

DIRECT_TEST = "tests/unit/service/test_direct.py"
OTHERS = "test_other_requests_go_the_usual_way"


def direct(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A condition for a direct answer that is removed, or a step of it."""
    return Mutant(
        f"direct: {name}", (Change(f"mercury.service.{symbol}", before, after),), test=f"{DIRECT_TEST}::{test}"
    )


DIRECT = (
    direct(
        "requests ahead of their answers",
        "direct:DirectProtocol._is_idle",
        "(self.cycle is None or self.cycle.response_complete) and not",
        "not",
        "test_requests_ahead_of_their_answers_are_answered_in_their_order",
    ),
    direct(
        "client that expects to be told to go on",
        "direct:DirectProtocol.head_ends",
        "not self.expect_100_continue and ",
        "",
        OTHERS,
    ),
    direct(
        "peer that does not read its answers",
        "direct:DirectProtocol._is_idle",
        " and not self.flow.write_paused",
        "",
        "test_peer_that_does_not_read_its_answers_is_answered_the_usual_way",
    ),
    direct(
        "known header while a request waits for its answer",
        "direct:DirectProtocol.begin_known",
        " or not self._is_idle:",
        ":",
        "test_requests_with_a_known_header_ahead_of_their_answers_are_answered_in_their_order",
    ),
    direct(
        "known header behind which other bytes follow",
        "known_requests:_parts",
        "if len(data) != behind + int(length):",
        "if False:",
        "test_a_read_that_is_not_one_request_with_a_known_header_is_parsed",
    ),
    direct(
        "known header without a blank line",
        "known_requests:_parts",
        " or blank < 0",
        "",
        "test_header_whose_blank_line_is_missing_is_not_remembered",
    ),
    direct(
        "known header with the length of another request",
        "known_requests:KnownRequests.learn",
        "if _BLANK_LINE in before:",
        "if False:",
        "test_header_is_not_remembered_with_the_length_of_another_request",
    ),
    direct(
        "request that begins behind one with a header to remember",
        "direct:DirectProtocol.on_message_begin",
        "self._parsed = None",
        "pass",
        "test_header_is_not_to_be_remembered_if_another_request_begins_in_the_same_read",
    ),
    Mutant(
        "direct: two requests of one read, by both guards",
        (
            Change("mercury.service.direct:DirectProtocol.on_message_begin", "self._parsed = None", "pass"),
            Change("mercury.service.known_requests:KnownRequests.learn", "if _BLANK_LINE in before:", "if False:"),
        ),
        test=f"{DIRECT_TEST}::test_two_requests_of_one_read_are_never_taken_for_one",
    ),
    direct(
        "headers that are known for one request only",
        "known_requests:KnownRequests.learn",
        "if len(self._known) >= MOST_HEADS:",
        "if False:",
        "test_so_many_headers_are_known_at_most",
    ),
    direct(
        "something around the application",
        "direct:DirectProtocol.__init__",
        "app if whole and not around else None",
        "app if whole else None",
        OTHERS,
    ),
    direct(
        "middleware",
        "host:SoapApplication.direct_endpoint",
        "if self.user_middleware or self.router.dependencies:",
        "if self.router.dependencies:",
        "test_request_is_passed_to_a_middleware_that_is_added",
    ),
    direct(
        "late body",
        "direct:DirectProtocol.read_ends",
        "self._until = self.loop.call_later(BODY_DELAY, self.pass_on)",
        "pass",
        "test_body_that_is_late_goes_the_usual_way",
    ),
    direct(
        "body in many pieces",
        "direct:DirectProtocol.read_ends",
        "self.pieces.count > MOST_PIECES or ",
        "",
        "test_body_in_many_pieces_goes_the_usual_way",
    ),
    direct(
        "unanswered request of a client that has left",
        "direct:DirectProtocol.connection_lost",
        "self.tasks.discard(self.running)",
        "pass",
        "test_client_that_has_left_gets_nothing_and_its_exchange_is_released",
    ),
    direct(
        "exchange of a client that has left",
        "endpoint:Endpoint._end",
        "_release(runtime, answer)",
        "pass",
        "test_client_that_has_left_gets_nothing_and_its_exchange_is_released",
    ),
    direct(
        "large answer",
        "endpoint:Endpoint._end",
        " and len(answer.http.body) <= FREE",
        "",
        "test_large_answer_goes_the_usual_way",
    ),
    direct(
        "body above the limit",
        "endpoint:Endpoint.is_direct",
        "size <= min(SMALL, self._host.bodies.max_bytes)",
        "size <= SMALL",
        "test_body_above_the_limit_goes_the_usual_way",
    ),
    direct(
        "secured service",
        "endpoint:Endpoint.is_direct",
        "and not runtime.is_secured(self.service)",
        "",
        "test_secured_service_is_reached_the_usual_way",
    ),
    direct("encoded body", "endpoint:Endpoint.is_direct", 'and "content-encoding" not in headers', "", OTHERS),
    direct(
        "attachments",
        "endpoint:Endpoint.is_direct",
        'and not (self.takes_attachments and is_package(headers.get("content-type", "")))',
        "",
        OTHERS,
    ),
    direct(
        "one wake-up",
        "answers:AnswerQueue.put",
        "first = not self._ready",
        "first = True",
        "test_answers_of_one_transaction_wake_the_loop_once",
    ),
    *(
        Mutant(
            f"group commit: {name}",
            (Change(f"mercury.engine.runtime.group_commit:ArrivalQueue.{symbol}", before, after),),
            test=f"tests/unit/engine/runtime/test_group_commit.py::{test}",
        )
        for name, symbol, before, after, test in (
            (
                "one wake-up",
                "put",
                "if self._wake_at and (len(self._waiting) >= self._wake_at or (urgent and self._is_gathering)):",
                "if self._wake_at:",
                "test_committer_is_woken_for_the_first_and_when_all_have_come",
            ),
            (
                "bytes of a transaction",
                "_fitting",
                "if left < 0:",
                "if False:",
                "test_a_transaction_takes_no_more_bytes_than_it_may",
            ),
            (
                "arrival larger than a transaction",
                "_fitting",
                "fitting = max(1, count)",
                "fitting = count",
                "test_an_arrival_larger_than_a_transaction_is_alone_in_one",
            ),
            (
                "number of waiting arrivals",
                "put",
                "added = max(0, min(len(arrivals), self._most_waiting - len(self._waiting)))",
                "added = len(arrivals)",
                "test_more_than_may_wait_are_refused",
            ),
            (
                "nobody comes",
                "take",
                "while known < len(self._waiting) < expected",
                "while len(self._waiting) < expected",
                "test_arrival_after_a_pause_is_not_awaited",
            ),
        )
    ),
)
