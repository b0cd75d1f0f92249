"""What counts as a trace context: a peer may write anything."""

from __future__ import annotations

import pytest

from mercury.statemachine.trace import MOST_STATE, Trace, read_trace, trace_of

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
LONGEST = ",".join(f"vendor{number:02}={'x' * 54}" for number in range(8))


def test_a_trace_is_read_as_it_was_written() -> None:
    trace = read_trace(PARENT, "vendor=a<&b, 1other@a1=2")
    assert trace == Trace(PARENT, "vendor=a<&b,1other@a1=2")
    assert trace.id == "0af7651916cd43dd8448eb211c80319c"
    assert trace_of(trace.text) == trace
    assert trace_of(PARENT) == Trace(PARENT)


def test_a_later_version_may_append_parts() -> None:
    assert read_trace("cc" + PARENT[2:] + "-what-the-future-will-be-like") == Trace(PARENT)


@pytest.mark.parametrize(
    "parent",
    [
        None,
        "",
        "00",
        PARENT.upper(),
        PARENT[:-1],
        PARENT + "-01",
        PARENT + "\n",
        PARENT + "\r\nX-Evil: 1",
        "cc" + PARENT[2:] + ".more",
        "ff" + PARENT[2:],
        PARENT.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32),
        PARENT.replace("b7ad6b7169203331", "0" * 16),
        PARENT.replace("-", "_"),
        "\u0660" + PARENT[1:],
        "x" * 10_240,
    ],
)
def test_anything_else_is_no_trace(parent: str | None) -> None:
    assert read_trace(parent, "vendor=1") is None


@pytest.mark.parametrize(
    "state",
    [
        "no entry",
        "vendor=a\r\nX-Evil: 1",
        "vendor=a=b",
        "Vendor=1",
        "vendor=ä",
        "1=x",
        "vendor=1,1=x",
        "tenant@1=x",
        "tenant@=x",
        "@system=x",
        "a@b@c=x",
        "tenant@" + "s" * 15 + "=x",
        "t" * 242 + "@s=x",
        "v" * 257 + "=x",
        "vendor=" + "x" * 10_240,
        ",".join(f"v{number}=1" for number in range(33)),
        LONGEST + "xx",
    ],
)
def test_a_state_that_is_not_valid_or_too_long_is_left_out_and_the_trace_stays(state: str) -> None:
    assert read_trace(PARENT, state) == Trace(PARENT)


def test_the_longest_state_stays() -> None:
    assert len(LONGEST + "x") == MOST_STATE
    assert read_trace(PARENT, LONGEST + "x") == Trace(PARENT, LONGEST + "x")


@pytest.mark.parametrize("key", ["v", "v" * 256, "v_*/-9", "1@s", "1_*/-@s_*/-9", "t" * 241 + "@" + "s" * 14])
def test_a_key_of_either_form_stays(key: str) -> None:
    assert read_trace(PARENT, f"{key}=x") == Trace(PARENT, f"{key}=x")
