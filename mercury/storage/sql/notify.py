"""Notifies other processes of commits: LISTEN and NOTIFY of PostgreSQL (decision 18).

A notification is not part of the transaction that it announces: a prepared transaction cannot contain one. A separate
thread sends it after the commit, one for several commits. If a crash loses notifications, the other processes find the
work by polling.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
import uuid
from collections.abc import Callable

import psycopg
from psycopg import sql
from sqlalchemy import URL

from mercury.storage.api import Topic
from mercury.storage.outages import PAUSES

log = logging.getLogger("mercury.storage")

#: The name of the channel; all stores of one database share it.
CHANNEL = "mercury"
#: Shortest interval between two notifications in seconds: one notification covers many commits.
NOTIFICATION_WINDOW = 0.01
#: Seconds between two checks of the waiting thread whether it must end.
POLL_INTERVAL = 0.5

OnNotification = Callable[[frozenset[Topic]], None]


class Notifier:
    """Sends and receives notifications of one store. Each thread starts at its first use.

    :param url: the store's PostgreSQL database.
    :param notify: called with the kinds of work that other processes have committed.
    """

    def __init__(self, url: URL, notify: OnNotification) -> None:
        # The URL is parsed by SQLAlchemy, as for the store's engine: the driver parses some texts differently, e.g.
        # blanks.
        _, self._address = url.get_dialect()().create_connect_args(url)
        self._on_notification = notify
        self._me = uuid.uuid4().hex[:12]
        self._topics: queue.SimpleQueue[frozenset[Topic] | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._mutex = threading.Lock()
        self._sender: threading.Thread | None = None
        self._listener: threading.Thread | None = None
        #: The time of the last notification on the monotonic clock, in seconds.
        self._sent = 0.0

    def send(self, topics: frozenset[Topic]) -> None:
        """Notify the other processes. Returns immediately."""
        self._topics.put(topics)
        with self._mutex:
            if self._sender is None and not self._closing.is_set():
                self._sender = threading.Thread(target=self._send, name="mercury-notify", daemon=True)
                self._sender.start()

    def listen(self) -> None:
        """Start to receive notifications."""
        with self._mutex:
            if self._listener is None and not self._closing.is_set():
                self._listener = threading.Thread(target=self._listen, name="mercury-listen", daemon=True)
                self._listener.start()

    def close(self) -> None:
        """End both threads; other processes find unsent work by polling."""
        self._closing.set()
        self._topics.put(None)
        with self._mutex:  # a thread that is made at this moment is started first: no other can be joined
            threads = self._sender, self._listener
        for thread in threads:
            if thread is not None and thread is not threading.current_thread():
                thread.join(2 * POLL_INTERVAL)

    def _connect(self) -> psycopg.Connection:
        return psycopg.connect(**{**self._address, "autocommit": True, "application_name": "mercury-notify"})

    def _send(self) -> None:
        connection: psycopg.Connection | None = None
        failures = 0
        while True:
            topics = self._together()
            if topics is None:
                break
            payload = f"{self._me}:{','.join(sorted(topic.value for topic in topics))}"
            try:
                connection = connection or self._connect()
                connection.execute("select pg_notify(%s, %s)", (CHANNEL, payload))
                failures = 0
            except psycopg.Error as error:
                log.debug("a notification was not sent, other processes will poll: %s", error)
                if connection is not None:
                    connection.close()
                    connection = None
                failures += 1
                self._closing.wait(PAUSES.delay(failures, 0.0))
        if connection is not None:
            connection.close()

    def _together(self) -> frozenset[Topic] | None:
        topics = self._topics.get()
        if topics is None or self._closing.wait(max(0.0, self._sent + NOTIFICATION_WINDOW - time.monotonic())):
            return None
        self._sent = time.monotonic()
        while True:
            try:
                more = self._topics.get_nowait()
            except queue.Empty:
                return topics
            if more is None:
                return None
            topics |= more

    def _listen(self) -> None:
        interrupted, failures = False, 0
        while not self._closing.is_set():
            try:
                with self._connect() as connection:
                    connection.execute(sql.SQL("listen {}").format(sql.Identifier(CHANNEL)))
                    failures = 0
                    if interrupted:
                        self._on_notification(frozenset(Topic))  # for notifications that were missed meanwhile
                    while not self._closing.is_set():
                        for notification in connection.notifies(timeout=POLL_INTERVAL):
                            self._received(notification.payload)
            except psycopg.Error as error:
                interrupted, failures = True, failures + 1
                log.debug("notifications are interrupted: %s", error)
                self._closing.wait(PAUSES.delay(failures, 0.0))

    def _received(self, payload: str) -> None:
        sender, _, names = payload.partition(":")
        known = {topic.value: topic for topic in Topic}
        topics = frozenset(known[name] for name in names.split(",") if name in known)
        if sender != self._me and topics:
            self._on_notification(topics)
