"""What stands on both sides: a PostgreSQL server, its databases and two processes each."""

from __future__ import annotations

import contextlib
import enum
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from sqlalchemy import make_url

from mercury.errors import StorageError
from mercury.postgres.embedded import EmbeddedPostgres
from tests.chaos.databases import Ground, Site, Urls, connect
from tests.chaos.driver import Ports
from tests.chaos.forks import Fork, Forks
from tests.chaos.kinds import Form, Mode, Side, Way
from tests.chaos.processes import Children
from tests.chaos.programs.setup import STARTED, Setup
from tests.chaos.soak.network import Network
from tests.chaos.soak.process_output import ProcessOutput
from tests.postgres import embedded_postgres

#: Processes a side.
PROCESSES = 2
#: Seconds.
LEASE, EXCHANGE = 2.0, 5.0
#: Milliseconds; see `Site`.
IDLE = 2500
KEYS, WINDOW = 4, 16
PAGE = 4096

BACKENDS = """
    select pid from pg_stat_activity
    where datname = any(%s) and pid <> pg_backend_pid() and backend_type = 'client backend' and (state <> 'idle' or %s)
    order by pid
"""


class State(enum.Enum):
    DOWN = "down"
    RUNS = "runs"
    STANDS_STILL = "stands still"


@dataclass(slots=True, kw_only=True)
class Process:
    """One program of a side, started again whenever it was killed."""

    side: Side
    number: int
    setup: Setup
    state: State = State.DOWN
    fork: Fork | None = None
    begun: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.side.value} {self.number}"

    @property
    def waits_for_a_database(self) -> bool:
        """Whether it has ended because a database that it needs to start was away; whoever runs it tries again."""
        return self.fork is not None and STARTED not in self.fork.out and "StorageError" in self.fork.err

    @property
    def memory(self) -> int:
        """Bytes of memory that are its own or shared; 0 = it does not run."""
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, IndexError):
            if self.fork is not None:
                return int(Path(f"/proc/{self.fork.pid}/statm").read_text().split()[1]) * PAGE
        return 0


@dataclass(slots=True, kw_only=True)
class Stage:
    """Both sides. `staged` makes it."""

    servers: dict[Side, EmbeddedPostgres]
    ground: Ground
    network: Network
    forks: Forks
    processes: list[Process]
    told: ProcessOutput = field(default_factory=ProcessOutput)
    #: Of PostgreSQL's servers, those that were killed.
    away: set[Side] = field(default_factory=set)
    #: Processes that ended at their start, because a database was away.
    starts_in_vain: int = 0

    def urls(self, side: Side) -> Urls:
        return self.ground.client if side is Side.CLIENT else self.ground.server

    # --- processes -------------------------------------------------------------------------------------------------

    def start(self, process: Process) -> None:
        process.fork = self.forks.start(process.side, process.setup)
        process.state, process.begun = State.RUNS, time.monotonic()

    def kill(self, process: Process) -> None:
        """SIGKILL, also while it stands still."""
        assert process.fork is not None
        process.fork.kill()
        process.state = State.DOWN
        self.told.hear(process.name, process.fork, ended=True)

    def stop(self, process: Process) -> None:
        """SIGSTOP."""
        assert process.fork is not None
        process.fork.suspend()
        process.state = State.STANDS_STILL

    def go_on(self, process: Process) -> None:
        """SIGCONT."""
        assert process.fork is not None
        process.fork.go_on()
        process.state = State.RUNS

    def watch(self) -> list[str]:
        """Start again what has ended by itself; returns what has, with its last words."""
        found = []
        for process in self.processes:
            if process.state is not State.DOWN and process.fork is not None and not process.fork.runs:
                if process.waits_for_a_database:
                    self.starts_in_vain += 1
                else:
                    found.append(f"{process.name} has ended by itself: {process.fork.err[-2000:]}")
                self.told.hear(process.name, process.fork, ended=True)
                self.start(process)
        return found

    def listen(self) -> ProcessOutput:
        """What all processes have said up to now."""
        for process in self.processes:
            if process.fork is not None and process.state is not State.DOWN:
                self.told.hear(process.name, process.fork)
        return self.told

    def end(self) -> list[str]:
        """Ask all processes to end; returns which did not in time."""
        late = []
        for process in self.processes:
            if process.fork is not None and process.state is not State.DOWN:
                process.fork.terminate()
        for process in self.processes:
            if process.fork is not None and process.state is not State.DOWN:
                try:
                    process.fork.ends()
                except AssertionError as error:
                    late.append(str(error))
                self.told.hear(process.name, process.fork, ended=True)
                process.state = State.DOWN
        return late

    # --- PostgreSQL ------------------------------------------------------------------------------------------------

    def kill_postgres(self, side: Side) -> None:
        """End it at once, as a power failure would."""
        self.servers[side].kill()
        self.away.add(side)

    def start_postgres(self, side: Side) -> bool:
        """Returns whether it takes connections; otherwise it is to be tried again."""
        try:
            self.servers[side].start()
        except StorageError:
            return False
        self.away.discard(side)
        return True

    def end_backends(self, side: Side, most: int, *, busy: bool, chance: random.Random) -> int:
        """End sessions of a side's programs; returns how many."""
        urls = self.urls(side)
        names = [str(make_url(url).database) for url in (urls.store, urls.app, urls.log) if url]
        try:
            with connect(urls.app) as connection:
                pids = [pid for (pid,) in connection.execute(BACKENDS, (names, not busy)).fetchall()]
                chosen = chance.sample(pids, min(most, len(pids)))
                rows = connection.execute("select pg_terminate_backend(unnest(%s::int[]))", (chosen,)).fetchall()
        except psycopg.OperationalError:
            return 0
        return sum(ended for (ended,) in rows)


@contextlib.contextmanager
def staged(form: Form, mode: Mode, network: Network) -> Iterator[Stage]:
    """Everything but the processes runs; with the block all of it is gone."""
    with contextlib.ExitStack() as stack:
        servers = {side: stack.enter_context(embedded_postgres()) for side in Side}
        for server in servers.values():
            stack.callback(server.kill)  # nobody needs its data: an orderly end takes a checkpoint
        sites = {side: Site(servers[side], 0, threading.Lock(), IDLE) for side in Side}
        ground = Ground(**{side.value: sites[side].side(form) for side in Side})
        ports = [stack.enter_context(contextlib.closing(Ports())) for _ in range(PROCESSES)]
        children = stack.enter_context(Children())
        forks = stack.enter_context(Forks(children))
        processes = []
        for side in Side:
            urls = ground.client if side is Side.CLIENT else ground.server
            own = [each.client if side is Side.CLIENT else each.server for each in ports]
            network.routes[side].ports = own
            for number in range(PROCESSES):
                setup = Setup(
                    form=form,
                    mode=mode,
                    way=Way.POSTED,
                    store=urls.store,
                    app=urls.app,
                    log=urls.log,
                    port=own[number],
                    server_port=network.port(Side.SERVER),
                    reached_at=network.urls[side],
                    exchange=EXCHANGE,
                    lease=LEASE,
                    window=WINDOW,
                    keys=KEYS,
                )
                processes.append(Process(side=side, number=number + 1, setup=setup))
        yield Stage(servers=servers, ground=ground, network=network, forks=forks, processes=processes)
