"""Messages a second between two processes on one machine, with the in-memory store.

``python -m benchmarks.messages [--messages N]`` prints a row for each pattern: one-way and request/response, with a
client that listens and with one that does not. The first row is the HTTP exchange of the same bytes without WS-RM, with
the same server.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection

from mercury import Mercury, Sender, Service
from mercury.engine.runtime.transport import HttpTransport
from mercury.wire.envelope import HttpMessage


@dataclass
class Row:
    number: int
    text: str


@dataclass
class Taken:
    number: int


TEXT = "x" * 300


def serve(pipe: Connection) -> None:
    """The server's process: it answers each message on the pipe with the number of handled rows and its CPU seconds."""
    service = Service("rows")
    taken = 0

    @service.operation("Put")
    def put(_row: Row) -> None:
        nonlocal taken
        taken += 1

    @service.operation("Ask")
    def ask(row: Row) -> Taken:
        nonlocal taken
        taken += 1
        return Taken(row.number)

    mercury = Mercury("memory:", allow=["http://127.0.0.1:*"])
    pipe.send(mercury.listen(service))
    while pipe.recv() != "stop":
        usage = resource.getrusage(resource.RUSAGE_SELF)
        pipe.send((taken, usage.ru_utime + usage.ru_stime))
    mercury.stop()


def measure(name: str, messages: int, pipe: Connection, work: Callable[[int], None]) -> None:
    """Run ``work``, wait until the server has handled all messages, and print a row."""
    before, server_before = _ask(pipe)
    cpu = time.process_time()
    started = time.perf_counter()
    work(messages)
    while _ask(pipe)[0] < before + messages:
        time.sleep(0.005)
    seconds = time.perf_counter() - started
    client_cpu, server_cpu = time.process_time() - cpu, _ask(pipe)[1] - server_before
    per_thousand = 1000 * (client_cpu + server_cpu) / messages
    print(f"{name:44} {messages / seconds:8.0f} /s   {per_thousand:6.2f} CPU s per 1000")


def _ask(pipe: Connection) -> tuple[int, float]:
    pipe.send("taken")
    answer: tuple[int, float] = pipe.recv()
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=3000)
    messages = parser.parse_args().messages
    context = multiprocessing.get_context("spawn")
    pipe, other = context.Pipe()
    server = context.Process(target=serve, args=(other,), daemon=True)
    server.start()
    url = f"{pipe.recv()}/services/rows"
    transport = HttpTransport()
    plain = HttpMessage(b"<not-soap/>", "text/xml; charset=utf-8", '""')
    started = time.perf_counter()
    for _ in range(messages):
        transport.post(url, plain)
    bare = messages / (time.perf_counter() - started)
    print(f"{'bare exchange, one at a time (answered: a fault)':44} {bare:8.0f} /s")
    for listens in (False, True):
        mercury = Mercury("memory:", allow=["http://127.0.0.1:*"])
        if listens:
            mercury.listen()
        else:
            mercury.start()
        sender = mercury.to(url)
        how = "listens" if listens else "does not listen"

        def one_way(count: int, sender: Sender = sender) -> None:
            for number in range(count):
                sender.send(Row(number, TEXT), operation="Put")

        def ask(count: int, sender: Sender = sender) -> None:
            rows = (Row(number, TEXT) for number in range(count))
            asked = [sender.request(row, response=Taken, operation="Ask") for row in rows]
            for future in asked:
                future.result(60)

        measure(f"one-way, the client {how}", messages, pipe, one_way)
        measure(f"request/response, the client {how}", messages, pipe, ask)
        sender.close()
        sender.wait(10)
        mercury.stop()
    pipe.send("stop")
    server.join()


if __name__ == "__main__":
    main()
