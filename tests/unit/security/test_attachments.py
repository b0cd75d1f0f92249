"""Messages with attachments that are to be secured: as a whole, or not at all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mercury.security.message import in_memory
from mercury.wire.envelope import HttpMessage, Rest
from mercury.wire.scan import Limits, MessageRefused


def test_attachments_that_are_too_large_for_memory_are_refused_before_they_are_read() -> None:
    reads: list[None] = []

    def pieces() -> Iterator[bytes]:
        reads.append(None)
        yield b"<b/>"

    message = HttpMessage(b"<a/>", "text/xml", rest=Rest(4, pieces))
    assert in_memory(message, Limits(max_bytes=4)).body == b"<a/><b/>"
    assert len(reads) == 1
    with pytest.raises(MessageRefused, match="larger than 3 bytes"):
        in_memory(message, Limits(max_bytes=3))
    assert len(reads) == 1
