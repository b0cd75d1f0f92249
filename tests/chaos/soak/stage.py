"""Both sides of a soak: a PostgreSQL server, its databases and two processes each."""

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
from tests.chaos.databases import ExperimentDatabases, Site, Urls, connect
from tests.chaos.driver import Ports
from tests.chaos.forks import Fork, Forks
from tests.chaos.kinds import Form, Mode, Side, Way
from tests.chaos.processes import Children
from tests.chaos.programs.setup import STARTED, Setup
from tests.chaos.soak.network import Network
from tests.chaos.soak.process_output import ProcessOutput
from tests.postgres import embedded_postgres

#: The number of processes on each side.
PROCESSES = 2
#: The lease of claims and the timeout of an exchange, in seconds.
LEASE, EXCHANGE = 2.0, 5.0
#: The timeout of idle sessions in milliseconds; see `Site`.
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
    STOPPED = "stopped"


@dataclass(slots=True, kw_only=True)
class Process:
    """One program of a side, restarted whenever it was killed."""

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
        """Whether it has ended because a database was down at its start. It is started again then."""
        return self.fork is not None and STARTED not in self.fork.out and "StorageError" in self.fork.err

    @property
    def memory(self) -> int:
        """Its resident memory in bytes; 0 = it does not run."""
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, IndexError):
            if self.fork is not None:
                return int(Path(f"/proc/{self.fork.pid}/statm").read_text().split()[1]) * PAGE
        return 0


@dataclass(slots=True, kw_only=True)
class Stage:
    """Both sides, made by `staged`."""

    servers: dict[Side, EmbeddedPostgres]
    databases: ExperimentDatabases
    network: Network
    forks: Forks
    processes: list[Process]
    output: ProcessOutput = field(default_factory=ProcessOutput)
    #: The sides whose PostgreSQL server is down.
    away: set[Side] = field(default_factory=set)
    #: The number of starts that failed because a database was down.
    failed_starts: int = 0

    def urls(self, side: Side) -> Urls:
        return self.databases.client if side is Side.CLIENT else self.databases.server

    # --- processes -------------------------------------------------------------------------------------------------

    def start(self, process: Process) -> None:
        process.fork = self.forks.start(process.side, process.setup)
        process.state, process.begun = State.RUNS, time.monotonic()

    def kill(self, process: Process) -> None:
        """Send SIGKILL, also to a stopped process."""
        assert process.fork is not None
        process.fork.kill()
        process.state = State.DOWN
        self.output.read(process.name, process.fork, ended=True)

    def stop(self, process: Process) -> None:
        """Send SIGSTOP."""
        assert process.fork is not None
        process.fork.suspend()
        process.state = State.STOPPED

    def go_on(self, process: Process) -> None:
        """Send SIGCONT."""
        assert process.fork is not None
        process.fork.go_on()
        process.state = State.RUNS

    def watch(self) -> list[str]:
        """Restart processes that have ended by themselves; returns them, with the end of their stderr."""
        found = []
        for process in self.processes:
            if process.state is not State.DOWN and process.fork is not None and not process.fork.runs:
                if process.waits_for_a_database:
                    self.failed_starts += 1
                else:
                    found.append(f"{process.name} has ended by itself: {process.fork.err[-2000:]}")
                self.output.read(process.name, process.fork, ended=True)
                self.start(process)
        return found

    def listen(self) -> ProcessOutput:
        """Read the output of all processes up to now."""
        for process in self.processes:
            if process.fork is not None and process.state is not State.DOWN:
                self.output.read(process.name, process.fork)
        return self.output

    def end(self) -> list[str]:
        """Terminate all processes; returns those that did not end in time."""
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
                self.output.read(process.name, process.fork, ended=True)
                process.state = State.DOWN
        return late

    # --- PostgreSQL ------------------------------------------------------------------------------------------------

    def kill_postgres(self, side: Side) -> None:
        """Kill the server, as a power failure would."""
        self.servers[side].kill()
        self.away.add(side)

    def start_postgres(self, side: Side) -> bool:
        """Start the server; returns whether it accepts connections. If not, the caller tries again."""
        try:
            self.servers[side].start()
        except StorageError:
            return False
        self.away.discard(side)
        return True

    def end_backends(self, side: Side, most: int, *, busy: bool, chance: random.Random) -> int:
        """Terminate sessions of a side's programs; returns their number."""
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
    """Start the servers and the network, without the processes. All of it is removed at the end of the block."""
    with contextlib.ExitStack() as stack:
        servers = {side: stack.enter_context(embedded_postgres()) for side in Side}
        for server in servers.values():
            stack.callback(server.kill)  # its data are not needed, and an orderly stop would write a checkpoint
        sites = {side: Site(servers[side], 0, threading.Lock(), IDLE) for side in Side}
        databases = ExperimentDatabases(**{side.value: sites[side].side(form) for side in Side})
        ports = [stack.enter_context(contextlib.closing(Ports())) for _ in range(PROCESSES)]
        children = stack.enter_context(Children())
        forks = stack.enter_context(Forks(children))
        processes = []
        for side in Side:
            urls = databases.client if side is Side.CLIENT else databases.server
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
        yield Stage(servers=servers, databases=databases, network=network, forks=forks, processes=processes)
