"""PostgreSQL as the database of a store."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    URL,
    BigInteger,
    Boolean,
    Connection,
    Double,
    Engine,
    LargeBinary,
    Table,
    Text,
    create_engine,
    func,
    select,
)
from sqlalchemy.dialects import postgresql

from mercury.errors import CapabilityError
from mercury.storage.api import Capabilities
from mercury.storage.sql.dialect import AS_IT_IS, Dialect, Rows

#: Connect time-out in seconds, unless the URL sets one.
CONNECT_TIMEOUT = 10
#: Executions after which a connection prepares a statement: Mercury repeats few statements.
PREPARE_AFTER = 1
#: The advisory lock that a process holds while it changes the schema.
SCHEMA_LOCK = 0x6D657263
HAS_DEFERRED = "select exists (select from pg_trigger where tgdeferrable)"
#: Rolling back to the nested savepoint restores the modes of the constraints; one round trip.
CHECK_DEFERRED = (
    "savepoint mercury_check; set constraints all immediate; "
    "rollback to savepoint mercury_check; release savepoint mercury_check"
)
#: Defaults for an application's engine without time-outs.
LIMITS = """
    select case when current_setting('lock_timeout') = '0' then set_config('lock_timeout', '10s', true) end,
        case when current_setting('idle_in_transaction_session_timeout') = '0'
            then set_config('idle_in_transaction_session_timeout', '30s', true) end
"""


class Postgres(Dialect):
    """PostgreSQL with psycopg: locks single rows; several processes may share the database."""

    capabilities = Capabilities(durable=True, shared=True, notifies=True, last_resource=True, two_phase=True)
    name = "postgresql"
    single_writer = False
    remote = True
    has_clock = True
    changes_in_queries = True
    drivers = ("postgresql", "postgresql+psycopg")

    def url(self, given: URL) -> URL:
        return given.set(drivername="postgresql+psycopg")

    def has_made(self, engine: Engine) -> bool:
        return super().has_made(engine) and engine.dialect.driver == "psycopg"

    def exists(self, url: URL) -> bool:
        return True

    def engine(self, url: URL, lock_timeout: float, idle_timeout: float) -> Engine:
        options = (
            f"-c lock_timeout={int(lock_timeout * 1000)} "
            f"-c idle_in_transaction_session_timeout={int(idle_timeout * 1000)} "
            "-c synchronous_commit=on -c default_transaction_isolation=read\\ committed"
        )
        given = str(url.query.get("options", ""))
        return create_engine(
            url,
            connect_args={
                "options": f"{options} {given}".strip(),
                "application_name": "mercury",
                "prepare_threshold": PREPARE_AFTER,
                "connect_timeout": int(str(url.query.get("connect_timeout", CONNECT_TIMEOUT))),
            },
            pool_size=10,
            max_overflow=20,
            # Last in, first out: the few connections in use have prepared the statements, and their plans are cached.
            pool_use_lifo=True,
            pool_reset_on_return="rollback",
            pool_pre_ping=False,
        )

    def begin_writing(self, connection: Connection) -> None:
        """No effect: the driver begins the transaction."""

    def limit_lock_wait(self, connection: Connection, milliseconds: int) -> None:
        connection.exec_driver_sql(f"set local lock_timeout = {milliseconds}")

    def lock_schema(self, connection: Connection) -> None:
        # If two processes find an empty database at the same time, only one of them makes the schema.
        connection.exec_driver_sql(f"select pg_advisory_xact_lock({SCHEMA_LOCK})")

    def execute_all(self, connection: Connection, statements: Sequence[str]) -> None:
        connection.exec_driver_sql("; ".join(statements), execution_options=AS_IT_IS)

    def insert_marker(self, connection: Connection, table: Table, marker: str, *, ignore: bool = False) -> bool:
        end = " on conflict do nothing" if ignore else ""
        statement = (
            f"insert into {table.name} (id, made_at) values (%(id)s, extract(epoch from clock_timestamp())){end}"  # noqa: S608
        )
        return connection.exec_driver_sql(statement, {"id": marker}).rowcount == 1

    def upsert(self, table: Table) -> Any:
        return postgresql.insert(table)

    def has_deferred(self, connection: Connection) -> bool:
        return bool(connection.exec_driver_sql(HAS_DEFERRED).scalar_one())

    def check_deferred(self, connection: Connection) -> None:
        connection.exec_driver_sql(CHECK_DEFERRED, execution_options=AS_IT_IS)

    def check_durable(self, connection: Connection) -> None:
        if connection.exec_driver_sql("show synchronous_commit").scalar() == "off":
            raise CapabilityError("the session has synchronous_commit off: what it commits may be lost")

    def obstacle_to_prepare(self, connection: Connection) -> str | None:
        if connection.exec_driver_sql("show max_prepared_transactions").scalar() != "0":
            return None
        return (
            "allows no prepared transactions: set max_prepared_transactions = 64 (or more: as many as may run at once) "
            "in its postgresql.conf and restart it"
        )

    def limit_session(self, connection: Connection) -> None:
        connection.exec_driver_sql(LIMITS)

    def now(self, connection: Connection) -> float:
        return float(connection.execute(select(func.extract("epoch", func.clock_timestamp()))).scalar_one())

    def insert(self, connection: Connection, table: Table, rows: Rows, *, ignore: bool = False) -> None:
        if not rows:
            return
        statement, columns = _insert(table, ignore=ignore)
        connection.exec_driver_sql(statement, {name: _array([row[name] for row in rows]) for name in columns})

    def insert_both(self, connection: Connection, first: Table, first_rows: Rows, second: Table, rows: Rows) -> None:
        statement, columns = _insert(first)
        before, names = _insert(second, prefix="second_")
        parameters = {name: _array([row[name] for row in first_rows]) for name in columns}
        parameters |= {f"second_{name}": _array([row[name] for row in rows]) for name in names}
        connection.exec_driver_sql(f"with second as ({before}) {statement}", parameters)

    def update(self, connection: Connection, table: Table, key: str, rows: Rows) -> None:
        if not rows:
            return
        columns = tuple(rows[0])
        connection.exec_driver_sql(
            _update(table, key, columns), {name: _array([row[name] for row in rows]) for name in columns}
        )


# Statements made of table and column names of the schema: few, and cached.


@lru_cache(maxsize=128)
def _update(table: Table, key: str, columns: tuple[str, ...]) -> str:
    sets = ", ".join(f'"{name}" = v."{name}"' for name in columns if name != key)
    names = ", ".join(f'"{name}"' for name in columns)
    arrays = ", ".join(_typed(table, name) for name in columns)
    return f'update {table.name} t set {sets} from unnest({arrays}) as v({names}) where t."{key}" = v."{key}"'  # noqa: S608


@lru_cache(maxsize=128)
def _insert(table: Table, *, ignore: bool = False, prefix: str = "") -> tuple[str, tuple[str, ...]]:
    columns = tuple(column.name for column in table.columns if not (column.primary_key and column.name == "position"))
    names = ", ".join(f'"{name}"' for name in columns)
    arrays = ", ".join(_typed(table, name, prefix) for name in columns)
    end = " on conflict do nothing" if ignore else ""
    return f"insert into {table.name} ({names}) select * from unnest({arrays}){end}", columns  # noqa: S608


def _typed(table: Table, name: str, prefix: str = "") -> str:
    kinds: tuple[tuple[type, str], ...] = (
        (Text, "%({})s::text[]"),
        (Boolean, "%({})s::boolean[]"),
        (Double, "%({})s::double precision[]"),
        (BigInteger, "%({})s::bigint[]"),
        (LargeBinary, "%({})b::bytea[]"),
    )
    kind = table.columns[name].type
    return next(cast for known, cast in kinds if isinstance(kind, known)).format(prefix + name)


def _array(values: list[Any]) -> str | list[bytes | None]:
    """The values of one column as the text of a PostgreSQL array; faster than the driver's conversion.

    Bytes are returned as a list: the driver sends them in binary.
    """
    if any(isinstance(value, bytes) for value in values):
        return values
    return f"{{{','.join([_element(value) for value in values])}}}"


def _element(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"'
        case bool():
            return "t" if value else "f"
        case int() | float():
            return repr(value)
    raise TypeError(f"no element of an array: {type(value).__name__}")
