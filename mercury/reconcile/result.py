"""The result of a reconciliation."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mercury.reconcile.places import UNDER_WAY, Where
from mercury.reconcile.source import Consistency
from mercury.reconcile.verdicts import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A key with another verdict than delivered."""

    key: str
    verdict: Verdict
    client_count: int
    server_count: int
    #: The client's names of the columns that differ.
    altered: tuple[str, ...] = ()
    #: The client's canonical values by the client's column names; ``None`` = the client has no such key.
    client: Mapping[str, str | None] | None = None
    server: Mapping[str, str | None] | None = None
    #: The place of a missing row; ``None`` = the row is not missing.
    where: Where | None = None
    reason: str = ""
    correlation: str | None = None
    #: For a row out of order: its positions by sending and by arrival among the rows in order, from 1.
    expected_position: int | None = None
    position: int | None = None


@dataclass(slots=True)
class Side:
    """One side, as the report names it."""

    name: str
    table: str
    url: str
    rows: int
    consistency: Consistency


@dataclass(slots=True)
class Timeline:
    """The number of rows over time: sent by the client's clock, arrived by the server's."""

    #: The width of a bin in seconds.
    width: int
    #: Bin (seconds since the epoch, divided by the width) -> rows.
    sent: Counter[int] = field(default_factory=Counter)
    arrived: Counter[int] = field(default_factory=Counter)


@dataclass(slots=True)
class Latency:
    """The times from sent to arrived of delivered rows."""

    #: In seconds, ascending.
    seconds: list[float]
    #: Whether all rows were measured; otherwise those of some key ranges.
    all_rows: bool

    def quantile(self, share: float) -> float:
        return self.seconds[min(len(self.seconds) - 1, int(share * len(self.seconds)))]


@dataclass(slots=True, kw_only=True)
class Result:
    """The result of comparing one direction. Counts of differences are numbers of keys."""

    title: str
    client: Side
    server: Side
    columns: tuple[str, ...]
    delivered: int = 0
    counts: Counter[Verdict] = field(default_factory=Counter)
    missing: Counter[Where] = field(default_factory=Counter)
    #: The first differences of each verdict, for the report; the files have all of them.
    listed: dict[Verdict, list[Difference]] = field(default_factory=dict)
    #: The Parquet file with every difference.
    differences: Path | None = None
    #: Rows that were added to the client's table after its snapshot and arrived before the server's snapshot.
    newer: int = 0
    notes: list[str] = field(default_factory=list)
    timeline: Timeline | None = None
    latency: Latency | None = None
    #: Events to mark in the plots, each a time in seconds since the epoch and a label.
    moments: tuple[tuple[float, str], ...] = ()
    started_at: datetime.datetime
    seconds: float = 0.0
    #: Key ranges that were compared by checksum, and those that were read row by row.
    ranges: int = 0
    ranges_read: int = 0
    #: Why Spark's tasks computed the checksums; empty = the databases did.
    computed_here: str = ""
    report: Path | None = None
    response: Result | None = None
    #: Whether rows that are still on their way count as differences.
    complete: bool = False
    #: Whether the order of arrival was compared.
    ordered: bool = False
    #: The least number of rows out of order, if there are too many to list; 0 = they are listed.
    disordered: int = 0

    @property
    def under_way(self) -> int:
        """The number of missing keys that are still on their way."""
        return sum(count for where, count in self.missing.items() if where in UNDER_WAY)

    @property
    def lost(self) -> int:
        return self.missing[Where.LOST]

    @property
    def differing(self) -> int:
        """The number of keys with another verdict than delivered."""
        return sum(self.counts.values())

    @property
    def reconciled(self) -> bool:
        """Whether every key was delivered once, unaltered and in order, or is still on its way, in both directions."""
        wrong = self.disordered + self.differing - (0 if self.complete else self.under_way)
        return not wrong and (self.response is None or self.response.reconciled)

    @property
    def consistent(self) -> bool:
        """Whether each side was read as one state of its database."""
        return Consistency.NONE not in (self.client.consistency, self.server.consistency)

    def as_json(self) -> dict[str, Any]:
        """The output of ``mercury reconcile --output json``."""
        value: dict[str, Any] = {
            "reconciled": self.reconciled,
            "client_rows": self.client.rows,
            "server_rows": self.server.rows,
            "delivered": self.delivered,
            "missing": {where.value: self.missing[where] for where in Where},
            "lost": self.lost,
            "duplicated": self.counts[Verdict.DUPLICATED],
            "altered": self.counts[Verdict.ALTERED],
            "unexpected": self.counts[Verdict.UNEXPECTED],
            "out_of_order": self.counts[Verdict.OUT_OF_ORDER] or self.disordered,
            "newer": self.newer,
            "consistent": self.consistent,
            "notes": self.notes,
            "seconds": round(self.seconds, 3),
            "report": None if self.report is None else str(self.report),
            "differences": None if self.differences is None else str(self.differences),
        }
        if self.response is not None:
            own = self.response.as_json()
            value["response"] = {name: own[name] for name in own if name not in ("report", "response")}
        return value
