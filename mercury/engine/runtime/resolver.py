"""Resolves host names within a deadline, which the system's resolver does not have."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from mercury.engine.runtime.http_reply import left

#: The result type of `socket.getaddrinfo`.
Addresses = Sequence[tuple[int, int, int, str, Any]]


class Resolver:
    """Resolves host names, with one query at a time for each, so that a resolver that hangs blocks one thread for a
    host.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._looking: dict[tuple[str, int], Future[Addresses]] = {}

    def addresses(self, host: str, port: int, deadline: float) -> Addresses:
        """The addresses of a host.

        :param deadline: by the monotonic clock.
        :raises TimeoutError: the resolver has not answered by then.
        :raises OSError: the host has no address.
        """
        with contextlib.suppress(socket.gaierror):  # not an IP address
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        about = (host, port)
        with self._mutex:
            found = self._looking.get(about)
            begins = found is None
            if found is None:
                found = self._looking[about] = Future()
        if begins:
            # A daemon, because a thread in the resolver cannot be interrupted, and the process must be able to end.
            threading.Thread(target=self._look, args=(about, found), name="mercury-names", daemon=True).start()
        return found.result(left(deadline))

    def _look(self, about: tuple[str, int], found: Future[Addresses]) -> None:
        try:
            addresses = socket.getaddrinfo(*about, type=socket.SOCK_STREAM)
        except Exception as error:
            self._forget(about)
            found.set_exception(error)
        else:
            self._forget(about)
            found.set_result(addresses)

    def _forget(self, about: tuple[str, int]) -> None:
        with self._mutex:
            del self._looking[about]
