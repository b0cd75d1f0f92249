"""The sample lossy_network: nothing is lost, repeated or out of order, whatever the network does."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import pytest

from tests.acceptance.processes import Ended, Running, each, eventually, python

PERFECT = {"lost": 0, "duplicated": 0, "out_of_order": 0}


MODES = {
    "listening": (),
    "anonymous": ("--anonymous",),
    "rm10": ("--protocol", "1.0/2004/08/1.1"),
}


@pytest.fixture(scope="module")
def runs() -> dict[str, Ended]:
    """A run in each mode, in parallel, because they mostly wait."""
    sample = ("-m", "samples.lossy_network", "--messages", "100", "--output", "json")
    return dict(each(MODES, lambda mode: python(*sample, *MODES[mode])))


@pytest.mark.parametrize("mode", MODES)
def test_every_message_arrives_once_and_in_order_both_ways(mode: str, runs: dict[str, Ended]) -> None:
    ended = runs[mode]
    assert (ended.code, ended.err) == (0, "")
    value = ended.value
    assert value["messages"] == 100
    assert value["client_to_server"] == PERFECT
    assert value["server_to_client"] == PERFECT
    assert value["wire_messages"] == sum(value[outcome] for outcome in ("passed", "dropped", "repeated", "cut"))
    assert min(value[outcome] for outcome in ("dropped", "repeated", "cut")) > 0
    assert value["wire_messages"] > (100 if mode == "anonymous" else 200)
    assert value["seconds"] > 0


def test_it_shows_what_happened() -> None:
    ended = python("-m", "samples.lossy_network", "--messages", "5", "--loss", "0", "--reset", "0", "--duplicate", "0")
    assert (ended.code, ended.err) == (0, "")
    for word in ("sent", "acknowledged", "delivered", "answered", "on the wire", "seconds", "lost", "out of order"):
        assert word in ended.out
    assert "0 dropped, 0 repeated, 0 cut" in ended.out


def test_no_more_is_acknowledged_than_was_sent() -> None:
    """WS-RM 1.0 ends a sequence with an empty message, which is acknowledged too."""
    calm = ("--loss", "0", "--reset", "0", "--duplicate", "0")
    ended = python("-m", "samples.lossy_network", "--messages", "5", *calm, "--protocol", "1.0/2004/08/1.1")
    assert (ended.code, ended.err) == (0, "")
    assert re.search(r"^acknowledged +5 ", ended.out, re.MULTILINE)


def test_a_protocol_that_there_is_not_is_explained() -> None:
    wrong = {"1.3/1.0/1.2": "'1.3/1.0/1.2'", "1.1": "RM/WSA/SOAP", "1.1/2004/08/1.2": "cannot be combined"}
    for protocol, ended in each(wrong, lambda protocol: python("-m", "samples.lossy_network", "--protocol", protocol)):
        assert (ended.code, ended.out) == (2, "")
        assert wrong[protocol] in " ".join(ended.err.split())


def test_rows_not_done_in_time_count_as_lost() -> None:
    ended = python("-m", "samples.lossy_network", "--delay", "10", "--deadline", "2", "--output", "json")
    assert ended.code == 1
    assert ended.err == "error: not finished within 2 s\n"
    assert ended.value["server_to_client"]["lost"] > 0


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc to find processes in")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_it_ends_its_processes_when_it_is_interrupted(number: signal.Signals, tmp_path: Path) -> None:
    mark = tmp_path.name  # in the environment of all its processes
    with Running(sys.executable, "-m", "samples.lossy_network", "--output", "json", MARK=mark) as sample:
        eventually(lambda: len(marked(mark)) == 3, "three processes")
        sample.signal(number)
        ended = sample.ends()
    assert (ended.code, ended.out, ended.err) == (130, "", "")
    assert marked(mark) == []


def marked(mark: str) -> list[str]:
    """The processes that have a given variable in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"MARK={mark}\0".encode() in (process / "environ").read_bytes():
                found.append(process.name)
        except OSError:
            continue
    return found


WRONG = {
    ("--loss", "0.9", "--reset", "0.1"): "less than 1",
    ("--protocol", "1.1/2004/08/1.2"): "cannot be combined",
    ("--protocol", "1.1"): "Invalid value",
    ("--messages", "0"): "Invalid value",
}


def test_options_that_make_no_sense_are_refused() -> None:
    for options, ended in each(WRONG, lambda options: python("-m", "samples.lossy_network", *options)):
        assert (ended.code, ended.out) == (2, ""), ended
        assert WRONG[options] in ended.err
