"""One experiment: start both programs, do harm at the point, let them go on, and compare."""

from __future__ import annotations

import random
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tests.chaos import caught, hook
from tests.chaos.cells import Cell
from tests.chaos.databases import Ground, Site
from tests.chaos.forks import Fork, Forks
from tests.chaos.kinds import Form, Harm, Mode, Moment, Side, Way
from tests.chaos.programs.setup import EXCHANGE, HOST, SHORT_EXCHANGE, Setup
from tests.chaos.verdict import Difference, Witness

#: Seconds between two looks into the databases.
LOOK = 0.03
#: Which visit to a point is interrupted at most, where that only leads to another point.
EARLIER = 6

Stop = tuple[str, Moment, int]


@dataclass(slots=True, kw_only=True)
class Result:
    """What became of one cell."""

    cell: Cell
    #: Which visit to the point was interrupted; 0 = there was none.
    visit: int = 0
    kills: int = 0
    pauses: int = 0
    seconds: float = 0.0
    difference: Difference = field(default_factory=Difference)
    prepared: int = 0
    #: Errors that the client application caught, by their names.
    caught: Counter[str] = field(default_factory=Counter)
    #: What else is wrong.
    troubles: list[str] = field(default_factory=list)
    #: What the processes have written, if anything is wrong.
    said: str = ""

    @property
    def good(self) -> bool:
        return not (self.difference or self.prepared or self.troubles)


class Ports:
    """Two ports that stay ours while no program listens there."""

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
    """A client and a server on their databases, started and started again."""

    def __init__(
        self,
        forks: Forks,
        ground: Ground,
        form: Form,
        mode: Mode,
        way: Way,
        *,
        exchange: float = EXCHANGE,
        count: bool = False,
    ) -> None:
        self.ports = Ports()
        self._forks = forks
        self._ground = ground
        self._form, self._mode, self._way = form, mode, way
        self._exchange = exchange
        self._count = count
        #: Processes that stop at a point although another was chosen there: they go on at once.
        self._unharmed: list[Fork] = []

    def start(self, side: Side, stop: Stop | None = None) -> Fork:
        """Start a program, beside those that run already."""
        urls = self._ground.client if side is Side.CLIENT else self._ground.server
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
        """Wait for something that a process has to bring about, with the others that run."""

        def met() -> bool:
            self._forks.watch()
            for each in self._unharmed:
                if each.runs and each.stands:
                    each.go_on()
            return condition()

        fork.until(met, what, LOOK, witness.advance)

    def reaches(self, forks: Sequence[Fork], stop: Stop, witness: Witness) -> Fork | None:
        """Wait until one of these processes stands still at a point, and return it. The others go on whenever they do.

        ``None``: everything is over without that.
        """
        name, moment, _ = stop
        said = f"{hook.AT} {name} {moment.value}\n"

        def there() -> Iterator[Fork]:
            return (fork for fork in forks if said in fork.out)

        self.comes_to(forks[0], lambda: any(there()) or witness.is_over(), f"{name} or the end is reached", witness)
        victim = next(there(), None)
        if victim is not None:
            victim.stops()  # by itself
            self._unharmed += [fork for fork in forks if fork is not victim]
        return victim

    def kill(self) -> None:
        """Kill all that run."""
        self._forks.kill()

    def end(self) -> None:
        """Kill all that run, forget what they have said, and give the ports back."""
        self._forks.end()
        self.ports.close()


class Driver:
    """Runs cells, one after the other, on one server.

    :param seed: chooses which of the visits to a point is interrupted.
    """

    def __init__(self, site: Site, forks: Forks, seed: int = 0) -> None:
        self._site = site
        self._forks = forks
        self._seed = seed

    def run(self, cell: Cell) -> Result:
        """Run one cell. Never raises for what Mercury does."""
        begun = time.monotonic()
        chance = random.Random(f"{self._seed} {cell.name}")
        visit, earlier = chance.randint(1, cell.point.visits), chance.randint(1, EARLIER)
        result = self._try(cell, visit, earlier)
        if not result.visit and not result.troubles:
            result = self._try(cell, 1, 1)  # there were not so many visits
        if not result.visit and not result.troubles:
            result.troubles.append("the point was not reached")
        result.seconds = time.monotonic() - begun
        return result

    def _try(self, cell: Cell, visit: int, earlier: int) -> Result:
        result = Result(cell=cell)
        ground = self._site.ground(cell.form)
        with Witness(ground, cell.mode) as witness:
            exchange = SHORT_EXCHANGE if cell.harm is Harm.PAUSE else EXCHANGE
            pair = Pair(self._forks, ground, cell.form, cell.mode, cell.way, exchange=exchange)
            try:
                self._play(cell, visit, earlier, pair, witness, result)
                pair.kill()
                result.difference = witness.difference()
                result.prepared = len(witness.prepared())
                result.troubles += witness.troubles()
            except AssertionError as error:
                left = "; ".join(witness.left())
                result.difference, result.prepared = witness.difference(), len(witness.prepared())
                result.troubles.append(f"{error}\n--- left: {left}")
            finally:
                result.caught = self._forks.caught()
                result.troubles += caught.wrong(result.caught)
                if not result.good:
                    result.said = self._forks.said()
                pair.end()
        return result

    def _play(self, cell: Cell, visit: int, earlier: int, pair: Pair, witness: Witness, result: Result) -> None:
        here = (cell.point.name, cell.moment, visit)
        first = here if cell.point.after is None else (*cell.point.after, earlier)
        forks = {
            side: [pair.start(side, first if side is cell.side else None) for _ in range(cell.processes)]
            for side in (Side.SERVER, Side.CLIENT)
        }[cell.side]
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
                self._site.server.kill()
                result.kills += 1
                self._site.server.start()
                victim.go_on()
            case Harm.PAUSE:
                result.pauses += 1
                victim = self._pause(cell, pair, victim, witness)
        pair.comes_to(victim, witness.is_over, "everything is done", witness)

    def _pause(self, cell: Cell, pair: Pair, victim: Fork, witness: Witness) -> Fork:
        """Let another do everything; then the one that stood still goes on, and comes to its end."""
        other = pair.start(cell.side)
        pair.comes_to(other, witness.is_over, "another process does everything", witness)
        victim.go_on()
        victim.until(lambda: f"{hook.ON}\n" in victim.out, "it goes on")
        victim.terminate()
        victim.ends()
        return other
