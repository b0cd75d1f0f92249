"""What a scenario says: the programs of a deployment, its links and tables, and what to try."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from mercury.trial.faults import Action, Fault, Rank
from mercury.trial.steps import Moment, Step

#: The URL of a database in the trial's own PostgreSQL.
EMBEDDED = "embedded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A process of the deployment.

    In ``command`` and ``environment`` ``{port}`` stands for a free port, ``{link.NAME}`` for the URL or the address of
    a link, ``{database.NAME}`` for the URL of a database, ``{folder}`` for the trial's folder, ``{python}`` for this
    interpreter.
    """

    name: str
    #: Programs of one side do the same work: ``client``, ``server``, or a name of one's own.
    side: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    #: The path of its HTTP probe: 200 = it serves, another status = it waits; ``None`` = it serves when it runs.
    probe: str | None = None
    #: What stops it in an orderly way; empty = SIGTERM.
    stop: tuple[str, ...] = ()
    #: The command is one of `mercury`, forked from a process that has loaded it: a start takes a tenth of a second.
    forks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTo:
    """A connection between two things, through the trial's proxy: to the programs of a side, or to a database."""

    name: str
    #: The side whose serving members it leads to; ``None`` = it leads to the database.
    side: str | None = None
    #: It leads to the first program of the side that serves, and the others are its backup; otherwise in turns to all.
    backup: bool = False
    #: The side that connects; ``None`` = any. What it has sent waits while it is paused, and nothing of another side.
    sender: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A table, and its columns by their meaning."""

    database: str
    table: str
    #: The key of the branch.
    branch: str = "branch"
    #: 1 to the number of messages of the branch.
    number: str = "number"
    checksum: str | None = "checksum"
    #: The column for the text of a message to send; ``None`` = the program makes the content itself.
    body: str | None = None
    #: The table has the columns of the built-in client: kind, size, way and expires_in.
    describes: bool = False
    #: Grows with every arrival; for the receiver's tables only.
    arrival: str | None = None
    #: When the row was inserted, as a timestamp or in seconds since the epoch; for the receiver's tables only.
    at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """A table of rows that the active member of a pair writes, each with the member's epoch."""

    database: str
    table: str
    #: The columns: the order of the rows, and the epoch, which grows when another member takes over.
    arrival: str = "arrival"
    epoch: str = "epoch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The messages of a branch."""

    name: str = "text"
    kind: str = "text"
    #: Bytes of each message; of a large one, of the message at whose step the fault is set.
    size: int = 300
    large: bool = False
    answered: bool = False
    #: Seconds that every second message may take; such a message may be missing.
    expires_in: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A fault of one's own: a command that sets it and one that undoes it."""

    name: str
    set: tuple[str, ...]
    undo: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A deployment and what to try on it. Times are seconds."""

    name: str
    programs: tuple[Program, ...]
    links: tuple[LinkTo, ...]
    #: The table with what is sent, what has arrived, and the answers.
    sent: Compared
    arrived: Compared
    answers: Compared | None = None
    #: In it no row of a member may come after one of the member that has replaced it.
    members_table: Members | None = None
    #: URLs by name; ``embedded`` = a database in the trial's own PostgreSQL.
    databases: Mapping[str, str]
    #: The trial's PostgreSQL has a synchronous standby.
    standby: bool = False
    #: The databases whose stores must be empty when everything has arrived.
    emptied: tuple[str, ...] = ()
    #: The commands that make the tables, run once; the built-in programs need none.
    prepare: tuple[tuple[str, ...], ...] = ()
    steps: tuple[Step, ...]
    faults: tuple[Fault, ...]
    moments: tuple[Moment, ...] = tuple(Moment)
    commands: Mapping[str, Command] = field(default_factory=lambda: MappingProxyType({}))
    contents: tuple[Content, ...] = (Content(),)
    #: The messages of a branch.
    count: int = 4
    #: One member of each side serves at a time.
    single: bool = False
    #: How long a member that is gone is waited for, so how long a pause must be.
    lease: float = 1.0
    #: The longest time to fail over; ``None`` = any.
    limit: float | None = None
    #: How long a cut lasts, and how long the transmission of a large message.
    cut: float = 1.0
    during: float = 1.0
    #: How long the messages of a branch are waited for.
    patience: float = 30.0
    #: Between two messages of the steady stream; 0 = there is none.
    stream: float = 0.2

    @property
    def sides(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(program.side for program in self.programs))

    @property
    def embedded(self) -> bool:
        """Whether the trial runs a PostgreSQL."""
        return EMBEDDED in self.databases.values()

    def members(self, side: str) -> int:
        return sum(program.side == side for program in self.programs)

    def in_a_row(self, step: Step) -> list[tuple[Action, ...]]:
        """Several faults in one branch: the member that serves, then the one that has taken over (fail-back); a
        network that fails while a member is gone; and a database that fails after the member."""
        found: list[tuple[Action, ...]] = []
        for side in self.sides:
            active = Action(Fault.KILL, side, Rank.ACTIVE)
            if {Fault.KILL, Fault.STOP} <= set(self.faults) and self.members(side) > 1:
                found += [(active, active), (Action(Fault.STOP, side, Rank.ACTIVE), active)]
            if {Fault.KILL, Fault.CUT} <= set(self.faults):
                found.append((active, Action(Fault.CUT, step.link)))
            for kill in (Fault.DATABASE_KILL, Fault.DATABASE_FAILOVER):
                if {Fault.KILL, kill} <= set(self.faults) and self.embedded:
                    found.append((active, Action(kill, "database")))
        return found
