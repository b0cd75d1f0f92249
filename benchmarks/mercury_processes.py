"""Mercury's processes in the benchmarks, all with default settings.

``python -m benchmarks.mercury_processes ROLE SPEC`` runs a role with a `Spec` in JSON, and obeys lines on stdin:

- ``first last rows-in-a-transaction pause`` (the application): commit rows, answer with the seconds of each;
- ``start`` (the application of a store in memory, which is the carrier too): start to send;
- ``count``: how many calls the handler has had in this process;
- ``begin``, ``end``: limit a `Measurement`.

The end of stdin stops the process. What is marked is what a user writes; its lines are counted. Of the two handlers for
PostgreSQL, which are marked with a name, a way has one.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from sqlalchemy import text

from benchmarks.function_profile import FunctionProfile
from benchmarks.measurement import Measurement
from benchmarks.mercury_spec import Spec

# --- user code begin
# isort: split
from dataclasses import dataclass

from mercury import Mercury, Service, Transaction


@dataclass
class Row:
    id: int
    text: str


rows = Service("rows")


# --- user code end
# --- user code begin: one
@rows.operation("Put")
def put(row: Row, tx: Transaction) -> None:
    tx.execute_later("insert into received(id, text) values (:id, :text)", vars(row), resource=resource)


# --- user code end
lists = Service("rows")


# --- user code begin: lists
@lists.operation("Put", batch=100)
def put_all(rows: list[Row], tx: Transaction) -> None:
    insert = "insert into received(id, text) select * from unnest(%s::bigint[], %s::text[])"
    tx.connection(resource).exec_driver_sql(insert, ([row.id for row in rows], [row.text for row in rows]))


# --- user code end
INSERT = text("insert into received(id, text) values (:id, :text)")
ORDER = "insert into orders values (:id, :text)"
ORDER_AT_ONCE, CONFIRM = text(ORDER), "insert into confirmed(id) values (:id)"
#: The callback for responses.
CONFIRMED = "confirmed"
#: The database of the application's tables in `Spec.resources`; ``None`` = the store's own.
resource: str | None = None
memory = Service("rows")
by_connection = Service("rows")
calls = 0


@dataclass
class Done:
    """The response to a row."""

    id: int


@rows.operation("Ask")
def ask(row: Row, tx: Transaction) -> Done:
    put(row, tx)
    return Done(row.id)


@by_connection.operation("Put")
def put_at_once(row: Row, tx: Transaction) -> None:
    tx.connection().execute(INSERT, vars(row))


@memory.operation("Put")
def count(_row: Row) -> None:
    global calls
    calls += 1


@memory.operation("Ask")
def count_and_answer(row: Row) -> Done:
    count(row)
    return Done(row.id)


def confirm(done: Done, tx: Transaction) -> None:
    tx.execute_later(CONFIRM, {"id": done.id}, resource=resource)


def confirm_in_memory(_done: Done) -> None:
    global calls
    calls += 1


class Application:
    """Commits rows, and sends each in the same transaction, under the keys in turn."""

    def __init__(self, mercury: Mercury, spec: Spec) -> None:
        self._mercury = mercury
        self._spec = spec
        policy = spec.policy(mercury.settings.source)
        urls = [f"http://127.0.0.1:{port}/services/rows" for port in spec.ports]
        keys = [f"key {number}" for number in range(spec.keys)] if spec.keys > 1 else ["default"]
        self._senders = [
            mercury.to(urls[number % len(urls)], key=key, policy=policy)  # user code
            for number, key in enumerate(keys)
        ]
        self._text = "x" * spec.body

    def commit(self, numbers: range) -> None:
        with self._mercury.transaction() as tx:
            for number in numbers:
                if self._spec.at_once:
                    tx.connection().execute(ORDER_AT_ONCE, {"id": number, "text": self._text})
                elif self._spec.store != "memory:":
                    tx.execute_later(ORDER, {"id": number, "text": self._text}, resource=resource)
                row, sender = Row(number, self._text), self._senders[number % len(self._senders)]
                if self._spec.asks:
                    sender.request_with_callback(row, CONFIRMED, operation="Ask", tx=tx)
                else:
                    sender.send(row, operation="Put", tx=tx)  # user code

    def run(self, line: str) -> list[float]:
        """Obey a line; the seconds of each transaction."""
        first, last, together, pause = line.split()
        took = []
        for low in range(int(first), int(last) + 1, int(together)):
            begun = time.perf_counter()
            self.commit(range(low, min(low + int(together), int(last) + 1)))
            took.append(time.perf_counter() - begun)
            if float(pause):
                time.sleep(float(pause))
        return took


def service_for(spec: Spec) -> Service:
    """The service whose handler fits the store."""
    if spec.store == "memory:":
        return memory
    if spec.at_once or spec.store.startswith("sqlite"):
        return by_connection
    return lists if spec.lists else rows


def mercury_for(role: str, spec: Spec) -> Mercury:
    """The `Mercury` of a role, not started; the server's listens."""
    resources = name_resource(spec)
    if role == "server":
        mercury = Mercury(spec.store, resources=resources, decision_log=spec.decision_log)  # user code
        mercury.listen(service_for(spec), port=spec.ports[0])  # user code
        return mercury
    mercury = Mercury(spec.store, resources=resources, decision_log=spec.decision_log)
    mercury.callback(CONFIRMED)(confirm_in_memory if spec.store == "memory:" else confirm)
    return mercury


def name_resource(spec: Spec) -> dict[str, str] | None:
    """The resources of `Mercury`; the handlers use the same."""
    global resource
    resource = "app" if spec.database else None
    return {"app": spec.database} if spec.database else None


def main() -> None:
    role, spec = sys.argv[1], Spec(**json.loads(sys.argv[2]))
    profile = FunctionProfile() if spec.functions else None
    if profile is not None:
        profile.install()
    if role == "carrier" and not spec.asks:
        resources = name_resource(spec)
        with Mercury(spec.store, resources=resources, decision_log=spec.decision_log) as mercury:  # user code
            obey(mercury, profile, None)
        return
    mercury = mercury_for(role, spec)
    if role == "carrier":
        mercury.start()
    obey(mercury, profile, Application(mercury, spec) if role == "application" else None)
    mercury.stop()


def obey(mercury: Mercury, profile: FunctionProfile | None, application: Application | None) -> None:
    """Obey lines until the end of stdin."""
    measured: Measurement | None = None
    print("ready", flush=True)
    for line in sys.stdin:
        match line.strip():
            case "start":
                mercury.start()
                answer: Any = "started"
            case "count":
                answer = calls
            case "begin":
                measured = Measurement(profile)
                answer = "begun"
            case "end":
                assert measured is not None
                answer = measured.end()
            case _:
                assert application is not None
                answer = application.run(line)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
