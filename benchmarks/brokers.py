"""The brokers of the rivals: RabbitMQ and NATS, each run in a folder of its own, with durable defaults.

They must be installed (Debian: ``apt-get install rabbitmq-server nats-server``); what apt starts is not used.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.machine import PROC

#: Seconds until a broker accepts connections.
PATIENCE = 90.0
RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


class Unavailable(Exception):
    """A broker cannot run here; the text says why."""


@dataclass(frozen=True, slots=True)
class Broker:
    pid: int
    environment: dict[str, str]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def running(name: str, folder: Path) -> Iterator[Broker]:
    """Run the broker of this name until the end of the block.

    :raises Unavailable: it is not installed, or does not start.
    """
    folder = folder / name
    folder.mkdir(exist_ok=True)
    with _rabbit(folder) if name == "rabbit" else _nats(folder) as broker:
        yield broker


@contextmanager
def _rabbit(folder: Path) -> Iterator[Broker]:
    if not RABBITMQ.exists():
        raise Unavailable("RabbitMQ is not installed (apt-get install rabbitmq-server)")
    port, distribution, mapper = (str(free_port()) for _ in range(3))
    user: dict[str, object] = {}
    if os.geteuid() == 0:
        shutil.chown(folder, "rabbitmq", "rabbitmq")
        user = {"user": "rabbitmq", "group": "rabbitmq", "extra_groups": []}
    environment = {
        **os.environ,
        "HOME": str(folder),
        "RABBITMQ_NODENAME": "bench@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": port,
        "RABBITMQ_DIST_PORT": distribution,
        "ERL_EPMD_PORT": mapper,
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
    }
    url = f"amqp://guest:guest@127.0.0.1:{port}/%2f?heartbeat=60"
    try:
        with _process([str(RABBITMQ)], environment, folder, int(port), user) as pid:
            time.sleep(1.0)  # it accepts connections a moment before it serves them
            yield Broker(pid, {"AMQP_URL": url})
    finally:
        _end_port_mapper(mapper)


def _end_port_mapper(port: str) -> None:
    """End Erlang's port mapper, which RabbitMQ starts beside itself: that with our port."""
    for entry in PROC.iterdir():
        with suppress(OSError):
            named = entry.name.isdecimal() and (entry / "comm").read_text().strip() == "epmd"
            if named and f"ERL_EPMD_PORT={port}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGTERM)


@contextmanager
def _nats(folder: Path) -> Iterator[Broker]:
    program = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin")
    if program is None:
        raise Unavailable("NATS is not installed (apt-get install nats-server)")
    port = free_port()
    command = [program, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder)]
    with _process(command, dict(os.environ), folder, port, {}) as pid:
        yield Broker(pid, {"NATS_URL": f"nats://127.0.0.1:{port}"})


@contextmanager
def _process(
    command: list[str], environment: dict[str, str], folder: Path, port: int, user: dict[str, object]
) -> Iterator[int]:
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(  # type: ignore[call-overload]
            command, env=environment, cwd=folder, stdout=output, stderr=output, start_new_session=True, **user
        )
    try:
        until = time.monotonic() + PATIENCE
        while not _accepts(port):
            if process.poll() is not None or time.monotonic() > until:
                raise Unavailable(f"{command[0]} does not start: {(folder / 'output').read_text()[-300:]}")
            time.sleep(0.2)
        yield process.pid
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _accepts(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
