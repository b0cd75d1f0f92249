"""The steps of a message's way, and how a link recognises each: by patterns in the bytes of one connection."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Moment(enum.Enum):
    """When a fault is set, relative to a step."""

    BEFORE = "before"
    #: Half of the bytes have passed; a large message takes `Scenario.during` seconds.
    DURING = "during"
    #: It has passed, and its reply has not.
    AFTER = "after"


class Way(enum.Enum):
    """A direction on a link, seen from the side that connects."""

    REQUEST = "request"
    REPLY = "reply"


@dataclass(frozen=True, slots=True)
class Pattern:
    """Bytes in one direction. ``{branch}`` and ``{number}`` stand for a branch's key and the number of its message."""

    text: str
    way: Way = Way.REQUEST

    def bytes_for(self, branch: str, number: int) -> bytes:
        return self.text.replace("{branch}", branch).replace("{number}", str(number)).encode()


@dataclass(frozen=True, slots=True)
class Step:
    """One edge of the tree: what is held when its patterns have been seen on one connection, one after the other."""

    name: str
    link: str
    #: Empty = the next new connection.
    patterns: tuple[Pattern, ...] = ()
    #: The patterns name the last message of the branch; otherwise the second.
    last: bool = False
    #: Only branches whose messages are answered have it.
    answered: bool = False
    #: Its bytes contain the message, so that a large one takes time.
    carries_body: bool = False

    def number(self, count: int) -> int:
        """The number of the message that the patterns name, of so many: an even one, which does not expire."""
        return count // 2 * 2 if self.last else 2

    @property
    def moments(self) -> tuple[Moment, ...]:
        return tuple(Moment) if self.patterns else (Moment.BEFORE, Moment.AFTER)


MARKER = Pattern("{branch}#{number};")
#: The reply to a message. Of those that are sent at once, that to the last one has the acknowledgement.
REPLIED = Pattern("HTTP/1.1 2", Way.REPLY)
COMMIT = Pattern("COMMIT")

#: A program reads the message from its database.
READ = Pattern("{branch}#{number};", Way.REPLY)

_STORED_BY_CLIENT = (
    Step("send", "client-db", (Pattern("/* send {branch} {number}; */"),)),
    Step("commit", "client-db", (Pattern("/* send {branch} {number}; */"), COMMIT)),
)
_HANDLED = (
    Step("handle", "server-db", (Pattern("/* handle {branch} {number}; */"),)),
    Step("consume", "server-db", (Pattern("/* handle {branch} {number}; */"), COMMIT)),
)


_ACKNOWLEDGED = Step("acknowledge", "there", (MARKER, REPLIED), last=True)
_THERE = (
    Step("connect", "there"),
    Step("create-sequence", "there", (Pattern("CreateSequence>"),)),
    Step("receive", "there", (MARKER,), carries_body=True),
)

#: The steps of Mercury's built-in programs, in the order in which a message passes them.
MERCURY_STEPS = (
    *_STORED_BY_CLIENT,
    *_THERE,
    Step("store", "server-db", (MARKER, COMMIT)),
    _ACKNOWLEDGED,
    *_HANDLED,
    Step("answer", "back", (MARKER,), answered=True),
    Step("settle", "client-db", (Pattern("/* settle {branch} {number}; */"), COMMIT), answered=True),
)
#: And a transaction of the active server, in which no message takes part: its next row of `trial_members`.
PAIR_STEPS = (*MERCURY_STEPS, Step("write", "server-db", (Pattern("/* write "),)))
#: With a relay between client and server.
RELAY_STEPS = (
    *_STORED_BY_CLIENT,
    *_THERE,
    Step("store", "relay-db", (MARKER, COMMIT)),
    _ACKNOWLEDGED,
    Step("relay", "relay-db", (READ, COMMIT)),
    # The messages of all branches are of one client, so they are in one sequence: it is created before them.
    Step("onward-connect", "onward"),
    Step("onward-receive", "onward", (MARKER,), carries_body=True),
    Step("onward-store", "server-db", (MARKER, COMMIT)),
    Step("onward-acknowledge", "onward", (MARKER, REPLIED), last=True),
    *_HANDLED,
)
#: With a stage in front of the server's store, which is a file: what is stored there is no step.
STAGE_STEPS = (
    *_STORED_BY_CLIENT,
    *_THERE,
    _ACKNOWLEDGED,
    Step("move", "server-db", (MARKER, COMMIT)),
    *_HANDLED,
)
