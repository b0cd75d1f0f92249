"""An active member and its standby; the active one is killed while orders are sent: ``python -m samples.failover``."""

import argparse
import http.client
import os
import socket
import sqlite3
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from mercury import Mercury
from samples.failover.messages import Order

MERCURY = str(Path(sysconfig.get_path("scripts")) / "mercury")
READY, STANDBY = 200, 503

parser = argparse.ArgumentParser(prog="python -m samples.failover", description=__doc__)
parser.add_argument("--orders", type=int, default=40, help="how many are sent; default: %(default)s")
parser.add_argument("--timeout", type=float, default=60, help="the longest wait in seconds; default: %(default)s")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start(database: Path, port: int) -> subprocess.Popen[bytes]:
    """Start a member."""
    return subprocess.Popen(
        [MERCURY, "serve", "samples.failover.server:app", "--port", str(port), "--role", "active-standby"],
        env={
            **os.environ,
            "MERCURY_STORE": f"sqlite:///{database}",
            "MERCURY_ROLE_LEASE": "1",  # seconds without a sign of life after which the standby takes over
            "MERCURY_LOG_LEVEL": "ERROR",
        },
        stdout=subprocess.DEVNULL,
    )


def active_of(ports: Sequence[int], timeout: float) -> int:
    """Wait until one member is active and the other one is its standby. Returns the index of the active one."""
    deadline = time.monotonic() + timeout
    while sorted(states := [health(port) for port in ports]) != [READY, STANDBY]:
        if time.monotonic() > deadline:
            raise SystemExit("the members do not start")
        time.sleep(0.05)
    return states.index(READY)


def health(port: int) -> int:
    """The status of /readyz; 0 = it does not answer."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status
        except OSError:
            return 0


def main(orders: int, timeout: float) -> int:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as members:
        database, ports = Path(folder) / "store.db", (free_port(), free_port())
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("create table handled (position integer primary key, number integer, pid integer)")
        started = [start(database, port) for port in ports]
        for member in started:
            members.callback(member.wait)
            members.callback(member.kill)
        active = started[active_of(ports, timeout)]
        with Mercury("memory:") as mercury:
            first, second = (f"http://127.0.0.1:{port}/services/orders" for port in ports)
            sender = mercury.to(f"failover:({first},{second})")
            for number in range(orders):
                sender.send(Order(number))
                time.sleep(0.02)
                if number == orders // 2:
                    handled(database, 1, timeout)
                    active.kill()
                    print(f"order {number} is sent, and the active member is killed", flush=True)
            sender.close()
            done = sender.wait(timeout)
        if not done:
            print(f"not everything is acknowledged: {done}", file=sys.stderr)
            return 1
        return report(database, orders, timeout)


def handled(database: Path, count: int, timeout: float) -> list[tuple[int, int]]:
    """Wait until so many orders are handled. Returns the number and the process of each, in the order of their work."""
    deadline = time.monotonic() + timeout
    while True:
        with closing(sqlite3.connect(database)) as connection:
            rows = connection.execute("select number, pid from handled order by position").fetchall()
        if len(rows) >= count or time.monotonic() > deadline:
            return rows
        time.sleep(0.05)


def report(database: Path, orders: int, timeout: float) -> int:
    """Compare what was handled with what was sent. What is acknowledged may still wait for its handler."""
    rows = handled(database, orders, timeout)
    numbers = [number for number, _ in rows]
    lost, repeated = orders - len(set(numbers)), len(numbers) - len(set(numbers))
    order = "in order" if numbers == sorted(numbers) else "not in order"
    print(f"{len(rows)} handled by {len({pid for _, pid in rows})} members: {lost} lost, {repeated} repeated, {order}")
    return 0 if numbers == list(range(orders)) else 1


if __name__ == "__main__":
    sys.exit(main(**vars(parser.parse_args())))
