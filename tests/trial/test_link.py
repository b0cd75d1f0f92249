"""A link between two ends: it holds a step before, in the middle and after, and cuts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from mercury.trial.link import Connection, Link, Trigger
from mercury.trial.steps import Moment, Way

#: Seconds in which what must happen happens.
PATIENCE = 20.0


class Ends:
    """An echo server behind a link, and a client's connection to the link."""

    def __init__(self) -> None:
        #: What the server has received so far.
        self.received = b""
        self.changed = asyncio.Event()
        self.link = Link("l", lambda: (self.target, "server"))
        self.target = ("127.0.0.1", 0)
        self.address = ("", 0)

    async def echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                self.received += data
                self.changed.set()
                writer.write(b"reply to " + data)
        writer.close()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self.address)

    async def until_received(self, data: bytes) -> None:
        async with asyncio.timeout(PATIENCE):
            while self.received != data:
                self.changed.clear()
                await self.changed.wait()


@contextlib.asynccontextmanager
async def ends() -> AsyncIterator[Ends]:
    made = Ends()
    server = await asyncio.start_server(made.echo, "127.0.0.1", 0)
    made.target = server.sockets[0].getsockname()
    host, _, port = (await made.link.start()).partition(":")
    made.address = (host, int(port))
    try:
        yield made
    finally:
        await made.link.stop()
        server.close()


def run(story: Callable[[Ends], Awaitable[None]]) -> None:
    async def told() -> None:
        async with asyncio.timeout(PATIENCE), ends() as made:
            await story(made)

    asyncio.run(told())


class Held:
    """Waits at a step until the test lets it go on."""

    def __init__(self) -> None:
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self, connection: Connection) -> None:
        assert connection.member in ("server", None)
        self.reached.set()
        await self.go_on.wait()


def step(moment: Moment, held: Held, *patterns: tuple[bytes, Way], seconds: float = 0.0, size: int = 0) -> Trigger:
    return Trigger(patterns or ((b"step", Way.REQUEST),), moment, held, seconds, size)


def test_before_a_step_nothing_of_it_passes() -> None:
    async def story(ends: Ends) -> None:
        held = Held()
        ends.link.arm(step(Moment.BEFORE, held))
        reader, writer = await ends.connect()
        writer.write(b"the step")
        await held.reached.wait()
        assert ends.received == b""
        held.go_on.set()
        assert await reader.read(100) == b"reply to the step"
        writer.close()

    run(story)


def test_in_the_middle_of_a_step_half_of_it_has_passed() -> None:
    async def story(ends: Ends) -> None:
        held = Held()
        ends.link.arm(step(Moment.DURING, held))
        _, writer = await ends.connect()
        writer.write(b"the step")
        await held.reached.wait()
        await ends.until_received(b"the ")
        held.go_on.set()
        await ends.until_received(b"the step")
        writer.close()

    run(story)


def test_in_the_middle_of_a_large_message_some_of_it_has_passed_slowly() -> None:
    async def story(ends: Ends) -> None:
        held, body = Held(), b"step" + bytes(400_000)
        ends.link.arm(step(Moment.DURING, held, seconds=0.1, size=len(body)))
        _, writer = await ends.connect()
        writer.write(body)
        await held.reached.wait()
        assert not held.go_on.is_set()
        held.go_on.set()
        await ends.until_received(body)
        writer.close()

    run(story)


@pytest.mark.parametrize("moment", [Moment.DURING, Moment.AFTER])
def test_step_whose_connection_ends_before_its_moment_is_waited_for_again(moment: Moment) -> None:
    async def story(ends: Ends) -> None:
        held, body = Held(), b"step" + bytes(400_000)
        held.go_on.set()
        trigger = step(moment, held, seconds=60.0, size=len(body))
        ends.link.arm(trigger)
        _, writer = await ends.connect()
        writer.write(body[:1000] if moment is Moment.AFTER else body)
        while not trigger.fired:
            await asyncio.sleep(0)
        ends.link.reset()
        assert not held.reached.is_set()
        trigger.seconds = 0.0
        _, again = await ends.connect()
        again.write(body)
        await held.reached.wait()
        writer.close()
        again.close()

    run(story)


def test_after_a_step_its_reply_is_held() -> None:
    async def story(ends: Ends) -> None:
        held = Held()
        ends.link.arm(step(Moment.AFTER, held))
        reader, writer = await ends.connect()
        writer.write(b"the step")
        await held.reached.wait()
        assert ends.received == b"the step"
        reading = asyncio.create_task(reader.read(100))
        await asyncio.sleep(0)
        assert not reading.done()
        held.go_on.set()
        assert await reading == b"reply to the step"
        writer.close()

    run(story)


def test_a_step_is_seen_in_several_pieces_and_directions_and_only_once() -> None:
    async def story(ends: Ends) -> None:
        held = Held()
        held.go_on.set()
        ends.link.arm(step(Moment.BEFORE, held, (b"first", Way.REQUEST), (b"reply", Way.REPLY), (b"end", Way.REQUEST)))
        reader, writer = await ends.connect()
        writer.write(b"the end of fi")  # an end before the first pattern does not count
        await reader.read(100)
        writer.write(b"rst")
        await reader.read(100)
        assert not held.reached.is_set()
        writer.write(b"end")
        await reader.read(100)
        assert held.reached.is_set()
        held.reached.clear()
        writer.write(b"first")
        await reader.read(100)
        writer.write(b"end")
        await reader.read(100)
        assert not held.reached.is_set()
        writer.close()

    run(story)


def test_patterns_on_two_connections_are_not_one_step() -> None:
    async def story(ends: Ends) -> None:
        held = Held()
        ends.link.arm(step(Moment.BEFORE, held, (b"first", Way.REQUEST), (b"second", Way.REQUEST)))
        for text in (b"first", b"second"):
            reader, writer = await ends.connect()
            writer.write(text)
            assert await reader.read(100) == b"reply to " + text
            writer.close()
        assert not held.reached.is_set()

    run(story)


def test_last_bytes_of_a_dead_process_do_not_arrive() -> None:
    async def story(ends: Ends) -> None:
        held = Held()
        ends.link.arm(step(Moment.BEFORE, held))
        _, writer = await ends.connect()
        writer.write(b"the step")
        await held.reached.wait()
        writer.transport.abort()
        await asyncio.sleep(0.05)
        held.go_on.set()
        reader, other = await ends.connect()
        other.write(b"later")
        assert await reader.read(100) == b"reply to later"
        assert ends.received == b"later"
        other.close()

    run(story)


def test_a_new_connection_is_a_step_too() -> None:
    async def story(ends: Ends) -> None:
        held = Held()
        ends.link.arm(Trigger((), Moment.BEFORE, held))
        _, writer = await ends.connect()
        writer.write(b"x")
        await held.reached.wait()
        assert ends.received == b""
        held.go_on.set()
        await ends.until_received(b"x")
        writer.close()

    run(story)


@pytest.mark.parametrize("way", [None, *Way])
def test_a_cut_link_passes_nothing_in_its_direction_and_is_reset_then(way: Way | None) -> None:
    async def story(ends: Ends) -> None:
        reader, writer = await ends.connect()
        writer.write(b"a")
        assert await reader.read(100) == b"reply to a"
        cutting = asyncio.create_task(ends.link.cut(0.2, way))
        await asyncio.sleep(0)
        with contextlib.suppress(OSError):
            writer.write(b"b")
            assert await reader.read(100) == b""
        await cutting
        assert ends.received == (b"ab" if way is Way.REPLY else b"a")
        reader, again = await ends.connect()
        again.write(b"c")
        assert await reader.read(100) == b"reply to c"
        writer.close()
        again.close()

    run(story)


def test_connections_to_a_member_that_no_longer_serves_are_reset() -> None:
    async def story(ends: Ends) -> None:
        reader, writer = await ends.connect()
        writer.write(b"a")
        await reader.read(100)
        ends.link.reset("another")
        writer.write(b"b")
        assert await reader.read(100) == b"reply to b"
        ends.link.reset("server")
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read(100) == b""
        writer.close()

    run(story)
