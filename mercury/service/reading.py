"""The part of a request that is read next, and the pieces in which its body arrives."""

from __future__ import annotations

import enum

#: Pieces in one read that may be small; beyond them a read has at most one piece for each `SMALL_PIECE` bytes.
SMALL_PIECES = 1024
SMALL_PIECE = 16


class Reading(enum.Enum):
    """The part of a request that is read next."""

    NOTHING = "nothing"
    HEAD = "head"
    BODY = "body"


class BodyPieces:
    """Collects the pieces of one body, to pass those of one read on together.

    A body in chunks of one byte costs the parser and the application a call for each byte.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._count = self._size = 0

    def add(self, piece: bytes) -> bool:
        """Add a piece; ``False`` = this read has too many small pieces."""
        self._count += 1
        self._size += len(piece)
        self._pieces.append(piece)
        return self._count <= SMALL_PIECES + self._size // SMALL_PIECE

    def take(self) -> bytes:
        """Remove and return what was added since the last call."""
        body = b"".join(self._pieces)
        self._pieces.clear()
        self._count = self._size = 0
        return body
