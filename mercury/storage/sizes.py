"""What a message that waits for the application takes in a store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mercury.statemachine.messages import EndpointReference

#: Bytes of a row beside what its peer has written: so that any number of empty messages is not for nothing.
ROW = 256
#: The same of a dead letter, which stays until an operator has looked at it.
LETTER = 1024


def inbound_size(
    payload: bytes,
    headers: Sequence[bytes],
    endpoints: Iterable[EndpointReference | None],
    names: Iterable[str | None],
) -> int:
    """Bytes of one message: all that its peer has written in it, and `ROW`. Names count by their characters."""
    size = ROW + len(payload)
    for header in headers:
        size += len(header)
    for endpoint in endpoints:
        if endpoint is not None:
            size += len(endpoint.address)
            for parameter in endpoint.parameters:
                size += len(parameter)
    for name in names:
        if name is not None:
            size += len(name)
    return size
