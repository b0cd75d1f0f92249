"""The configuration of a reconciliation, made from a TOML file by `mercury.reconcile.reading`, or in Python."""

from __future__ import annotations

import string
from dataclasses import dataclass, field, replace
from pathlib import Path

from mercury.errors import ConfigurationError
from mercury.reconcile.kinds import Kind
from mercury.reconcile.places import MEMORY


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """An application's table."""

    #: An SQLAlchemy URL.
    url: str = field(repr=False)
    #: ``table`` or ``schema.table``.
    name: str
    #: An SQL condition; rows that do not fulfil it are left out. ``None`` = all rows.
    where: str | None = None
    #: The column with the order of sending (client) or of arrival (server); ``None`` = order is not compared.
    order: str | None = None
    #: The column with the time of sending or of arrival, for the plots; ``None`` = no plots.
    time: str | None = None
    time_zone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A pair of columns that correspond."""

    client: str
    server: str
    #: How the values are compared; ``None`` = by the types of the two columns.
    kind: Kind | None = None
    scale: int | None = None
    client_zone: str = "UTC"
    server_zone: str = "UTC"
    trim: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The client's table of responses, with a row for each request that was answered."""

    table: Table
    #: The names of the key columns in this table, in the order of `Config.key`.
    key: tuple[str, ...]
    #: Pairs of a column of the server's table (``client``) and one of this table (``server``).
    compare: tuple[Column, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """The settings of Spark. Each is bounded, whatever the size of the tables."""

    #: The master's URL; ``local[*]`` = all processors of this machine.
    master: str = "local[*]"
    #: The memory of the driver, which in local mode is the only process.
    memory: str = "1g"
    #: The number of slices of each table that are read in parallel; ``None`` = by the table's size and the processors.
    slices: int | None = None
    #: The number of key ranges with a checksum of their own; ``None`` = one for 200 rows, at most 65,536.
    ranges: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One reconciliation.

    :raises ConfigurationError: a setting is out of range, or settings contradict each other. The databases are not
        opened here.
    """

    client: Table
    server: Table
    key: tuple[Column, ...]
    compare: tuple[Column, ...]
    #: The client's columns that made the key of its messages: order is compared among rows with equal values in them.
    #: Empty = order is compared over all rows.
    within: tuple[str, ...] = ()
    #: A column of the client that is null or false until the row's message was handed over to Mercury.
    handed_over: str | None = None
    #: The template that makes the correlation of a row's message from the client's columns, as ``order:{id}``.
    correlation: str | None = None
    #: The URLs of the two Mercury stores in between; ``memory:`` = a store that was lost with its process.
    client_store: str | None = field(default=None, repr=False)
    server_store: str | None = field(default=None, repr=False)
    #: The URLs of the stores of the relays that the messages pass, in the order of the way.
    relay_stores: tuple[str, ...] = field(default=(), repr=False)
    #: The URLs of the server's stages (``stage.store``).
    server_stages: tuple[str, ...] = field(default=(), repr=False)
    #: The URLs of the two stores' decision logs (``xa.decision_log``); ``None`` = the store itself.
    client_log: str | None = field(default=None, repr=False)
    server_log: str | None = field(default=None, repr=False)
    response: Response | None = None
    #: The folder for the report and the differences; ``None`` = they are not written.
    out: Path | None = None
    #: The most rows of each verdict that the report lists; the Parquet file has all of them.
    listed: int = 200
    #: Whether rows that are still on their way count as differences.
    complete: bool = False
    spark: SparkSettings = field(default_factory=SparkSettings)

    def __post_init__(self) -> None:
        if not self.key:
            raise ConfigurationError("no key: name the columns that identify a row")
        if bool(self.client.order) != bool(self.server.order):
            raise ConfigurationError("order needs a column on both sides: the client's order, the server's arrival")
        if self.within and not self.client.order:
            raise ConfigurationError(
                "within limits the comparison of order: it needs the client's order, the server's arrival"
            )
        if self.response is not None and len(self.response.key) != len(self.key):
            raise ConfigurationError(f"the response's key has {len(self.response.key)} columns, not {len(self.key)}")
        if self.relay_stores:
            if {self.client_store, self.server_store} & {None, MEMORY}:
                raise ConfigurationError("stores.relays: name the client's and the server's store too, in databases")
            if self.response is not None:
                raise ConfigurationError("stores.relays: a relay passes on no responses")
        if self.server_stages and self.server_store in (None, MEMORY):
            raise ConfigurationError("stores.stages: name the server's store too, in a database")
        _bounded("spark.slices", self.spark.slices, 1, 1024)
        _bounded("spark.ranges", self.spark.ranges, 1, 65_536)
        self.correlation_columns()

    def correlation_columns(self) -> tuple[str, ...]:
        """The client's columns in the correlation's template.

        :raises ConfigurationError: the template is not valid.
        """
        if self.correlation is None:
            return ()
        try:
            parsed = list(string.Formatter().parse(self.correlation))
        except ValueError as error:
            raise ConfigurationError(f"correlation {self.correlation!r} is not a template: {error}") from error
        names = tuple(name for _, name, _, _ in parsed if name is not None)
        if not names or any(not name.isidentifier() for name in names) or any(spec for _, _, spec, _ in parsed):
            raise ConfigurationError(
                f"correlation {self.correlation!r}: it names columns in braces, as in order:{{id}}"
            )
        return names

    def response_config(self) -> Config | None:
        """The config that compares the server's table with the client's table of responses."""
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
        raise ConfigurationError(f"{name} is {value}: it must be between {low} and {high}")
