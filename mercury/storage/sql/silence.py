"""When a connection counts as lost although neither side has closed it: the server is cut off, or has no power.

The operating system would wait for two hours if a process only listens, and for a quarter of one if it has sent
something.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from types import MappingProxyType

#: Parameters of libpq: seconds without a word before the server's machine is asked, seconds between two such questions,
#: and how many are not answered; milliseconds that what was sent is not acknowledged. A statement may take longer: the
#: machine answers meanwhile. Unix sockets need none of it.
LIMITS: Mapping[str, int] = MappingProxyType(
    {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000}
)


def limits_of_silence(given: Container[str]) -> dict[str, int]:
    """The parameters of a connection.

    :param given: those that its URL sets.
    """
    return {name: value for name, value in LIMITS.items() if name not in given}
