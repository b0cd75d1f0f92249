"""The proxy of the faulty network stops in order: no task of it is left afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import threading
from urllib.parse import urlsplit

from samples.lossy_network.proxy import NetworkFaults, Outcome, Proxy

#: Faults that apply to every exchange.
ALWAYS = {
    "nothing strikes": NetworkFaults(0, 0, 0, 0),
    "everything is lost": NetworkFaults(1, 0, 0, 0),
    "everything is repeated": NetworkFaults(0, 1, 0, 0),
    "everything is late": NetworkFaults(0, 0, 0, 60),
    "a bit of everything": NetworkFaults(),
}
CLIENTS = 8


def keep_calling(port: int, ending: threading.Event) -> None:
    """Post repeatedly, with a very short timeout for the reply."""
    while not ending.is_set():
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2) as connection:
            connection.sendall(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi")
            connection.settimeout(0.05)
            connection.recv(100)


async def stop_under_load(faults: NetworkFaults, target: str, ending: threading.Event) -> tuple[int, list[str]]:
    """The number of exchanges, and the tasks that are left after the proxy has stopped."""
    proxy = Proxy(faults, random.Random(1), target)
    port = urlsplit(await proxy.start()).port
    assert port is not None
    clients = [threading.Thread(target=keep_calling, args=(port, ending)) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        async with asyncio.timeout(60):
            while sum(proxy.counts.values()) < CLIENTS:
                await asyncio.sleep(0.005)
        await proxy.stop()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        return sum(proxy.counts.values()), [repr(task) for task in left]
    finally:
        ending.set()
        await asyncio.gather(*(asyncio.to_thread(client.join) for client in clients))


def test_no_task_is_left_when_it_stops_under_load() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, and never answers
        target = f"http://127.0.0.1:{silent.getsockname()[1]}"
        for name, faults in ALWAYS.items():
            exchanges, left = asyncio.run(stop_under_load(faults, target, threading.Event()))
            assert exchanges >= CLIENTS, name
            assert left == [], name


def test_a_copy_that_fails_leaves_no_other_on_its_way() -> None:
    async def play() -> list[str]:
        proxy = OneFails(ALWAYS["everything is repeated"], random.Random(1), "http://127.0.0.1:1")
        url = urlsplit(await proxy.start())
        reader, writer = await asyncio.open_connection(url.hostname, url.port)
        writer.write(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi")
        assert await reader.read() == b"", "the connection is closed"
        writer.close()
        assert proxy.counts[Outcome.REPEATED] == 1
        left = [repr(task) for task in asyncio.all_tasks() - {asyncio.current_task()} if "_deliver" in repr(task)]
        await proxy.stop()
        return left

    assert asyncio.run(play()) == []


class OneFails(Proxy):
    """The first copy fails at once, the second is slow."""

    copies = 0

    async def _deliver(self, request: bytes) -> bytes:
        self.copies += 1
        if self.copies == 1:
            raise ConnectionRefusedError
        await asyncio.sleep(0.2)
        return b""
