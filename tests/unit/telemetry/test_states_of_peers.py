"""OpenTelemetry takes every tracestate that is taken of a peer: it would log a warning for each message otherwise."""

from __future__ import annotations

import logging

import pytest

from mercury.statemachine.trace import read_trace
from mercury.telemetry.tracing import _context_of

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    "state", ["1=x", "1@s=x", "tenant@1=x", "v_*/-9=x y", "vendor= x", f"{'v' * 256}=x", f"{'t' * 241}@{'s' * 14}=~"]
)
def test_a_tracestate_of_a_peer_is_passed_on_whole_or_left_out_without_a_warning(
    state: str, caplog: pytest.LogCaptureFixture
) -> None:
    trace = read_trace(PARENT, state)
    assert trace is not None
    with caplog.at_level(logging.WARNING):
        context = _context_of(trace)
    assert context.trace_state.to_header() == trace.state
    assert not caplog.records
