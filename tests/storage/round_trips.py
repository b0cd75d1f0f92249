"""A relay before a PostgreSQL that counts how often a client waits for it."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import URL, make_url

#: In the first packet of a connection for notifications.
BESIDE = b"mercury-notify"


class Relay:
    """Passes bytes on, and counts the round trips: each time that a client sends after the server has.

    The connections of threads that only notify and listen are not counted: nothing waits for them.
    """

    def __init__(self, database: URL) -> None:
        self._database = database
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._mutex = threading.Lock()
        self._count = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        host, port = self._listener.getsockname()
        # Encrypted or with a GSS handshake the count of the first connection would be another; neither is needed here.
        options = {"sslmode": "disable", "gssencmode": "disable"}
        query = {name: value for name, value in self._database.query.items() if name not in ("host", "port")}
        given = self._database.set(host=host, port=port, query=query | options)
        return given.render_as_string(hide_password=False)

    @contextmanager
    def counted(self) -> Iterator[list[int]]:
        """The list gets the number of round trips of the block."""
        found: list[int] = []
        with self._mutex:
            before = self._count
        yield found
        with self._mutex:
            found.append(self._count - before)

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def _connect(self) -> socket.socket:
        database = self._database
        folder = str(database.query.get("host", ""))
        if not folder.startswith("/"):
            return socket.create_connection((database.host or folder, database.port or 5432))
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(f"{folder}/.s.PGSQL.{database.query.get('port', database.port or 5432)}")
        return connection

    def _pass(self, client: socket.socket) -> None:
        with client, self._connect() as server, selectors.DefaultSelector() as waits, contextlib.suppress(OSError):
            waits.register(client, selectors.EVENT_READ, server)
            waits.register(server, selectors.EVENT_READ, client)
            answered, aside = True, None
            while True:
                for key, _ in waits.select():
                    source = key.fileobj
                    assert isinstance(source, socket.socket)
                    part = source.recv(65536)
                    if not part:
                        return
                    if aside is None:
                        aside = BESIDE in part  # the first packet names the application
                    if source is client and answered and not aside:
                        with self._mutex:
                            self._count += 1
                    answered = source is server
                    key.data.sendall(part)


@contextmanager
def relay(url: str) -> Iterator[Relay]:
    """A relay before the server of a URL."""
    made = Relay(make_url(url))
    try:
        yield made
    finally:
        made.close()
