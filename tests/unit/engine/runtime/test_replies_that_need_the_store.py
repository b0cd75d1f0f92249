"""Which replies are left to a helper thread, because the store may be used for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mercury.engine.exchange import Purpose
from mercury.engine.runtime.core import Engine
from tests.unit.engine.runtime.test_unexpected_errors import message

NOTED = {Purpose.TERMINATE, Purpose.ACKNOWLEDGEMENT}


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("purpose", [each for each in Purpose if each is not Purpose.MESSAGE])
def test_an_answer_to_a_creation_needs_the_store_only_if_it_is_empty(purpose: Purpose, empty: bool) -> None:
    needs = Engine.reply_needs_store(replace(message(), purpose=purpose), empty=empty)
    assert needs is (empty if purpose is Purpose.CREATE else purpose in NOTED)


def test_the_reply_to_a_message_outside_any_sequence_needs_the_store() -> None:
    assert Engine.reply_needs_store(message(), empty=False)
