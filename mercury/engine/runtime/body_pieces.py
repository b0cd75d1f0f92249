"""The pieces in which the body of an HTTP message arrives."""

from __future__ import annotations

#: The limit of pieces in one read: `FREE_PIECES`, and one more for each `BYTES_PER_PIECE` bytes.
FREE_PIECES = 1024
BYTES_PER_PIECE = 16


class BodyPieces:
    """Collects the pieces of one body, so that the pieces of one read are passed on as one.

    A body in chunks of one byte costs the parser and the application a call for each byte.
    """

    def __init__(self, bytes_per_piece: int = BYTES_PER_PIECE) -> None:
        self._pieces: list[bytes] = []
        self._bytes_per_piece = bytes_per_piece
        #: The pieces, and their bytes, that were added since the last call of `take`.
        self.count = self.size = 0

    def add(self, piece: bytes) -> bool:
        """Add a piece; ``False`` = this read has too many small pieces."""
        self.count += 1
        self.size += len(piece)
        self._pieces.append(piece)
        return self.count <= FREE_PIECES + self.size // self._bytes_per_piece

    def take(self) -> bytes:
        """Remove and return what was added since the last call."""
        body = b"".join(self._pieces)
        self._pieces.clear()
        self.count = self.size = 0
        return body
