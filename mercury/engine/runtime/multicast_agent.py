"""Members that answer questions to a multicast group, and the question of a client (decision 86).

A question is a JSON object in a datagram of `QUESTION_BYTES`, filled up with blanks: an answer is never longer, so
that a question with a forged sender address causes no more traffic there than it is itself. An answer repeats the
question's id, so only hosts that have received the question can answer it.
"""

from __future__ import annotations

import json
import logging
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable

from mercury.engine.members import LONGEST
from mercury.errors import ConfigurationError, TransportError
from mercury.statemachine.failover import AnnouncedMembers
from mercury.statemachine.token_bucket import TokenBucket

log = logging.getLogger("mercury.runtime")

#: Bytes of a question, and of an answer at most: they pass every network in one piece.
QUESTION_BYTES = 1200
#: Seconds that a question takes, and its parts: it is asked at the beginning of each, because datagrams get lost.
LIFETIME, TIMES = 1.2, 3
#: The most datagrams that are read for one question.
MOST_READ = 1024
#: The most answers of a member a second.
MOST_ANSWERS = 50.0
#: Datagrams stay in the local network.
TTL = 1


def look_up(wanted: AnnouncedMembers, chance: Callable[[], float]) -> tuple[str, ...]:
    """The URLs of the members that answer now, in the order of their answers. They may be anything.

    :param chance: returns random numbers, 0 <= n < 1.
    :raises TransportError: no member answers, or nothing can be sent.
    """
    asked = f"{int(chance() * 2**53):014x}"
    question = json.dumps({"question": "members", "group": wanted.group, "id": asked}).encode().ljust(QUESTION_BYTES)
    found: dict[str, None] = {}
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.bind((wanted.interface or "", 0))
            client.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, TTL)
            if wanted.interface is not None:
                interface = socket.inet_aton(wanted.interface)
                client.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface)
            left = MOST_READ
            for _ in range(TIMES):
                client.sendto(question, _address_of(wanted.name))
                until = time.monotonic() + LIFETIME / TIMES
                while left and (timeout := until - time.monotonic()) > 0:
                    client.settimeout(timeout)
                    try:
                        answer = _read(client.recv(QUESTION_BYTES + 1), wanted.group, asked)
                    except TimeoutError:
                        break
                    left -= 1
                    address = answer.get("address")
                    if isinstance(address, str) and len(address) <= LONGEST:
                        found[f"{address}{wanted.path}"] = None
    except OSError as error:
        raise TransportError(f"multicast://{wanted.name}: {error}") from error
    if not found:
        raise TransportError(f"multicast://{wanted.name}: no member answers")
    return tuple(found)


def check_interface(address: str) -> None:
    """Whether the host has an interface with this IPv4 address.

    :raises OSError: it has not.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((address, 0))


class MulticastMember:
    """Answers questions for members with the address of this process, in a thread of its own.

    :param name: the multicast group, ``address:port``.
    :param address: where clients reach this process, ``http://host:port``.
    :param clock: seconds of a clock that never goes back.
    :raises ConfigurationError: there is no such interface, or the address is too long.
    """

    def __init__(
        self, name: str, group: str, address: str, interface: str | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._group = group
        self._address = address
        self._clock = clock
        self._bucket = TokenBucket(MOST_ANSWERS, clock())
        if len(self._answer("0" * 32)) > QUESTION_BYTES:
            raise ConfigurationError("failover.public_address: it is too long for discovery.multicast")
        host, port = _address_of(name)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # other members on this host
            # Bound to the group, so that nothing else comes in; Windows binds to addresses of its own only.
            self._socket.bind((host if os.name == "posix" else "", port))
            joined = socket.inet_aton(host) + socket.inet_aton(interface or "0.0.0.0")  # noqa: S104
            self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joined)
            self._socket.setblocking(False)
        except OSError as error:
            self._socket.close()
            raise ConfigurationError(
                f"discovery.multicast: {name} at {interface or 'any interface'}: {error}"
            ) from error
        self._woken, self._wake = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="mercury-multicast", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Answer no more. Its thread has ended afterwards."""
        self._wake.close()
        self._thread.join()
        self._woken.close()
        self._socket.close()

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if self._woken in ready:
                    return
                try:
                    datagram, peer = self._socket.recvfrom(QUESTION_BYTES + 1)
                    answer = self.answer(datagram)
                    if answer is not None:
                        self._socket.sendto(answer, peer)
                except OSError as error:  # one client is not reached, for example
                    log.debug("a question for members is not answered: %s", error)

    def answer(self, datagram: bytes) -> bytes | None:
        """The answer to a datagram; ``None`` = there is none."""
        if len(datagram) != QUESTION_BYTES or not self._bucket.available(self._clock()):
            return None
        question = _read(datagram, self._group, None)
        asked = question.get("id")
        if question.get("question") != "members" or not isinstance(asked, str) or not 0 < len(asked) <= 32:
            return None
        self._bucket.spend(1, self._clock())
        found = self._answer(asked)
        return found if len(found) <= QUESTION_BYTES else None

    def _answer(self, asked: str) -> bytes:
        return json.dumps({"address": self._address, "group": self._group, "id": asked}).encode()


def _read(datagram: bytes, group: str, asked: str | None) -> dict[str, object]:
    """What a datagram says to a group, and in answer to a question; empty = nothing."""
    try:
        found = json.loads(datagram)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict) or found.get("group") != group or asked not in (None, found.get("id")):
        return {}
    return found


def _address_of(name: str) -> tuple[str, int]:
    host, _, port = name.rpartition(":")
    return host, int(port)
