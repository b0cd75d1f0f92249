"""The binary parts of a message that are stored in pieces, beside the row of the message (decision 36)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Protocol

#: The most bytes of one piece.
PIECE = 256 * 1024


@dataclass(frozen=True, slots=True)
class StoredPart:
    """One part: the content of the elements of the payload whose ``xop:Include`` names it."""

    #: Its Content-ID, without angle brackets.
    content_id: str
    #: Its length in bytes.
    size: int


@dataclass(frozen=True, slots=True)
class Attachments:
    """The parts of one message. The message, its dead letter and the redriven message have the same `id`, so that the
    pieces stay where they are."""

    id: str
    parts: tuple[StoredPart, ...]

    @property
    def size(self) -> int:
        """The bytes of all parts."""
        return sum(part.size + len(part.content_id) for part in self.parts)


class AttachmentManager(Protocol):
    """The pieces of parts."""

    def write(self, identifier: str, part: int, pieces: Iterable[bytes]) -> int:
        """Insert the content of a new part. The row that names it must be inserted in the same transaction.

        :param identifier: `Attachments.id`.
        :param part: the place in `Attachments.parts`.
        :param pieces: any number of them, of any length; one is in memory at a time.
        :returns: the length of the content in bytes.
        """

    def read(self, attachments: Attachments, part: int) -> Iterator[bytes]:
        """The content of a part, in pieces of at most `PIECE` bytes. Each is read when it is asked for.

        :raises StorageError: while iterating: the content is damaged, or was removed with its message.
        """

    def piece(self, attachments: Attachments, part: int, number: int) -> bytes:
        """One piece of a part; pieces are counted from 0. ``b""`` = the content ends before it.

        :raises StorageError: as for `read`.
        """


def rechunked(pieces: Iterable[bytes], size: int = PIECE) -> Iterator[bytes]:
    """The same bytes in pieces of exactly ``size`` bytes; only the last one may be shorter."""
    waiting = bytearray()
    for piece in pieces:
        view = memoryview(piece)
        for start in range(0, len(view), size):
            waiting += view[start : start + size]
            if len(waiting) >= size:
                yield bytes(waiting[:size])
                del waiting[:size]
    if waiting:
        yield bytes(waiting)


def pieces_of(piece: Callable[[int], bytes]) -> Iterator[bytes]:
    """The pieces of a part, each read when it is asked for.

    :param piece: returns the piece of a number; ``b""`` = the content ends before it.
    """
    for number in count():
        found = piece(number)
        if not found:
            return
        yield found


def piece_length(size: int, number: int) -> int:
    """The length of a piece of a part with ``size`` bytes; 0 = the content ends before it."""
    return max(0, min(PIECE, size - number * PIECE))
