"""What a reconciliation found."""

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
    """A key that was not simply delivered."""

    key: str
    verdict: Verdict
    client_count: int
    server_count: int
    #: The client's names of the columns that differ.
    altered: tuple[str, ...] = ()
    #: Canonical texts by the client's names of the columns; ``None`` = the side has no such key.
    client: Mapping[str, str | None] | None = None
    server: Mapping[str, str | None] | None = None
    #: Of a missing row.
    where: Where | None = None
    reason: str = ""
    correlation: str | None = None
    #: Of a row out of order: its place in the order of sending and in that of arrival, from 1, among the rows in order.
    expected_position: int | None = None
    position: int | None = None


@dataclass(slots=True)
class Side:
    """One side as it was read."""

    name: str
    table: str
    url: str
    rows: int
    consistency: Consistency


@dataclass(slots=True)
class Timeline:
    """Rows over time: sent by the client's clock, arrived by the server's."""

    #: Seconds.
    width: int
    #: Bin (seconds since the epoch, divided by the width) -> rows.
    sent: Counter[int] = field(default_factory=Counter)
    arrived: Counter[int] = field(default_factory=Counter)


@dataclass(slots=True)
class Latency:
    """Seconds from sent to arrived, of delivered rows."""

    #: Ascending.
    seconds: list[float]
    #: All rows were sampled, not those of some key ranges.
    all_rows: bool

    def quantile(self, share: float) -> float:
        return self.seconds[min(len(self.seconds) - 1, int(share * len(self.seconds)))]


@dataclass(slots=True, kw_only=True)
class Result:
    """One direction compared. Counts of differences are keys; those of rows say so."""

    title: str
    client: Side
    server: Side
    columns: tuple[str, ...]
    delivered: int = 0
    counts: Counter[Verdict] = field(default_factory=Counter)
    missing: Counter[Where] = field(default_factory=Counter)
    #: The first rows of each verdict; all of them are in `differences`.
    listed: dict[Verdict, list[Difference]] = field(default_factory=dict)
    #: The Parquet file with every difference.
    differences: Path | None = None
    #: Rows that came to the client after its snapshot and arrived before the server's.
    newer: int = 0
    notes: list[str] = field(default_factory=list)
    timeline: Timeline | None = None
    latency: Latency | None = None
    #: What happened while rows were on their way, to be marked: seconds since the epoch, and words.
    moments: tuple[tuple[float, str], ...] = ()
    started_at: datetime.datetime
    seconds: float = 0.0
    #: Key ranges that were compared by checksum, and those that were read row by row.
    ranges: int = 0
    ranges_read: int = 0
    #: Why checksums were not computed by the databases; empty when they were.
    computed_here: str = ""
    report: Path | None = None
    response: Result | None = None
    #: Rows under way count as differences.
    complete: bool = False
    #: The order of arrival was compared.
    ordered: bool = False
    #: Not zero: so many rows at least are out of order, too many to be named one by one.
    disordered: int = 0

    @property
    def under_way(self) -> int:
        """Keys that are missing now and will arrive without anybody doing anything."""
        return sum(count for where, count in self.missing.items() if where in UNDER_WAY)

    @property
    def lost(self) -> int:
        return self.missing[Where.LOST]

    @property
    def differing(self) -> int:
        """Keys that were not simply delivered."""
        return sum(self.counts.values())

    @property
    def reconciled(self) -> bool:
        """Every key was delivered once, whole and in order, or is still on its way; both ways."""
        wrong = self.disordered + self.differing - (0 if self.complete else self.under_way)
        return not wrong and (self.response is None or self.response.reconciled)

    @property
    def consistent(self) -> bool:
        """Each side was read as it was at one moment."""
        return Consistency.NONE not in (self.client.consistency, self.server.consistency)

    def as_json(self) -> dict[str, Any]:
        """What ``mercury reconcile --output json`` prints."""
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
