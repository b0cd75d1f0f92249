"""Where the CPU time of a message goes, in the client, the server and PostgreSQL.

``python -m benchmarks.profile [--rows N] [--mode in-only|in-out] [--phase drain|stream|lone] [--sequences N]
[--processes N] [--fresh] [--single] [--list-handler]`` moves rows in the same database with default settings, once for
each part that is measured:

- totals: CPU microseconds and waits (each is a wake-up) a message by thread and process, WAL, bytes over the network;
- functions: CPU microseconds and calls a message by function (cProfile with the CPU clock of each thread; what the
  instrument costs is taken off), with the statements and commits by database from PostgreSQL's log;
- commit: the same of an application's commits with one message each, while the other processes do not run;
- copies: how often a large body is copied, from the pages that malloc gets for lone messages with such a body.

``--only PART`` (repeatable) leaves the others out. ``--fresh`` measures the creation of all sequences but one, too: of
3,000 rows in 1,000 sequences each row pays for a third of a sequence. CPU figures of two runs on one machine agree
within a few percent, wall times do not.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks.child import Child, end_in_order
from benchmarks.function_profile import CostRow, FunctionProfile, as_rows
from benchmarks.machine import PAGE, Task, ended_children_cpu, loopback_bytes, own_threads
from benchmarks.mercury_processes import Application, mercury_for
from benchmarks.mercury_spec import Spec
from benchmarks.statement_log import logged_statements
from benchmarks.ways import connect, mercury_way
from mercury.postgres.embedded import EmbeddedPostgres

PARTS = ("totals", "functions", "commit", "copies")
#: Seconds after which a run is given up.
PATIENCE = 300.0
#: Seconds from one lone row to the next.
LONE_PAUSE = 0.05
#: Characters of a body in the part "copies", and the number of such messages.
LARGE, LARGE_MESSAGES = 1_000_000, 8
#: malloc gets new pages from the kernel for blocks of this many bytes, and returns them when they are freed.
LARGE_BLOCK = "65536"


@dataclass
class Found:
    """One run: what the processes have used for ``rows`` rows. CPU times are seconds."""

    rows: int
    seconds: float = 0.0
    threads: dict[str, dict[str, Task]] = field(default_factory=dict)
    functions: dict[str, dict[str, dict[str, CostRow]]] = field(default_factory=dict)
    postgres: dict[str, float] = field(default_factory=dict)
    wal: int = 0
    network: int = 0
    statements: dict[str, Counter[str]] = field(default_factory=dict)


class Job:
    """Two databases, and what the application commits in one of them."""

    def __init__(self, postgres: EmbeddedPostgres, name: str, options: argparse.Namespace, body: int) -> None:
        self.asks = options.mode == "in-out"
        shape = {"single": options.single, "lists": options.list_handler}
        keys, processes = options.sequences, options.processes
        way = mercury_way(
            postgres, postgres.folder, name, processes=processes, keys=keys, asks=self.asks, body=body, **shape
        )
        self.client, self.server = way.client, way.server
        #: Those of the processes, by their names.
        self.commands = {
            side if number == 1 else f"{side} {number}": command
            for side in ("server", "client")
            for number, command in enumerate(way.processes[side], 1)
        }
        spec = Spec(**json.loads(way.application[-1]))
        self.mercury = mercury_for("application", spec)
        self._application = Application(self.mercury, spec)

    def commit(self, numbers: range) -> None:
        self._application.commit(numbers)

    def arrived(self, rows: int) -> int:
        """Wait until so many rows have arrived; how many have."""
        until = time.monotonic() + PATIENCE
        url, table = (self.client, "confirmed") if self.asks else (self.server, "received")
        with connect(url, autocommit=True) as connection:
            while True:
                (there,) = connection.execute(f"select count(*) from {table}".encode()).fetchone() or (0,)
                if there >= rows:
                    return int(there)
                if time.monotonic() > until:
                    raise SystemExit(f"{there} of {rows} rows came within {PATIENCE:g} s")
                time.sleep(0.05)


# --- one run -------------------------------------------------------------------------------------------------------


def run(postgres: EmbeddedPostgres, name: str, options: argparse.Namespace, *, functions: bool) -> Found:
    """Measure all rows of a stream or of a drain, or lone rows, after one row in each sequence, or in one.

    For a drain the client's processes are paused while the backlog is committed.
    """
    job = Job(postgres, name, options, options.body)
    first = 2 if options.fresh else options.sequences + 1
    numbers = range(first, first + options.rows)
    with processes(job, functions=functions) as children:
        job.commit(range(1, first))
        job.arrived(first - 1)
        time.sleep(1.0)  # until the acknowledgements are stored
        clients = [child for name, child in children.items() if name.startswith("client")]
        paused = clients if options.phase == "drain" else []
        for child in paused:
            child.pause()
        if paused:
            for low in range(numbers.start, numbers.stop, 100):
                job.commit(range(low, min(low + 100, numbers.stop)))
        with measured(postgres, job, children, functions=functions, paused=paused) as found:
            if not paused:
                for number in numbers:
                    job.commit(range(number, number + 1))
                    if options.phase == "lone":
                        time.sleep(LONE_PAUSE)
            job.arrived(numbers.stop - 1)
            found.rows = options.rows
    job.mercury.stop()
    return found


@contextmanager
def processes(job: Job, *, functions: bool, environment: dict[str, str] | None = None) -> Iterator[dict[str, Child]]:
    children = start(job, functions=functions, environment=environment)
    try:
        yield children
    finally:
        for child in children.values():
            child.stop()


def start(job: Job, *, functions: bool, environment: dict[str, str] | None = None) -> dict[str, Child]:
    started = {}
    for side, command in job.commands.items():
        spec = replace(Spec(**json.loads(command[-1])), functions=functions)
        started[side] = Child([*command[:-1], spec.json()], environment)
    return started


@contextmanager
def measured(
    postgres: EmbeddedPostgres,
    job: Job,
    children: dict[str, Child],
    *,
    functions: bool,
    here: bool = False,
    paused: Sequence[Child] = (),
) -> Iterator[Found]:
    """Measure the block; its rows are filled in by the caller.

    :param here: measure this thread too, as the application.
    :param paused: the children that are resumed when the measurement begins.
    """
    found = Found(rows=1)
    own = FunctionProfile() if functions and here else None
    stack = ExitStack()
    if functions:
        found.statements = stack.enter_context(logged_statements(postgres, job.server))
    for child in children.values():
        child.tell("begin")
    before, wal, network = _postgres_cpu(postgres), _wal(job), loopback_bytes()
    threads = own_threads()
    for child in paused:
        child.resume()
    for child in children.values():
        child.answer()
    if own is not None:
        own.here()
        own.begin()
    begun = time.perf_counter()
    yield found
    found.seconds = time.perf_counter() - begun
    if own is not None:
        sys.setprofile(None)
        found.functions["application"] = as_rows(own.end())
    if here:
        found.threads["application"] = {
            name: used - threads.get(name, Task()) for name, used in own_threads().items() if name != "others"
        }
    found.network, found.wal = loopback_bytes() - network, _wal(job) - wal
    found.postgres = {name: seconds - before.get(name, 0.0) for name, seconds in _postgres_cpu(postgres).items()}
    for name, child in children.items():
        ended = child.ask("end")
        found.threads[name] = {thread: Task(**used) for thread, used in ended["threads"].items()}
        if functions:
            found.functions[name] = ended["functions"]
    stack.close()


def commits(postgres: EmbeddedPostgres, name: str, options: argparse.Namespace, *, functions: bool) -> Found:
    """Transactions of the application with one row and one message each."""
    job = Job(postgres, name, options, options.body)
    job.commit(range(1, 2))
    with measured(postgres, job, {}, functions=functions, here=True) as found:
        for number in range(2, options.rows // 4 + 3):
            job.commit(range(number, number + 1))
        found.rows = options.rows // 4 + 1
    job.mercury.stop()
    return found


def _postgres_cpu(postgres: EmbeddedPostgres) -> dict[str, float]:
    """CPU seconds of PostgreSQL's processes, by database."""
    assert postgres.pid is not None
    found: dict[str, float] = {}
    for entry in Path(f"/proc/{postgres.pid}/task/{postgres.pid}/children").read_text().split():
        try:
            title = Path(f"/proc/{entry}/cmdline").read_text().split("\0")[0]
            seconds = int(Path(f"/proc/{entry}/schedstat").read_text().split()[0]) / 1e9
        except OSError:
            continue
        side = re.search(r"_(client|server) ", title)
        name = f"database of the {side[1]}" if side is not None else title.split(": ")[-1].split(" ")[0]
        found[name] = found.get(name, 0.0) + seconds
    found["sessions that have ended"] = ended_children_cpu(postgres.pid)
    return found


def _wal(job: Job) -> int:
    with connect(job.server, autocommit=True) as connection:
        (there,) = connection.execute("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone() or (0,)
        return int(there)


def copies(postgres: EmbeddedPostgres, options: argparse.Namespace) -> Found:
    """Lone messages with a large body, one after the other."""
    job = Job(postgres, "copies", options, LARGE)
    with processes(job, functions=False, environment={"MALLOC_MMAP_THRESHOLD_": LARGE_BLOCK}) as children:
        job.commit(range(1, 2))
        job.arrived(1)
        with measured(postgres, job, children, functions=False) as found:
            for number in range(2, LARGE_MESSAGES + 2):
                job.commit(range(number, number + 1))
                job.arrived(number)
            found.rows = LARGE_MESSAGES
    job.mercury.stop()
    return found


# --- output --------------------------------------------------------------------------------------------------------


def tell_totals(found: Found) -> None:
    print(f"\nTotals: {found.rows} messages in {found.seconds:.2f} s; CPU microseconds and wake-ups a message\n")
    whole = 0.0
    for process, threads in found.threads.items():
        total = sum((used for used in threads.values()), Task())
        whole += total.cpu
        print(f"{process:42} {1e6 * total.cpu / found.rows:9.1f} us {total.waits / found.rows:8.2f} wake-ups")
        for name, used in sorted(threads.items(), key=lambda item: -item[1].cpu):
            if used.cpu > 1e-6 * found.rows or used.waits:
                print(f"  {name:40} {1e6 * used.cpu / found.rows:9.1f} us {used.waits / found.rows:8.2f}")
    database = sum(found.postgres.values())
    print(f"{'PostgreSQL':42} {1e6 * database / found.rows:9.1f} us")
    for name, seconds in sorted(found.postgres.items()):
        if seconds > 1e-6 * found.rows:
            print(f"  {name:40} {1e6 * seconds / found.rows:9.1f} us")
    print(f"{'all':42} {1e6 * (whole + database) / found.rows:9.1f} us, {(whole + database) / found.seconds:.2f} cores")
    print(f"WAL {found.wal / found.rows:.0f} bytes a message, network {found.network / found.rows:.0f} bytes a message")


def tell_functions(found: Found, top: int) -> None:
    for process, threads in found.functions.items():
        print(f"\nFunctions of the {process}, CPU microseconds a message: without and with what they call; calls\n")
        rows = [
            (own, whole, calls, thread, name)
            for thread, functions in threads.items()
            for name, (calls, own, whole) in functions.items()
            if calls
        ]
        for own, whole, calls, thread, name in sorted(rows, key=lambda row: -row[0])[:top]:
            print(_function(found, own, whole, calls, thread, name))
        print("\n  the same by the time with what they call, Mercury's own functions\n")
        ours = [row for row in rows if row[4].startswith(("mercury/", "benchmarks/"))]
        for own, whole, calls, thread, name in sorted(ours, key=lambda row: -row[1])[:top]:
            print(_function(found, own, whole, calls, thread, name))


def _function(found: Found, own: float, whole: float, calls: int, thread: str, name: str) -> str:
    each = 1e6 / found.rows
    return f"  {each * own:8.1f} {each * whole:8.1f} {calls / found.rows:8.2f}  {thread:18} {name}"


def tell_statements(found: Found, top: int) -> None:
    for side, counted in found.statements.items():
        if not counted:
            continue
        print(
            f"\nStatements in the database of the {side}: {counted.total() / found.rows:.3f} a message, "
            f"{counted['COMMIT'] / found.rows:.3f} explicit commits a message\n"
        )
        for text, count in counted.most_common(top):
            print(f"  {count / found.rows:8.3f}  {text}")


def tell_copies(found: Found) -> None:
    print(f"\nCopies of a body of {LARGE} characters, by pages that were written for the first time\n")
    for process, threads in found.threads.items():
        pages = sum(used.pages for used in threads.values())
        print(f"{process:42} {pages * PAGE / LARGE / found.rows:8.1f} copies")
        for name, used in sorted(threads.items(), key=lambda item: -item[1].pages):
            each = used.pages * PAGE / LARGE / found.rows
            if each >= 0.1:
                print(f"  {name:40} {each:8.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--mode", choices=("in-only", "in-out"), default="in-only")
    parser.add_argument("--phase", choices=("drain", "stream", "lone"), default="drain")
    parser.add_argument("--sequences", type=int, default=1, help="send under so many keys in turn")
    parser.add_argument("--processes", type=int, default=1, help="so many on each side")
    parser.add_argument("--fresh", action="store_true", help="measure also how the sequences are made")
    parser.add_argument("--body", type=int, default=300, help="characters of a row")
    parser.add_argument("--single", action="store_true", help="one message in each HTTP exchange")
    parser.add_argument("--list-handler", action="store_true", help="the handler takes lists of rows")
    parser.add_argument("--top", type=int, default=25, help="functions and statements to list")
    parser.add_argument("--only", choices=PARTS, action="append")
    options = parser.parse_args()
    parts = options.only or PARTS
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mercury-bench-")))
        folder.chmod(0o755)  # if this process is root, the server runs as another user
        postgres = EmbeddedPostgres(folder / "pg").start()
        stack.callback(postgres.stop)
        if "totals" in parts:
            tell_totals(run(postgres, "totals", options, functions=False))
        if "functions" in parts:
            found = run(postgres, "functions", options, functions=True)
            tell_functions(found, options.top)
            tell_statements(found, options.top)
        if "commit" in parts:
            print("\nThe application's commit of one row and one message; below, a message is such a commit")
            tell_totals(commits(postgres, "commit", options, functions=False))
            found = commits(postgres, "commits", options, functions=True)
            tell_functions(found, options.top)
            tell_statements(found, options.top)
        if "copies" in parts:
            tell_copies(copies(postgres, options))


if __name__ == "__main__":
    end_in_order()
    main()
