"""The progress and the result of a run, from the lists of numbers that both applications have received."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table

from samples.lossy_network.proxy import Outcome, Proxy


@dataclass(frozen=True)
class Verdict:
    """The result for one direction."""

    lost: int
    duplicated: int
    out_of_order: int

    @classmethod
    def of(cls, numbers: list[int], sent: int) -> Verdict:
        """Compare the numbers that an application received, in order of delivery, with 1 to ``sent``."""
        times = Counter(numbers)
        return cls(
            lost=sum(number not in times for number in range(1, sent + 1)),
            duplicated=sum(count - 1 for count in times.values()),
            out_of_order=sum(second < first for first, second in pairwise(numbers)),
        )


@dataclass
class Run:
    """The progress of a run."""

    messages: int
    #: The proxies to the server and to the client.
    proxies: tuple[Proxy, ...]
    sent: int = 0
    acknowledged: int = 0
    #: The numbers that the server's application, and the client's, have received.
    questions: list[int] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    begun: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begun

    @property
    def wire_messages(self) -> int:
        """The number of HTTP requests through both proxies."""
        return sum(sum(proxy.counts.values()) for proxy in self.proxies)

    def count(self, outcome: Outcome) -> int:
        return sum(proxy.counts[outcome] for proxy in self.proxies)

    @property
    def verdicts(self) -> dict[str, Verdict]:
        return {
            "client to server": Verdict.of(self.questions, self.messages),
            "server to client": Verdict.of(self.answers, self.messages),
        }

    @property
    def perfect(self) -> bool:
        return all(verdict == Verdict(0, 0, 0) for verdict in self.verdicts.values())

    def as_value(self) -> dict[str, Any]:
        """The result as a JSON value."""
        return {
            "messages": self.messages,
            **{name.replace(" ", "_"): asdict(verdict) for name, verdict in self.verdicts.items()},
            "wire_messages": self.wire_messages,
            **{outcome.value: self.count(outcome) for outcome in Outcome},
            "seconds": round(self.seconds, 3),
        }

    def __rich__(self) -> RenderableType:
        """The progress as text; rich calls this for every refresh."""
        grid = Table.grid(padding=(0, 2))
        steps = (
            ("sent", self.sent),
            ("acknowledged", self.acknowledged),
            ("delivered", len(self.questions)),
            ("answered", len(self.answers)),
        )
        for name, count in steps:
            grid.add_row(name, f"{count:>7,}", ProgressBar(self.messages, count, width=40))
        outcomes = ", ".join(
            f"{self.count(outcome):,} {outcome.value}" for outcome in Outcome if outcome is not Outcome.PASSED
        )
        grid.add_row("on the wire", f"{self.wire_messages:>7,}", outcomes)
        grid.add_row("seconds", f"{self.seconds:>7.1f}")
        return grid

    def verdict_table(self) -> Table:
        table = Table("", "lost", "duplicated", "out of order", box=None, padding=(0, 2, 0, 0))
        for name, verdict in self.verdicts.items():
            table.add_row(name, *(f"[{'red' if n else 'green'}]{n:,}[/]" for n in asdict(verdict).values()))
        return table
