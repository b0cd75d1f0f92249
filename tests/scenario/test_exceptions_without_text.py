"""Applications raise exceptions whose ``__str__`` raises, or whose text no log can hold: each is a failed attempt like
any other."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from mercury.engine.events import HandlerFailed
from mercury.errors import ApplicationFault
from mercury.statemachine.policy import DeliveryAssurance, DestinationPolicy, OnFailure
from tests.unreadable import Unreadable

from .harness import Pair
from .test_delivery_assurances import ASSURANCES, Broken, policy

NO_TEXT = "Unreadable: (its text cannot be read)"


def skipping(assurance: DeliveryAssurance = DeliveryAssurance.EXACTLY_ONCE) -> DestinationPolicy:
    return policy(assurance, on_failure=OnFailure.SKIP, max_attempts=2)


@ASSURANCES
def test_handler_whose_exception_has_no_text_is_called_again_and_its_message_is_skipped_by_the_policy(
    assurance: DeliveryAssurance,
) -> None:
    pair = Pair(policy=skipping(assurance))
    broken = Broken(pair.server, "two", error=Unreadable())
    pair.link().asks("one", "two", "three")
    pair.advance(20)
    assert pair.client.answers == [("one", "re one"), ("two", "fault Failed"), ("three", "re three")]
    attempts = [attempt for text, attempt in broken.attempts if text == "two"]
    assert attempts == ([1] if assurance is DeliveryAssurance.AT_MOST_ONCE else [1, 2])
    assert [letter.reason for letter in pair.server.letters()] == [f"given up: {NO_TEXT}"]


@ASSURANCES
def test_callback_whose_exception_has_no_text_is_called_again_and_its_response_is_skipped_by_the_policy(
    assurance: DeliveryAssurance,
) -> None:
    pair = Pair(client_policy=skipping(assurance))
    Broken(pair.client, "re one", error=Unreadable())
    link = pair.link()
    link.asks("one", "two")
    link.close()
    pair.advance(20)
    assert pair.client.answers == [("two", "re two")]
    assert [letter.reason for letter in pair.client.letters()] == [f"given up: {NO_TEXT}"]
    assert pair.client.rows() == 0


class Mute(ApplicationFault):
    def __str__(self) -> str:
        raise ValueError("no text")


def test_fault_of_a_class_without_a_text_refuses_the_message_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mercury")
    pair = Pair(policy=skipping())
    Broken(pair.server, "two", error=Mute("closed"))
    pair.link().notes("one", "two", "three")
    pair.advance(20)
    assert pair.server.handled == ["one", "three"]
    assert [letter.reason for letter in pair.server.letters()] == ["the handler refused it: closed"]
    assert "the handler of Note answers with a fault: '(its text cannot be read)'" in caplog.messages


def test_lines_of_failures_without_a_text_say_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mercury")
    pair = Pair(policy=skipping())
    Broken(pair.server, "one", error=Unreadable())
    pair.link().notes("one")
    pair.advance(20)
    failures = [event for event in pair.server.events if isinstance(event, HandlerFailed)]
    assert [(event.attempt, event.repeated) for event in failures] == [(1, False), (2, True)]
    lines = [line for line in caplog.messages if "of Note failed" in line]
    assert lines == ["the handler of Note failed", f"the handler of Note failed again: {NO_TEXT}"]


def test_repeated_failure_with_line_breaks_and_half_a_character_is_one_line_of_a_file_in_utf8(tmp_path: Path) -> None:
    log = logging.getLogger("mercury.engine.invocation")
    file = logging.FileHandler(tmp_path / "log", encoding="utf-8")
    file.addFilter(lambda record: not record.exc_info)  # of the first failure, whose traceback has lines anyway
    log.addHandler(file)
    try:
        pair = Pair(policy=skipping())
        Broken(pair.server, "one", error=ValueError("no \ud800\nERROR forged"))
        pair.link().notes("one")
        pair.advance(20)
    finally:
        log.removeHandler(file)
        file.close()
    lines = (tmp_path / "log").read_text("utf-8").splitlines()
    assert lines == [r"the handler of Note failed again: ValueError: no \ud800\nERROR forged"]
