"""What processes and threads use, read from Linux's /proc: CPU time, memory, page faults and waits."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TICK = 1 / os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Task:
    """What one thread has used since it began."""

    #: CPU seconds.
    cpu: float = 0.0
    #: How often it has waited and was woken (voluntary context switches).
    waits: int = 0
    #: Pages that it was the first to write to. With a fixed threshold of malloc for large blocks, each copy of a large
    #: body is made in new pages, so these count the copies.
    pages: int = 0

    def __sub__(self, other: Task) -> Task:
        return Task(self.cpu - other.cpu, self.waits - other.waits, self.pages - other.pages)

    def __add__(self, other: Task) -> Task:
        return Task(self.cpu + other.cpu, self.waits + other.waits, self.pages + other.pages)


def own_threads() -> dict[str, Task]:
    """What the threads of this process have used, by their names without numbers; "others" has ended threads."""
    names = {thread.native_id: thread.name.rstrip("0123456789_-") for thread in threading.enumerate()}
    found: dict[str, Task] = {}
    total = Task()
    for task in (PROC / "self/task").iterdir():
        with suppress(OSError):
            used = _task(task)
            name = names.get(int(task.name), "threads without a name")
            found[name] = found.get(name, Task()) + used
            total += used
    whole = os.times()
    found["others"] = Task(max(0.0, whole.user + whole.system - total.cpu))
    return found


def _task(folder: Path) -> Task:
    cpu = int((folder / "schedstat").read_text().split()[0]) / 1e9
    waits = (folder / "status").read_text().rpartition("\nvoluntary_ctxt_switches:")[2].split()[0]
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    return Task(cpu, int(waits), int(fields[7]))


# --- processes -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Stat:
    pid: int
    parent: int
    #: CPU seconds of the process and of its children that have ended.
    cpu: float


def _stats() -> Iterator[_Stat]:
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                yield _Stat(int(entry.name), int(fields[1]), sum(map(int, fields[11:15])) * TICK)


def cpu_seconds(roots: Iterable[int]) -> float:
    """CPU seconds of processes and all their descendants, those that have ended included."""
    return sum(stat.cpu for stat in _descendants(roots))


def _descendants(roots: Iterable[int]) -> Iterator[_Stat]:
    stats = {stat.pid: stat for stat in _stats()}
    children: dict[int, list[int]] = {}
    for stat in stats.values():
        children.setdefault(stat.parent, []).append(stat.pid)
    todo, seen = list(roots), set[int]()
    while todo:
        pid = todo.pop()
        if pid in seen:
            continue  # a root that descends from another one
        seen.add(pid)
        todo += children.get(pid, [])
        if pid in stats:
            yield stats[pid]


def ended_children_cpu(pid: int) -> float:
    """CPU seconds of the children of a process that have ended."""
    fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[13:15])) * TICK


def peak_memory(roots: Iterable[int]) -> int:
    """The sum of the most memory that each of these processes has had since `forget_peak`, in bytes.

    Descendants count too. Memory that PostgreSQL's processes share counts in each, so it is not for PostgreSQL.
    """
    return sum(_field(stat.pid, "VmHWM") for stat in _descendants(roots))


def forget_peak(roots: Iterable[int]) -> None:
    """Begin to measure the most memory again."""
    for stat in _descendants(roots):
        with suppress(OSError):
            (PROC / str(stat.pid) / "clear_refs").write_text("5")


def resident(pid: int) -> int:
    """The memory that a process has now, in bytes."""
    return _field(pid, "VmRSS")


def _field(pid: int, name: str) -> int:
    with suppress(OSError):
        for line in (PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return 0


def busy_seconds() -> float:
    """CPU seconds that all processes of the machine have used since it started."""
    fields = [int(field) for field in (PROC / "stat").read_text().split("\n", 1)[0].split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields[:8]
    return (user + nice + system + irq + softirq + steal) * TICK


def loopback_bytes() -> int:
    """Bytes that have been sent over the loopback interface: HTTP here, because PostgreSQL has a Unix socket."""
    for line in (PROC / "net/dev").read_text().splitlines():
        name, _, figures = line.partition(":")
        if name.strip() == "lo":
            return int(figures.split()[8])
    return 0


def description() -> str:
    """The machine in one line: processors, memory, kernel."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in (PROC / "cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        "unknown processor",
    )
    size = next(int(line.split()[1]) for line in (PROC / "meminfo").read_text().splitlines() if "MemTotal" in line)
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores of {model}, {size / 2**20:.0f} GB, Linux {os.uname().release}"
