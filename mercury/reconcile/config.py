"""What is compared with what. Made from a TOML file by `mercury.reconcile.reading`, or in Python."""

from __future__ import annotations

import string
from dataclasses import dataclass, field, replace
from pathlib import Path

from mercury.errors import ConfigurationError
from mercury.reconcile.kinds import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """An application's table."""

    #: As SQLAlchemy wants it.
    url: str = field(repr=False)
    #: ``table`` or ``schema.table``.
    name: str
    #: SQL that a row must fulfil to take part.
    where: str | None = None
    #: On the client the column that gives the order of sending, on the server that of arrival.
    order: str | None = None
    #: When a row was sent, or arrived: for the plots.
    time: str | None = None
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A pair of columns that correspond."""

    client: str
    server: str
    #: Left out: what the two databases say.
    kind: Kind | None = None
    scale: int | None = None
    client_zone: str = "UTC"
    server_zone: str = "UTC"
    trim: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The way back: a row for each request that was answered."""

    table: Table
    #: The table's names for the key columns, in their order.
    key: tuple[str, ...]
    #: Pairs of a column of the server's table (``client``) and one of this table (``server``).
    compare: tuple[Column, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """How Spark is used. Everything has a bound, whatever the size of the tables."""

    #: Where to run; ``local[*]`` = all processors of this machine.
    master: str = "local[*]"
    #: Memory of the driver, which in local mode is all there is.
    memory: str = "1g"
    #: Slices of each table that are read side by side; left out: by size and processors.
    slices: int | None = None
    #: Key ranges with a checksum of their own; left out: one for each thousand rows, up to 65,536.
    ranges: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One reconciliation.

    :raises ConfigurationError: what can be seen without a database is wrong.
    """

    client: Table
    server: Table
    key: tuple[Column, ...]
    compare: tuple[Column, ...]
    #: Columns of the client within which order counts: what it gave as the key of its messages. Empty: over all rows.
    within: tuple[str, ...] = ()
    #: A column of the client that is null or false until the row was handed over.
    handed_over: str | None = None
    #: How the correlation of a row's message is made of the client's columns, ``order:{id}``.
    correlation: str | None = None
    #: The stores in between; ``memory:`` = a store that is gone with its process.
    client_store: str | None = field(default=None, repr=False)
    server_store: str | None = field(default=None, repr=False)
    #: The decision logs of the two stores (``xa.decision_log``), where two-phase commits have one of their own.
    client_log: str | None = field(default=None, repr=False)
    server_log: str | None = field(default=None, repr=False)
    response: Response | None = None
    #: Where the report and the differences go; left out, they are not written.
    out: Path | None = None
    #: Rows of each verdict that the report lists; all are in the Parquet file.
    listed: int = 200
    #: Rows still under way count as differences.
    complete: bool = False
    spark: SparkSettings = field(default_factory=SparkSettings)

    def __post_init__(self) -> None:
        if not self.key:
            raise ConfigurationError("no key: name the columns that identify a row")
        if bool(self.client.order) != bool(self.server.order):
            raise ConfigurationError("order needs a column on both sides: the client's order, the server's arrival")
        if self.within and not self.client.order:
            raise ConfigurationError(
                "within says where order counts: it needs the client's order, the server's arrival"
            )
        if self.response is not None and len(self.response.key) != len(self.key):
            raise ConfigurationError(f"the response's key has {len(self.response.key)} columns, not {len(self.key)}")
        _bounded("spark.slices", self.spark.slices, 1, 1024)
        _bounded("spark.ranges", self.spark.ranges, 1, 65_536)
        self.correlation_columns()

    def correlation_columns(self) -> tuple[str, ...]:
        """The client's columns that the correlation is made of.

        :raises ConfigurationError: it is no template.
        """
        if self.correlation is None:
            return ()
        try:
            parsed = list(string.Formatter().parse(self.correlation))
        except ValueError as error:
            raise ConfigurationError(f"correlation {self.correlation!r} is no template: {error}") from error
        names = tuple(name for _, name, _, _ in parsed if name is not None)
        if not names or any(not name.isidentifier() for name in names) or any(spec for _, _, spec, _ in parsed):
            raise ConfigurationError(f"correlation {self.correlation!r}: columns stand in it by name, as order:{{id}}")
        return names

    def way_back(self) -> Config | None:
        """The comparison of what the server got with the responses that the client has, as a config of its own."""
        if self.response is None:
            return None
        key = tuple(
            replace(pair, client=pair.server, server=name, client_zone=pair.server_zone, server_zone=pair.client_zone)
            for pair, name in zip(self.key, self.response.key, strict=True)
        )
        names = {pair.client: pair.server for pair in self.key}
        known = set(self.correlation_columns()) <= set(names)
        correlation = (
            self.correlation.format(**{each: f"{{{names[each]}}}" for each in self.correlation_columns()})
            if self.correlation is not None and known
            else None
        )
        return replace(
            self,
            client=replace(self.server, order=None),
            server=replace(self.response.table, order=None),
            key=key,
            compare=self.response.compare,
            within=(),
            handed_over=None,
            correlation=correlation,
            response=None,
        )


def _bounded(name: str, value: int | None, low: int, high: int) -> None:
    if value is not None and not low <= value <= high:
        raise ConfigurationError(f"{name} is {value}: it lies between {low} and {high}")
