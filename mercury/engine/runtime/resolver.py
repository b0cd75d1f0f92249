"""Resolves host names in threads of their own: the system's resolver has no deadline and cannot be interrupted."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

#: The result type of `socket.getaddrinfo`.
Addresses = Sequence[tuple[int, int, int, str, Any]]

#: Characters of a host's name in an error.
_SHOWN = 80


class Resolver:
    """Resolves host names, with one query at a time for each, so that a resolver that hangs blocks one thread for a
    host.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._looking: dict[tuple[str, int], Future[Addresses]] = {}

    def addresses(self, host: str, port: int) -> Future[Addresses]:
        """The addresses of a host: immediately if it is an IP address, else when the resolver has answered.

        The future's error is an `OSError` if the host has no address.
        """
        with contextlib.suppress(socket.gaierror):  # not an IP address
            numeric: Future[Addresses] = Future()
            try:
                numeric.set_result(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST))
            except UnicodeError:  # a label that is empty or too long: no name server knows such a name
                numeric.set_exception(OSError(f"{host[:_SHOWN]!r} is no name of a host"))
            return numeric
        about = (host, port)
        with self._mutex:
            found = self._looking.get(about)
            begins = found is None
            if found is None:
                found = self._looking[about] = Future()
        if begins:
            # A daemon, because a thread in the resolver cannot be interrupted, and the process must be able to end.
            threading.Thread(target=self._look, args=(about, found), name="mercury-names", daemon=True).start()
        return found

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
