"""Forwards connections to a port and keeps what clients send: to post the same envelope again."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class Recorder:
    """A context manager; connections are forwarded inside it.

    :param to: the port of the server, on this machine.
    """

    def __init__(self, to: int) -> None:
        self._to = to
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sent: list[bytearray] = []
        self._sockets: list[socket.socket] = [self._listener]

    def __enter__(self) -> Recorder:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
                kept = bytearray()
                self._sent.append(kept)
                self._sockets += [client, server]
                threading.Thread(target=self._forward, args=(client, server, kept), daemon=True).start()
                threading.Thread(target=self._forward, args=(server, client, bytearray()), daemon=True).start()

    @staticmethod
    def _forward(one: socket.socket, other: socket.socket, kept: bytearray) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                kept += data
                other.sendall(data)

    def request(self, part: bytes) -> tuple[str, dict[str, str], bytes]:
        """The path, the headers and the body of the last request with these bytes in its body.

        :raises LookupError: there was none.
        """
        found = None
        for kept in self._sent:
            rest = bytes(kept)
            while b"\r\n\r\n" in rest:
                head, rest = rest.split(b"\r\n\r\n", 1)
                first, *lines = head.decode("latin-1").split("\r\n")
                headers = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                length = next(int(value) for name, value in headers.items() if name.lower() == "content-length")
                body, rest = rest[:length], rest[length:]
                if part in body:
                    found = first.split(" ")[1], headers, body
        if found is None:
            raise LookupError("no such request was recorded")
        return found
