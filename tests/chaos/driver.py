"""One experiment: starts both programs, harms one at the crash point, lets them go on, and compares the tables."""

from __future__ import annotations

import random
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from tests.chaos import caught, hook
from tests.chaos.cells import Cell
from tests.chaos.databases import ExperimentDatabases, Site
from tests.chaos.forks import Fork, Forks
from tests.chaos.kinds import Form, Harm, Mode, Moment, Side, Way
from tests.chaos.programs.setup import EXCHANGE, HOST, SHORT_EXCHANGE, STARTED, Setup
from tests.chaos.verdict import Difference, Witness

#: Seconds between two queries of the databases.
POLL_INTERVAL = 0.03
#: The latest visit that is interrupted at a point which only leads to another point.
EARLIER = 6

Stop = tuple[str, Moment, int]


@dataclass(slots=True, kw_only=True)
class Result:
    """The result of one cell."""

    cell: Cell
    #: The number of the interrupted visit to the point; 0 = the point was not reached.
    visit: int = 0
    kills: int = 0
    pauses: int = 0
    seconds: float = 0.0
    difference: Difference = field(default_factory=Difference)
    prepared: int = 0
    #: The number of errors that the client's application caught, by name.
    caught: Counter[str] = field(default_factory=Counter)
    #: Other violations.
    errors: list[str] = field(default_factory=list)
    #: The processes' output, if the cell failed.
    output: str = ""

    @property
    def good(self) -> bool:
        return not (self.difference or self.prepared or self.errors)


class Ports:
    """Two ports that stay reserved while no program listens at them."""

    def __init__(self) -> None:
        self._kept = [self._keep() for _ in Side]
        self.client, self.server = (int(kept.getsockname()[1]) for kept in self._kept)

    @staticmethod
    def _keep() -> socket.socket:
        kept = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        kept.bind((HOST, 0))
        return kept

    def close(self) -> None:
        for kept in self._kept:
            kept.close()


class Pair:
    """The processes of a client and a server, with their databases."""

    def __init__(
        self,
        forks: Forks,
        databases: ExperimentDatabases,
        form: Form,
        mode: Mode,
        way: Way,
        *,
        exchange: float = EXCHANGE,
        count: bool = False,
    ) -> None:
        self.ports = Ports()
        self._forks = forks
        self._databases = databases
        self._form, self._mode, self._way = form, mode, way
        self._exchange = exchange
        self._count = count
        #: Processes that stop at a point although another one is to be harmed there: they are continued at once.
        self._unharmed: list[Fork] = []

    def start(self, side: Side, stop: Stop | None = None) -> Fork:
        """Start a process of a program, in addition to those that run."""
        urls = self._databases.client if side is Side.CLIENT else self._databases.server
        setup = Setup(
            form=self._form,
            mode=self._mode,
            way=self._way,
            store=urls.store,
            app=urls.app,
            log=urls.log,
            port=self.ports.client if side is Side.CLIENT else self.ports.server,
            server_port=self.ports.server,
            exchange=self._exchange,
            stop=stop,
            count=self._count,
        )
        return self._forks.start(side, setup)

    def comes_to(self, fork: Fork, condition: Callable[[], bool], what: str, witness: Witness) -> None:
        """Wait for a condition that a process brings about together with the others."""

        def met() -> bool:
            self._forks.watch()
            for each in self._unharmed:
                if each.runs and each.is_stopped:
                    each.go_on()
            return condition()

        fork.until(met, what, POLL_INTERVAL, witness.advance)

    def reaches(self, forks: Sequence[Fork], stop: Stop, witness: Witness) -> Fork | None:
        """Wait until one of these processes stops at a point, and return it. Others that stop there are continued.

        :returns: ``None`` = everything is done, and no process has reached the point.
        """
        name, moment, _ = stop
        text = f"{hook.AT} {name} {moment.value}\n"

        def there() -> Iterator[Fork]:
            return (fork for fork in forks if text in fork.out)

        self.comes_to(forks[0], lambda: any(there()) or witness.is_over(), f"{name} or the end is reached", witness)
        victim = next(there(), None)
        if victim is not None:
            victim.stops()  # the process stops itself
            self._unharmed += [fork for fork in forks if fork is not victim]
        return victim

    def kill(self) -> None:
        """Kill all running processes."""
        self._forks.kill()

    def end(self) -> None:
        """Kill all running processes, delete their output, and release the ports."""
        self._forks.end()
        self.ports.close()


class Driver:
    """Runs cells, one after the other, on one PostgreSQL server.

    :param seed: selects the visit to a point that is interrupted.
    """

    def __init__(self, site: Site, forks: Forks, seed: int = 0) -> None:
        self._site = site
        self._forks = forks
        self._seed = seed

    def run(self, cell: Cell) -> Result:
        """Run one cell. Violations by Mercury are in the result, not raised."""
        begun = time.monotonic()
        chance = random.Random(f"{self._seed} {cell.name}")
        visit, earlier = chance.randint(1, cell.point.visits), chance.randint(1, EARLIER)
        result = self._try(cell, visit, earlier)
        if not result.visit and not result.errors:
            result = self._try(cell, 1, 1)  # the point has fewer visits in this run
        if not result.visit and not result.errors:
            result.errors.append("the point was not reached")
        result.seconds = time.monotonic() - begun
        return result

    def _try(self, cell: Cell, visit: int, earlier: int) -> Result:
        result = Result(cell=cell)
        databases = self._site.databases(cell.form)
        with Witness(databases, cell.mode) as witness:
            exchange = SHORT_EXCHANGE if cell.harm is Harm.PAUSE else EXCHANGE
            pair = Pair(self._forks, databases, cell.form, cell.mode, cell.way, exchange=exchange)
            try:
                self._play(cell, visit, earlier, pair, witness, result)
                pair.kill()
                result.difference = witness.difference()
                result.prepared = len(witness.prepared())
                result.errors += witness.errors()
            except AssertionError as error:
                left = "; ".join(witness.left())
                result.difference, result.prepared = witness.difference(), len(witness.prepared())
                result.errors.append(f"{error}\n--- left: {left}")
            finally:
                result.caught = self._forks.caught()
                result.errors += caught.wrong(result.caught)
                if not result.good:
                    result.output = self._forks.output()
                pair.end()
        return result

    def _play(self, cell: Cell, visit: int, earlier: int, pair: Pair, witness: Witness, result: Result) -> None:
        here = (cell.point.name, cell.moment, visit)
        first = here if cell.point.after is None else (*cell.point.after, earlier)
        started = {
            side: [pair.start(side, first if side is cell.side else None) for _ in range(cell.processes)]
            for side in (Side.SERVER, Side.CLIENT)
        }
        forks = started.pop(cell.side)
        if cell.point.after is not None:
            before = pair.reaches(forks, first, witness)
            if before is None:
                return
            before.kill()
            result.kills += 1
            forks = [pair.start(cell.side, here)]
        victim = pair.reaches(forks, here, witness)
        if victim is None:
            return
        result.visit = visit
        match cell.harm:
            case Harm.KILL:
                victim.kill()
                result.kills += 1
                victim = pair.start(cell.side)
            case Harm.KILL_POSTGRES:
                if cell.side is Side.CLIENT:
                    for server in started[Side.SERVER]:  # one that does not serve yet would end, and not be restarted
                        server.until(partial(_serves, server), "it serves")
                self._site.server.kill()
                result.kills += 1
                self._site.server.start()
                victim.go_on()
            case Harm.PAUSE:
                result.pauses += 1
                victim = self._pause(cell, pair, victim, witness)
        pair.comes_to(victim, witness.is_over, "everything is done", witness)

    def _pause(self, cell: Cell, pair: Pair, victim: Fork, witness: Witness) -> Fork:
        """Let another process finish the work; then continue the stopped one, and wait for its end."""
        other = pair.start(cell.side)
        pair.comes_to(other, witness.is_over, "another process does everything", witness)
        victim.go_on()
        victim.until(lambda: f"{hook.ON}\n" in victim.out, "it goes on")
        victim.terminate()
        victim.ends()
        return other


def _serves(server: Fork) -> bool:
    return STARTED in server.out
