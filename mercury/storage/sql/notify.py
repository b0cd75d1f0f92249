"""Notifies other processes of commits: LISTEN and NOTIFY of PostgreSQL (decision 18).

A notification is not part of the transaction that it announces: a prepared transaction cannot contain one, and
PostgreSQL lets the commits of transactions with one wait for each other. An application's commit sends it in the same
round trip, just behind the commit (`Notifier.claim`), unless one was sent a moment ago. A separate thread sends the
rest, one for several commits, and what is left when the process ends. If a crash loses notifications, the other
processes find the work by polling.
"""

from __future__ import annotations

import atexit
import logging
import math
import select
import threading
import time
import uuid
from collections.abc import Callable
from typing import NamedTuple

import psycopg
from psycopg import sql
from psycopg.pq.abc import PGconn
from sqlalchemy import URL

from mercury.storage.api import Topic
from mercury.storage.outages import OUTAGE_PAUSES
from mercury.storage.sql.new_work import NOTHING, NewWork
from mercury.storage.sql.silence import limits_of_silence

log = logging.getLogger("mercury.storage")

#: The name of the channel; all stores of one database share it.
CHANNEL = "mercury"
#: Shortest interval between two notifications in seconds: one notification covers many commits.
NOTIFICATION_WINDOW = 0.01
#: Seconds after a notification for which the thread leaves what waits to the next commit, which announces it in its own
#: round trip.
LEFT_TO_COMMITS = 1.5 * NOTIFICATION_WINDOW
#: Seconds between two checks of the waiting thread whether it must end.
POLL_INTERVAL = 0.5

OnNotification = Callable[[NewWork], None]


class Announcement(NamedTuple):
    """A notification that a transaction sends behind its commit."""

    #: The statement.
    text: str
    #: How often work was added to what waits, when the notification was claimed.
    added: int


class Notifier:
    """Sends and receives notifications of one store. Each thread starts at its first use.

    :param url: the store's PostgreSQL database.
    :param notify: called with the work that commits of other processes have made.
    :param monotonic: returns the time of a monotonic clock, in seconds.
    """

    def __init__(self, url: URL, notify: OnNotification, monotonic: Callable[[], float] = time.monotonic) -> None:
        # The URL is parsed by SQLAlchemy, as for the store's engine: the driver parses some texts differently, e.g.
        # blanks.
        _, self._address = url.get_dialect()().create_connect_args(url)
        self._on_notification = notify
        self._monotonic = monotonic
        self._me = uuid.uuid4().hex[:12]
        self._closing = threading.Event()
        self._mutex = threading.Lock()
        #: Notified when there is work to announce, if the sender waits for that, and when it must end.
        self._wakes_sender = threading.Condition(self._mutex)
        self._sender: threading.Thread | None = None
        self._listener: threading.Thread | None = None
        #: Work that no notification has announced, and how often some was added.
        self._waiting = NOTHING
        self._added = 0
        self._sender_waits = False
        #: The time of the last notification, in seconds.
        self._sent = -math.inf

    def claim(self, work: NewWork) -> Announcement | None:
        """The notification of work, and of what waits for one, which the caller sends now; ``None`` = another was sent
        a moment ago, and this work is to be passed to `send`."""
        with self._mutex:
            now = self._monotonic()
            if now < self._sent + NOTIFICATION_WINDOW or self._closing.is_set():
                return None
            self._sent = now
            work, added = work | self._waiting, self._added
        return Announcement(f"notify {CHANNEL}, '{self._payload(work)}'", added)

    def announced(self, announcement: Announcement) -> None:
        """A notification was sent: what had waited for one when it was claimed need not wait any longer."""
        with self._mutex:
            if self._added == announcement.added:  # otherwise all of it is announced, some of it again
                self._waiting = NOTHING

    def send(self, work: NewWork) -> None:
        """Notify the other processes. Returns immediately; `close` and the end of the process wait for what is sent."""
        with self._mutex:
            if work != self._waiting:
                self._waiting |= work
            self._added += 1
            if self._sender_waits:
                self._wakes_sender.notify()
            if self._sender is None and not self._closing.is_set():
                self._sender = threading.Thread(target=self._send, name="mercury-notify", daemon=True)
                self._sender.start()
                atexit.register(self._end_sender)

    def listen(self) -> None:
        """Start to receive notifications."""
        with self._mutex:
            if self._listener is None and not self._closing.is_set():
                self._listener = threading.Thread(target=self._listen, name="mercury-listen", daemon=True)
                self._listener.start()

    def close(self) -> None:
        """End both threads. If the database does not take what is left, other processes find the work by polling."""
        self._end_sender()
        atexit.unregister(self._end_sender)
        with self._mutex:
            listener = self._listener
        if listener is not None and listener is not threading.current_thread():
            listener.join(2 * POLL_INTERVAL)

    def _end_sender(self) -> None:
        with self._mutex:  # a thread that is made at this moment is started first: no other can be joined
            self._closing.set()
            self._wakes_sender.notify()
            sender = self._sender
        if sender is not None and sender is not threading.current_thread():
            sender.join(2 * POLL_INTERVAL)

    def _connect(self) -> psycopg.Connection:
        own = {"autocommit": True, "application_name": "mercury-notify"}
        return psycopg.connect(**{**limits_of_silence(self._address), **self._address, **own})

    def _send(self) -> None:
        connection: psycopg.Connection | None = None
        failures = 0
        while True:
            work = self._together()
            if not work:
                break
            try:
                connection = connection or self._connect()
                connection.execute("select pg_notify(%s, %s)", (CHANNEL, self._payload(work)))
                failures = 0
            except psycopg.Error as error:
                log.debug("a notification was not sent, other processes will poll: %s", error)
                if connection is not None:
                    connection.close()
                    connection = None
                failures += 1
                self._closing.wait(OUTAGE_PAUSES.delay(failures, 0.0))
        if connection is not None:
            connection.close()

    def _payload(self, work: NewWork) -> str:
        return f"{self._me}:{work.text()}"

    def _together(self) -> NewWork:
        """The work to announce next; none when the thread must end."""
        with self._mutex:
            while True:
                if not self._waiting:
                    if self._closing.is_set():
                        return self._waiting
                    self._sender_waits = True
                    self._wakes_sender.wait()
                    self._sender_waits = False
                elif not self._closing.is_set() and (pause := self._sent + LEFT_TO_COMMITS - self._monotonic()) > 0:
                    self._wakes_sender.wait(pause)
                else:
                    work, self._waiting = self._waiting, NOTHING
                    self._sent = self._monotonic()
                    return work

    def _listen(self) -> None:
        interrupted, failures = False, 0
        while not self._closing.is_set():
            try:
                with self._connect() as connection:
                    connection.execute(sql.SQL("listen {}").format(sql.Identifier(CHANNEL)))
                    failures = 0
                    if interrupted:
                        self._on_notification(NewWork(frozenset(Topic)))  # for notifications that were missed meanwhile
                    for notification in connection.notifies(timeout=0):  # those that came with the answer
                        self._received(notification.payload)
                    self._receive(connection.pgconn)
            except psycopg.Error as error:
                interrupted, failures = True, failures + 1
                log.debug("notifications are interrupted: %s", error)
                self._closing.wait(OUTAGE_PAUSES.delay(failures, 0.0))

    def _receive(self, libpq: PGconn) -> None:
        """Receive notifications until the end of the thread.

        psycopg's generator of them takes a tenth of a millisecond for one that comes alone, which every worker waits
        for.

        :raises psycopg.Error: the connection is lost.
        """
        poll = select.poll()
        poll.register(libpq.socket, select.POLLIN)
        while not self._closing.is_set():
            while (notification := libpq.notifies()) is not None:
                self._received(notification.extra.decode())
            if poll.poll(1000 * POLL_INTERVAL):
                libpq.consume_input()

    def _received(self, payload: str) -> None:
        sender, _, text = payload.partition(":")
        work = NewWork.read(text)
        if sender != self._me and work:
            self._on_notification(work)
