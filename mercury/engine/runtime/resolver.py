"""The addresses of hosts, within a deadline: the system's resolver has none."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from mercury.engine.runtime.http_reply import left

#: What `socket.getaddrinfo` finds.
Addresses = Sequence[tuple[int, int, int, str, Any]]


class Resolver:
    """Looks hosts up, each once at a time: a resolver that does not answer holds one thread for each host.

    Safe to be used by many threads.
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
        with contextlib.suppress(socket.gaierror):  # it is a name
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        about = (host, port)
        with self._mutex:
            found = self._looking.get(about)
            begins = found is None
            if found is None:
                found = self._looking[about] = Future()
        if begins:
            # A thread that waits for the resolver cannot be ended: it must not keep the process from its end.
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
