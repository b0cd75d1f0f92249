"""The guards of metrics and traces, each with the test that must fail when it is removed."""

from __future__ import annotations

from tests.mutation.mutant import Change, Mutant

TRACE = "tests/unit/statemachine/test_trace.py"
TRACES = "tests/scenario/test_traces.py"
TELEMETRY = "tests/unit/telemetry"


def telemetry(name: str, symbol: str, before: str, after: str, test: str) -> Mutant:
    """A guard of metrics or traces that is removed."""
    return Mutant(f"telemetry: {name}", (Change(f"mercury.{symbol}", before, after),), test=test)


TELEMETRIES = (
    telemetry(
        "a traceparent of a peer may have any end",
        "statemachine.trace:read_trace",
        'if more and (found[1] == "00" or more[0] != "-"):',
        "if False:",
        f"{TRACE}::test_anything_else_is_no_trace",
    ),
    telemetry(
        "a tracestate of a peer may have any characters",
        "statemachine.trace:_state",
        " or not all(map(_ENTRY.fullmatch, entries))",
        "",
        f"{TRACE}::test_a_state_that_is_not_valid_or_too_long_is_left_out_and_the_trace_stays",
    ),
    telemetry(
        "a tracestate of a peer may have any key",
        "statemachine.trace:_ENTRY",
        "(?:[a-z][a-z0-9_*/-]{0,255}|",
        "(?:[a-z0-9][a-z0-9_*/-]{0,255}|",
        f"{TELEMETRY}/test_states_of_peers.py::"
        "test_a_tracestate_of_a_peer_is_passed_on_whole_or_left_out_without_a_warning",
    ),
    telemetry(
        "the header of an exchange is the trace of each message of its batch",
        "engine.destination.batched:singles",
        "single.http_trace = None",
        "pass",
        f"{TRACES}::test_the_span_of_a_proxy_is_not_that_of_the_messages_of_a_batch",
    ),
    telemetry(
        "other stacks get the header block",
        "engine.envelopes:_origin",
        "not record.batch_messages or ",
        "",
        f"{TRACES}::test_a_peer_that_has_not_stated_to_take_batches_gets_the_headers_only",
    ),
    telemetry(
        "the span of a transaction that is rolled back ends",
        "telemetry.tracing:Traces.sending",
        "after_commit(partial(self._end, span))",
        "self._end(span)",
        f"{TRACES}::test_a_span_of_a_transaction_that_is_rolled_back_is_not_exported",
    ),
    telemetry(
        "a time of a peer that cannot be true counts",
        "telemetry.recorder:Recorder.delivered",
        " and now - at <= LONGEST_TRANSFER",
        "",
        f"{TELEMETRY}/test_recorder.py::test_a_time_of_a_peer_that_cannot_be_true_does_not_spoil_the_sum",
    ),
    telemetry(
        "any number of endpoints is shown",
        "telemetry.labels:Limited._add",
        "if name not in self._names and len(self._names) >= self._most:",
        "if False:",
        f"{TELEMETRY}/test_labels.py::test_endpoints_above_the_limit_share_one_name",
    ),
    telemetry(
        "each process of a fleet reads the gauges of the store",
        "telemetry.store_gauges:StoreGauges._query",
        " if self._claim is not None else None",
        "",
        f"{TELEMETRY}/test_store_gauges.py::test_one_process_reads_and_another_takes_over_when_it_ends",
    ),
)
