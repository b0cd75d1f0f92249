"""The pieces of binary parts in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Protocol

from mercury.errors import StorageError
from mercury.storage.attachments import Attachments, piece_length, pieces_of, rechunked
from mercury.storage.memory.committed import Committed


class Naming(Protocol):
    """A row that may have attachments."""

    @property
    def attachments(self) -> Attachments | None: ...


def names_of(rows: Iterable[Naming]) -> set[str]:
    """`Attachments.id` of the attachments of these rows."""
    return {row.attachments.id for row in rows if row.attachments is not None}


class MemoryAttachments:
    """`AttachmentManager` of one transaction."""

    def __init__(self, committed: Committed) -> None:
        self._mutex = committed.mutex
        self._committed = committed
        #: Identifier, part and pieces, in the order of insertion.
        self.added: list[tuple[str, int, list[bytes]]] = []

    def write(self, identifier: str, part: int, pieces: Iterable[bytes]) -> int:
        content = list(rechunked(pieces))
        self.added.append((identifier, part, content))
        return sum(map(len, content))

    def read(self, attachments: Attachments, part: int) -> Iterator[bytes]:
        return pieces_of(partial(self.piece, attachments, part))

    def piece(self, attachments: Attachments, part: int, number: int) -> bytes:
        if not piece_length(attachments.parts[part].size, number):
            return b""
        for identifier, place, content in self.added:
            if (identifier, place) == (attachments.id, part):
                return content[number]
        with self._mutex:
            parts = self._committed.attachments.get(attachments.id)
        if parts is None:
            raise StorageError(f"part {part} of the attachments {attachments.id} is not in the store any more")
        return parts[part][number]

    def install(self) -> None:
        for identifier, part, content in self.added:
            self._committed.attachments.setdefault(identifier, {})[part] = content
