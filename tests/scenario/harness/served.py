"""A node behind the real HTTP endpoint, in an event loop whose clock is the world's."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar, cast

from mercury.engine.exchange import Answer, Arrival
from mercury.engine.ids import Ids
from mercury.engine.runtime.held_exchanges import HeldExchanges, HeldWorker
from mercury.engine.runtime.threads import Runtime
from mercury.service.bodies import Bodies
from mercury.service.endpoint import Endpoint
from mercury.service.held import EXTENSION, Hold
from mercury.service.identity import Authenticate
from mercury.service.publishing import Documents
from mercury.settings import HttpSettings
from mercury.wire.envelope import Envelope, HttpMessage, Undecodable

from .node import Node
from .words import SERVICE

P = ParamSpec("P")
T = TypeVar("T")

#: The longest time, in seconds, that passes before the workers run again.
STEP = 0.25


class _Selector(selectors.SelectSelector):
    """Lets the time pass in which a real selector waits."""

    def __init__(self, passes: Callable[[float], None]) -> None:
        super().__init__()
        self._passes = passes

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and (timeout is None or timeout > 0):
            self._passes(STEP if timeout is None else min(timeout, STEP))
        return ready


class _AtOnce(ThreadPoolExecutor):
    """Runs in the caller's thread: the world's time does not wait for another one."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, clock: Callable[[], float], passes: Callable[[float], None]) -> None:
        self._clock = clock
        super().__init__(_Selector(passes))
        self.set_default_executor(_AtOnce())

    def time(self) -> float:
        return self._clock()


class Client:
    """One exchange of a client: when it was answered, and with what.

    :param hold: what its connection knows of the held exchange.
    """

    def __init__(self, task: asyncio.Task[HttpMessage], hold: Hold) -> None:
        self.task = task
        self.hold = hold

    @property
    def reply(self) -> HttpMessage | None:
        """``None`` = the exchange is still open."""
        return self.task.result() if self.task.done() else None


class Served:
    """The endpoint of a node's service, and the exchanges of clients with it.

    :param http: limits and times.
    """

    store_id: str | None = None

    def __init__(self, node: Node, http: HttpSettings | None = None) -> None:
        self.node = node
        self._http = http or HttpSettings()
        self.held_exchanges = HeldExchanges(lambda: node.world.now)
        #: Handlers run from this time on: until then they are at work on what came before.
        self.handles_from = 0.0
        self._loop = _Loop(lambda: node.world.now, self._pass)
        self._endpoint = Endpoint(self, SERVICE)
        self._bodies = Bodies(1_000_000, self._http)

    def close(self) -> None:
        """End the exchanges that are still open."""
        self.held_exchanges.release_all()
        self.advance(0)
        self._loop.close()

    def busy(self, seconds: float) -> None:
        """Every handler takes so long from now on."""
        self.handles_from = self.node.world.now + seconds

    def post(self, http: HttpMessage) -> Client:
        """Post a message on a connection of its own."""
        hold = Hold()
        client = Client(self._loop.create_task(self._exchange(http, hold)), hold)
        self.advance(0)
        return client

    def advance(self, seconds: float) -> None:
        """Let time pass; at its end nothing is left to do at this time."""

        async def pass_time() -> None:
            await asyncio.sleep(seconds)
            for _ in range(20):
                await asyncio.sleep(0)

        self._loop.run_until_complete(pass_time())

    async def _exchange(self, http: HttpMessage, hold: Hold) -> HttpMessage:
        sent: list[MutableMapping[str, Any]] = []
        bodies = [http.body]

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        headers = [(b"content-type", http.content_type.encode())]
        headers += [(b"soapaction", http.soap_action.encode())] if http.soap_action is not None else []
        del http  # a client does not keep what it has sent
        scope = {"type": "http", "method": "POST", "path": f"/services/{SERVICE}", "headers": headers}
        scope |= {"client": ("192.0.2.1", 1), "extensions": {EXTENSION: _Connection(hold)}}
        await self._endpoint(scope, receive, send)
        said = dict(sent[0]["headers"])
        return HttpMessage(sent[1]["body"], said.get(b"content-type", b"").decode(), None, sent[0]["status"])

    def _pass(self, seconds: float) -> None:
        node, world = self.node, self.node.world
        world.now += seconds
        if world.now >= self.handles_from:
            world.run()
        HeldWorker(node.engine, self.held_exchanges).run_once(world.now)

    # --- as the endpoint sees its process and its runtime ----------------------------------------------------------

    @property
    def ids(self) -> Ids:
        return self.node.ids

    def runtime_for(self, service: str | None) -> Runtime:
        del service
        return cast("Runtime", self)

    def log_not_running(self) -> None:
        raise AssertionError("it runs")

    @property
    def bodies(self) -> Bodies:
        return self._bodies

    @property
    def authenticate(self) -> Authenticate | None:
        return None

    @property
    def address(self) -> str | None:
        return None

    def documents(self, service: str) -> Documents:
        raise AssertionError(f"nobody reads the WSDL of {service}")

    @property
    def back_channel_wait(self) -> float:
        return self._http.back_channel_wait

    @property
    def response_wait(self) -> float:
        return self._http.response_wait

    def decode(self, http: HttpMessage, service: str | None) -> Envelope | Undecodable:
        return self.node.engine.decode(http, service)

    def is_secured(self, service: str | None) -> bool:
        return self.node.engine.is_secured(service)

    def submit(self, arrival: Arrival, on_answer: Callable[[Answer], None]) -> None:
        answers = self.node.receive([arrival])
        assert answers is not None
        answer = answers[0]
        if answer.waiting:
            answer = Answer(
                http=answer.http,
                waiting=answer.waiting,
                held=self.held_exchanges.hold(*answer.waiting, stored=answer.stored),
            )
        on_answer(answer)


class _Connection:
    def __init__(self, hold: Hold) -> None:
        self.hold = hold
