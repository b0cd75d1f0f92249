"""The server's process of `mercury dev`: it serves the application, and sends sample messages to it.

`mercury dev` starts it, and starts a new one when a file has changed. It ends by SIGTERM, and when its standard input
ends because `mercury dev` has.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import socket
import sys
import threading
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mercury.cli.logs import set_up_logs
from mercury.cli.running import run_until_signal
from mercury.cli.sample_values import NoSample, sample_of
from mercury.cli.serve import load_application, load_object
from mercury.errors import MercuryError

if TYPE_CHECKING:
    from mercury.client.sender import Sender
    from mercury.engine.application import Operation
    from mercury.facade import Mercury

#: The internal key of sample messages.
KEY = "dev"
#: Seconds between two sample messages to an operation.
INTERVAL = 1.0
#: With so many sample messages that wait at a service, no more are sent.
MAX_PENDING = 10
#: Seconds that the sender's threads have to end.
STOP_DEADLINE = 2.0


@dataclasses.dataclass(frozen=True, slots=True)
class Task:
    """What the process is to do. File descriptors are those that it inherits."""

    target: str
    #: The bound socket, and the URL it is reached at.
    listening: int
    url: str
    #: The pipe to report at, once: a line of JSON, when the process accepts connections.
    report: int
    #: The store of the messages that are sent; ``None`` = none are.
    samples: str | None


def main(task: Task) -> None:
    """Serve until SIGTERM."""
    from mercury.facade import Mercury
    from mercury.service.host import hosts_of
    from mercury.service.serving import Listening, server_for
    from mercury.settings import Settings, load

    settings = load()
    set_up_logs(settings.log)
    threading.Thread(target=_end_with_parent, name="mercury-dev-parent", daemon=True).start()
    app = load_application(task.target, load_object(task.target))
    hosts = [host for host in hosts_of(app) if isinstance(host, Mercury)]
    module = sys.modules[task.target.partition(":")[0]]
    file = Path(module.__file__).absolute() if module.__file__ else None
    stop = threading.Event()
    sender: Mercury | None = None
    if task.samples is not None and hosts:
        sender = Mercury(task.samples, settings=Settings(store=task.samples))
    threads = []

    def started() -> None:
        value = {"store": _url_of(hosts[0]) if hosts else None, "folder": str(file.parent) if file else None}
        os.write(task.report, (json.dumps(value) + "\n").encode())
        os.close(task.report)
        if sender is not None:
            sending = threading.Thread(target=_send, args=(sender, hosts, task.url, stop), name="mercury-dev-samples")
            sending.start()
            threads.append(sending)

    bound = socket.socket(fileno=task.listening)
    try:
        run_until_signal(server_for(app, settings.http, started), Listening(bound, task.url))
    finally:
        stop.set()
        for each in threads:
            each.join()
        if sender is not None:
            sender.stop(STOP_DEADLINE)


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _url_of(mercury: Mercury) -> str | None:
    """The URL of a store that another process can open; ``None`` = it is in memory."""
    from mercury.storage.sql.store import SqlStore

    if not isinstance(mercury.store, SqlStore):
        return None
    return mercury.store.engine.url.render_as_string(hide_password=False)


def _send(sender: Mercury, hosts: list[Mercury], url: str, stop: threading.Event) -> None:
    """Send a sample message to each operation, every second, until the process ends."""
    targets = []
    for service in [each for host in hosts for each in host.services]:
        if service.wsdl is not None or service.security is not None:
            _say(f"no sample messages for {service.name}: it has a WSDL or WS-Security of its own")
            continue
        to = sender.to(f"{url}/services/{service.name}", key=KEY, namespace=service.namespace)
        for operation in service.operations:
            try:
                sample_of(operation.request, 1)
            except NoSample as error:
                _say(f"no sample messages for {service.name}.{operation.name}: {error}")
            else:
                targets.append((to, service.name, operation))
    if not targets:
        return
    sender.start()
    number = 0
    while not stop.is_set():
        number += 1
        for to, name, operation in targets:
            try:
                if to.pending < MAX_PENDING:
                    _send_one(to, name, operation, number)
            except MercuryError as error:
                _say(f"no sample message was sent to {name}.{operation.name}: {error}")
        stop.wait(INTERVAL)


def _send_one(to: Sender, service: str, operation: Operation, number: int) -> None:
    body = sample_of(operation.request, number)
    if operation.response_action is None:
        to.send(body, action=operation.action)
        return
    future = to.request(body, response=operation.response, action=operation.action)
    future.add_done_callback(partial(_print_answer, f"{service}.{operation.name}"))


def _print_answer(name: str, future: Future[Any]) -> None:
    if not future.cancelled() and future.exception() is None:
        _say(f"{name} answers: {future.result()!r}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    from mercury.cli.output import reporting

    with reporting():
        try:
            main(Task(**json.loads(sys.argv[1])))
        except typer.Exit as ended:
            sys.exit(ended.exit_code)
