"""The size of stored messages, in bytes, as limits count it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from mercury.statemachine.messages import EndpointReference
from mercury.storage.attachments import Attachments

T = TypeVar("T")
#: More than any message has.
ANY_BYTES = 2**62

#: Bytes that every row counts beside its contents, or any number of empty messages would count as zero.
ROW = 256
#: The same for a dead letter, which stays until an operator removes it.
LETTER = 1024
#: The least that a response in a sequence counts: so a limit in bytes also bounds how many small ones one peer leaves.
#: They all become dead letters, or move to another sequence, in one transaction when their sequence ends. Replies
#: outside a sequence are retained for an hour, and are neither dead letters nor moved.
RESPONSE = 4096

#: Characters that take two bytes in a JSON text.
_ESCAPED = (b'"', b"\\", b"\n", b"\t", b"\r")


def stored_size(
    payload: bytes,
    headers: Iterable[bytes],
    endpoints: Iterable[EndpointReference | None],
    names: Iterable[str | None],
    parameters: Iterable[bytes] = (),
) -> int:
    """Bytes of one message: its contents as the peer wrote them, and `ROW`.

    :param names: count one byte per character.
    :param parameters: reference parameters, stored as JSON like those of ``endpoints``.
    """
    size = ROW + len(payload)
    for header in headers:
        size += len(header)
    for parameter in parameters:
        size += _escaped(parameter)
    for endpoint in endpoints:
        if endpoint is not None:
            size += len(endpoint.address)
            for parameter in endpoint.parameters:
                size += _escaped(parameter)
    for name in names:
        if name is not None:
            size += len(name)
    return size


def attached_size(attachments: Attachments | None) -> int:
    """Bytes of the binary parts of a message that are stored in pieces."""
    return 0 if attachments is None else attachments.size


def within(rows: Iterable[T], size: Callable[[T], int], most_bytes: int, taken: int = 0) -> Iterator[T]:
    """The rows up to the first that does not fit; the first row of any size fits if nothing is taken.

    :param taken: bytes of the rows before these.
    """
    for row in rows:
        if (bytes_of_row := size(row)) + taken > most_bytes and taken:
            return
        taken += bytes_of_row
        yield row


def fitting(sizes: Iterable[int], most_bytes: int, taken: int = 0) -> int:
    """How many rows of these sizes `within` returns."""
    count = 0
    for size in sizes:
        taken += size
        if taken > most_bytes and taken > size:
            break
        count += 1
    return count


def _escaped(text: bytes) -> int:
    return len(text) + sum(map(text.count, _ESCAPED))
