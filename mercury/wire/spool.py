"""A message in a temporary file, of which only pieces are in memory (decision 36)."""

from __future__ import annotations

import tempfile
from typing import IO

#: The most bytes that a search has in memory.
WINDOW = 256 * 1024


class Spool:
    """The bytes of one message in a file without a name, which the operating system removes with the process.

    Its methods are those that `multipart.split` needs. One thread uses it at a time.

    :raises OSError: the file cannot be written or read, for example because the disk is full.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="mercury-")  # noqa: SIM115  closed by `close`
        self._size = 0

    def write(self, piece: bytes) -> None:
        """Append bytes."""
        self._file.seek(self._size)
        self._file.write(piece)
        self._size += len(piece)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, place: slice) -> bytes:
        start, end, _ = place.indices(self._size)
        self._file.seek(start)
        return self._file.read(max(0, end - start))

    def find(self, sought: bytes, start: int = 0, end: int | None = None) -> int:
        """As ``bytes.find``, with at most `WINDOW` bytes in memory."""
        start, end, _ = slice(start, end).indices(self._size)
        while start < end:
            window = self[start : min(start + WINDOW, end)]
            found = window.find(sought)
            if found >= 0:
                return start + found
            if start + len(window) >= end:
                break
            start += len(window) - len(sought) + 1  # the bytes may begin at the end of this window
        return -1

    def close(self) -> None:
        """Remove the file."""
        self._file.close()
