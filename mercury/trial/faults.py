"""The faults, each with what it is set on and what becomes of the bytes that were held meanwhile."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from types import MappingProxyType


class Fault(enum.Enum):
    """What is done to a deployment."""

    #: Orderly: SIGTERM, or the program's own command; then the program is started again.
    STOP = "stop"
    #: SIGKILL; then the program is started again.
    KILL = "kill"
    #: SIGSTOP for longer than the lease; then SIGCONT.
    PAUSE = "pause"
    #: What it writes to files fails for a while, as on a full disk.
    DISK_FULL = "disk-full"
    #: All connections of a link are reset, and new ones refused for a while.
    CUT = "cut"
    #: What is sent does not arrive for a while; then the connections are reset.
    CUT_REQUESTS = "cut-requests"
    #: What is answered does not arrive for a while; then the connections are reset.
    CUT_REPLIES = "cut-replies"
    #: An orderly stop of the database server, which ends all sessions; then it is started again.
    DATABASE_STOP = "database-stop"
    #: SIGKILL of the database server; then it is started again and recovers.
    DATABASE_KILL = "database-kill"
    #: SIGKILL of the primary, and its synchronous standby is promoted; then the former primary becomes the standby.
    DATABASE_FAILOVER = "database-failover"
    #: The same with an orderly stop of the primary.
    DATABASE_SWITCHOVER = "database-switchover"
    #: SIGKILL of the standby of the database, so that commits wait; then it is started again.
    STANDBY_KILL = "standby-kill"
    #: A command of the scenario, for example one that fills a disk; then the one that undoes it.
    COMMAND = "command"


class Subject(enum.Enum):
    """What a fault is set on."""

    PROGRAM = "program"
    LINK = "link"
    DATABASE = "database"
    COMMAND = "command"


class Release(enum.Enum):
    """When the bytes that a link holds at a step go on, if their connection still exists."""

    #: When the fault is set.
    SET = "set"
    #: When it is undone.
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class Rule:
    """How a fault is set."""

    subject: Subject
    release: Release
    explained: str


RULES = MappingProxyType(
    {
        Fault.STOP: Rule(Subject.PROGRAM, Release.SET, "stopped in an orderly way, and started again"),
        Fault.KILL: Rule(Subject.PROGRAM, Release.SET, "killed, and started again"),
        Fault.PAUSE: Rule(Subject.PROGRAM, Release.UNDONE, "paused for longer than its lease, and woken"),
        Fault.DISK_FULL: Rule(Subject.PROGRAM, Release.SET, "kept from writing to files, as by a full disk"),
        Fault.CUT: Rule(Subject.LINK, Release.SET, "cut in both directions"),
        Fault.CUT_REQUESTS: Rule(Subject.LINK, Release.SET, "cut in the direction of requests"),
        Fault.CUT_REPLIES: Rule(Subject.LINK, Release.SET, "cut in the direction of replies"),
        Fault.DATABASE_STOP: Rule(Subject.DATABASE, Release.SET, "stopped in an orderly way, and started again"),
        Fault.DATABASE_KILL: Rule(Subject.DATABASE, Release.SET, "killed, and started again"),
        Fault.DATABASE_FAILOVER: Rule(Subject.DATABASE, Release.SET, "killed, and its standby promoted"),
        Fault.DATABASE_SWITCHOVER: Rule(
            Subject.DATABASE, Release.SET, "stopped in an orderly way, its standby promoted"
        ),
        Fault.STANDBY_KILL: Rule(Subject.DATABASE, Release.SET, "without its standby, which is started again"),
        Fault.COMMAND: Rule(Subject.COMMAND, Release.SET, "a command of the scenario"),
    }
)


class Rank(enum.Enum):
    """Which member of a side a fault is set on."""

    #: The one that serves; where several do, the one whose step it is, if the link can tell.
    ACTIVE = "active"
    #: Another one: it waits, or it serves too.
    STANDBY = "standby"


@dataclass(frozen=True, slots=True)
class Action:
    """A fault on one thing: a program by its side and rank, a link, the database, or a command by its name."""

    fault: Fault
    target: str
    rank: Rank | None = None

    def __str__(self) -> str:
        rank = "" if self.rank is None else f"-{self.rank.value}"
        return f"{self.fault.value}:{self.target}{rank}"
