"""Runs a deployment: its databases, links and programs; sets faults on them and undoes them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

from mercury.errors import ConfigurationError, StorageError
from mercury.masking import masked
from mercury.trial.databases import Databases, Log, Undo
from mercury.trial.faults import Action, Fault, Rank
from mercury.trial.filling import Names, filled
from mercury.trial.link import Address, Connection, Link
from mercury.trial.member import Member, State
from mercury.trial.scenario import Command, LinkTo, Scenario
from mercury.trial.starting import Commands, Forks
from mercury.trial.steps import Way
from mercury.trial.tables import TrialTables

#: Seconds between two probes of all members, and in which the whole deployment starts.
PROBE_INTERVAL, START_TIMEOUT = 0.2, 90.0


class Deployment:
    """The programs of a scenario, started in a folder of their own."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self.scenario = scenario
        self.folder = folder
        self.members: list[Member] = []
        self.links: dict[str, Link] = {}
        self.tables = TrialTables({})
        self._databases = Databases(scenario, folder)
        self._forks = Forks(_own_environment(), folder / "fork-server.log")
        self._turn = 0
        #: The longest time for which two members of one side have served at once, in seconds.
        self.split = 0.0
        self._split_since: dict[str, float] = {}
        self._watching: asyncio.Task[None] | None = None

    # --- life ------------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Deployment]:
        """Start everything, and end it after the block, also after an interrupt.

        :raises ConfigurationError: a program cannot be started.
        :raises StorageError: a database cannot.
        """
        try:
            await self._start()
            yield self
        finally:
            await asyncio.shield(self._end())

    async def _start(self) -> None:
        urls = await asyncio.to_thread(self._databases.make)
        names = Names(folder=str(self.folder), databases=urls)
        for link in self.scenario.links:
            await self._start_link(link, names)
        self.tables = TrialTables(urls)
        if self.scenario.sent.describes:
            await asyncio.to_thread(self.tables.make)
        for program in self.scenario.programs:
            names.port = _free_port()
            environment = {**_own_environment(), **filled(program.environment, names)}
            log = self.folder / f"{program.name}.log"
            command, stop = (tuple(filled(each, names) for each in line) for line in (program.command, program.stop))
            starter = self._forks if program.forks else Commands()
            self.members.append(Member(program, command, environment, stop, names.port, log, starter))
        for line in self.scenario.prepare:
            await _run([filled(each, names) for each in line], _own_environment())
        self._names = names
        for member in self.members:
            await member.start()
        self._watching = asyncio.create_task(self._watch())
        await self.whole(START_TIMEOUT, starting=True)

    async def _start_link(self, to: LinkTo, names: Names) -> None:
        if to.side is not None:
            link = Link(to.name, partial(self._route, to.side, in_turns=not to.backup))
            names.links[to.name] = f"http://{await link.start()}"
        else:
            link, names.links[to.name] = await self._databases.start_link(to.name)
        self.links[to.name] = link

    async def _end(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        for member in self.members:
            member.signal(signal.SIGCONT)
            await member.kill()
        await self._forks.stop()
        for link in self.links.values():
            await link.stop()
        self.tables.close()
        await asyncio.to_thread(self._databases.kill)

    # --- who serves ------------------------------------------------------------------------------------------------

    def of(self, side: str) -> list[Member]:
        return [member for member in self.members if member.side == side]

    def _route(self, side: str, *, in_turns: bool) -> tuple[Address, str] | None:
        serving = [member for member in self.of(side) if member.state is State.SERVES]
        if not serving:
            return None
        self._turn += in_turns
        member = serving[self._turn % len(serving)] if in_turns else serving[0]
        return ("127.0.0.1", member.port), member.name

    async def _watch(self) -> None:
        """Probe the members again and again. Connections to one that no longer serves are reset, as a load balancer
        does."""

        async def probe(member: Member) -> None:
            while True:
                before = member.state
                if await member.probe() is not State.SERVES and before is State.SERVES:
                    for link in self.links.values():
                        link.reset(member.name)
                self._watch_for_two(member.side)
                await asyncio.sleep(PROBE_INTERVAL)

        await asyncio.gather(*(probe(member) for member in self.members))

    def _watch_for_two(self, side: str) -> None:
        if sum(member.state is State.SERVES for member in self.of(side)) < 2:
            self._split_since.pop(side, None)
        else:
            since = self._split_since.setdefault(side, time.monotonic())
            self.split = max(self.split, time.monotonic() - since)

    def is_whole(self) -> bool:
        """On each side a member serves, and every other one serves or waits."""
        return all(self.serves(side) for side in self.scenario.sides) and all(
            member.state is not State.DOWN for member in self.members
        )

    def serves(self, side: str) -> bool:
        """Whether a member of a side serves."""
        return any(member.state is State.SERVES for member in self.of(side))

    async def whole(self, seconds: float, *, starting: bool = False) -> None:
        """Wait until it is whole.

        :param starting: nothing is broken yet: a program that has ended has failed.
        :raises StorageError: it is not whole within the time.
        """
        until = time.monotonic() + seconds
        while not self.is_whole():
            failed = starting and any(member.trouble() for member in self.members)
            if failed or time.monotonic() > until:
                raise StorageError(self.trouble() or f"not whole after {seconds:.0f} s")
            await asyncio.sleep(0.02)

    def trouble(self) -> str:
        """What is wrong with the members, in words; empty = nothing."""
        found = [member.trouble() or f"{member.name} is {member.state.value}" for member in self.members]
        return "; ".join(found) if not self.is_whole() else ""

    def dump_stacks(self) -> None:
        """Have the built-in programs write what their threads do to their logs: something is wrong."""
        for member, program in zip(self.members, self.scenario.programs, strict=True):
            if program.forks:
                member.signal(signal.SIGUSR1)

    def chosen(self, action: Action, connection: Connection | None) -> Member:
        """The member that a fault is set on."""
        members = self.of(action.target)
        known = self._at(connection, action.target)
        serving = [member for member in members if member.state is State.SERVES]
        active = known or (serving or members)[0]
        if action.rank is not Rank.STANDBY:
            return active
        return next(member for member in members if member is not active)

    def _at(self, connection: Connection | None, side: str) -> Member | None:
        """The member of a side that a connection comes from or leads to, if that can be known."""
        if connection is None:
            return None
        pid = None
        if connection.near.family is socket.AF_UNIX:
            with contextlib.suppress(OSError):
                given = connection.near.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
                pid = struct.unpack("3i", given)[0]
        return next(
            (each for each in self.of(side) if each.name == connection.member or (pid is not None and each.pid == pid)),
            None,
        )

    # --- faults ----------------------------------------------------------------------------------------------------

    async def set(self, action: Action, connection: Connection | None, log: Log) -> Undo:
        """Set a fault; returns what undoes it.

        :param log: is called with what happens.
        """
        match action.fault:
            case Fault.KILL:
                member = self.chosen(action, connection)
                log(f"SIGKILL to {member.name}")
                await member.kill()
                return lambda: self._restart(member, log)
            case Fault.STOP:
                member = self.chosen(action, connection)
                log(f"SIGTERM to {member.name}")
                stopping = asyncio.create_task(member.stop())

                async def restart() -> float:
                    if not await stopping:
                        log(f"{member.name} did not stop, and was killed")
                    return await self._restart(member, log)

                return restart
            case Fault.PAUSE:
                member = self.chosen(action, connection)
                log(f"SIGSTOP to {member.name}")
                member.signal(signal.SIGSTOP)

                async def wake() -> float:
                    await asyncio.sleep(self.scenario.lease * 1.3 + 0.2)
                    member.signal(signal.SIGCONT)
                    log(f"SIGCONT to {member.name}")
                    return time.time()

                return wake
            case Fault.CUT | Fault.CUT_REQUESTS | Fault.CUT_REPLIES:
                way = {Fault.CUT_REQUESTS: Way.REQUEST, Fault.CUT_REPLIES: Way.REPLY}.get(action.fault)
                log(f"link {action.target} is cut")
                cutting = asyncio.create_task(self.links[action.target].cut(self.scenario.cut, way))
                await asyncio.sleep(0)

                async def heal() -> float:
                    await cutting
                    log(f"link {action.target} is whole")
                    return time.time()

                return heal
            case Fault.DISK_FULL:
                member = self.chosen(action, connection)
                log(f"{member.name} writes to no file")
                member.limit_files(fails=True)

                async def permit() -> float:
                    await asyncio.sleep(self.scenario.cut)
                    member.limit_files(fails=False)
                    log(f"{member.name} writes to files again")
                    return time.time()

                return permit
            case Fault.COMMAND:
                log(f"command {action.target}")
                return await self._command(self.scenario.commands[action.target])
            case _:
                return await self._databases.set(action.fault, log)

    async def _command(self, command: Command) -> Undo:
        await _run([filled(each, self._names) for each in command.set], _own_environment())

        async def undo() -> float:
            await _run([filled(each, self._names) for each in command.undo], _own_environment())
            return time.time()

        return undo

    async def _restart(self, member: Member, log: Log) -> float:
        await member.start()
        log(f"{member.name} is started again")
        return time.time()


async def _run(command: list[str], environment: dict[str, str]) -> None:
    """
    :raises ConfigurationError: the command cannot be run, or fails.
    """
    if not command:
        return
    try:
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL
        )
    except OSError as error:
        raise ConfigurationError(f"{command[0]}: {error.strerror}") from error
    if await process.wait():
        raise ConfigurationError(f"{masked(' '.join(command))}: exit code {process.returncode}")


def _own_environment() -> dict[str, str]:
    """This process's environment without Mercury's settings, with the folders that it imports from."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MERCURY_")}
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    return {**kept, "PYTHONPATH": path, "MERCURY_STORE": "memory:", "PATH": _path()}


def _path() -> str:
    return os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
