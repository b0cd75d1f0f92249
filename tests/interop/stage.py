"""Runs cells: starts each process once, and judges a cell by the messages that the applications received."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

from tests.ports import free_port

from .cells import MERCURY, METRO, Cell
from .network import Network
from .peers import CommandFailed, Peer, java_peer, mercury_peer
from .policies import describe

#: Seconds within which a cell has to be done once its client has said what it has to say.
PATIENCE = 120


@dataclass(frozen=True)
class Verdict:
    """What was seen in one cell."""

    cell: Cell
    count: int
    #: The numbers that reached the server's application, as they came.
    received: tuple[int, ...]
    #: What the client complains about; empty if nothing.
    wrong: str
    seconds: float
    #: What the network did.
    harm: str = ""

    @property
    def good(self) -> bool:
        return not self.wrong and self.received == tuple(range(1, self.count + 1))

    def __str__(self) -> str:
        """What was seen, in words."""
        if self.good:
            return f"{self.count} of {self.count}, once, in order"
        found, expected = set(self.received), set(range(1, self.count + 1))
        said = [f"{len(found & expected)} of {self.count}"]
        first = list(dict.fromkeys(self.received))
        said += [f"{len(self.received) - len(found)} repeated"] if len(found) < len(self.received) else []
        said += ["not in order"] if first != sorted(first) else []
        said += [f"client: {self.wrong[:300]}"] if self.wrong else []
        return ", ".join(said)


class Stage:
    """The processes of a run; a context manager. A process is started when the first cell needs it.

    :param folder: gets stores, journals and logs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ending = ExitStack()
        self._peers: dict[str, Peer] = {}
        self._urls: dict[tuple[str, ...], str] = {}
        self._serial = itertools.count(1)
        self._done: list[tuple[Peer, str, Verdict]] = []

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.close()

    def run(self, cell: Cell, count: int) -> Verdict:
        """Carry ``count`` messages in a cell."""
        began = time.monotonic()
        name = f"c{next(self._serial)}"
        own = ExitStack()
        with own:
            client, server = self._parties(cell, name, own)
            url = self._url(cell, server)
            harm = ""
            if cell.network == "lossy":
                network = own.enter_context(Network(_root(url), seed=len(cell.name)))
                url = url.replace(_root(url), network.url)
            words = self._words(cell, name, url, count)
            sending = client.begin("send", **words)
            if cell.kill:
                _until(lambda: len(server.received(name)) >= count // 4, 60)
                killed = server if cell.kill == "server" else client
                killed.kill()
                killed.restart()
            if cell.kill == "client":
                sending = client.begin("wait", **words)
            try:
                result = sending.result()
                wrong = result["wrong"]
                if cell.exchange == "request" and not wrong:
                    wrong = _wrong_answers(cell, result, count)
            except CommandFailed as error:
                wrong = str(error)
            _until(lambda: len(server.received(name)) >= count, 10 if wrong else PATIENCE)
            if cell.network == "lossy":
                harm = network.harm
            received = tuple(server.received(name))
        verdict = Verdict(cell, count, received, wrong.strip(), time.monotonic() - began, harm)
        if not cell.kill:
            self._done.append((server, name, verdict))
        return verdict

    def server(self, cell: Cell) -> tuple[str, Peer]:
        """The address of the server of a cell, and its process."""
        server = self._peer(cell.server)
        return self._url(cell, server), server

    def later(self) -> list[Verdict]:
        """The cells of which more has arrived since they were judged: a repetition that took its time."""
        return [verdict for server, name, verdict in self._done if len(server.received(name)) > len(verdict.received)]

    # --- who plays -------------------------------------------------------------------------------------------------

    def _parties(self, cell: Cell, name: str, own: ExitStack) -> tuple[Peer, Peer]:
        """The client and the server. One that is killed is a process of its own."""
        parties = []
        for side, stack in (("client", cell.client), ("server", cell.server)):
            if cell.kill == side and stack == MERCURY:
                parties.append(own.enter_context(mercury_peer(self._folder, name, free_port())))
            else:
                parties.append(self._peer(stack))
        return parties[0], parties[1]

    def _peer(self, stack: str) -> Peer:
        if stack not in self._peers:
            if stack == MERCURY:
                peer = mercury_peer(self._folder, stack, free_port())
            else:
                peer = java_peer(stack, self._folder, stack)
            self._peers[stack] = self._ending.enter_context(peer)
        return self._peers[stack]

    def _url(self, cell: Cell, server: Peer) -> str:
        if cell.server == MERCURY:
            return server.ask("serve")["url"]
        described = cell.policy or cell.server == METRO
        version = cell.rm + cell.replies * (cell.replies == "make-connection") if described else ""
        declined = "declined" if cell.offer == "declined" else ""
        kind = (cell.server, cell.soap, str(cell.assured), declined, version)
        if kind not in self._urls:
            port = free_port()
            words: dict[str, object] = {
                "soap": cell.soap,
                "assurance": "in-order" if cell.assured else "",
                "offer": declined,
            }
            if described:
                words["wsdl"] = describe(self._folder, f"http://127.0.0.1:{port}/orders", cell)
            self._urls[kind] = server.ask("serve", port=port, **words)["url"]
        return self._urls[kind]

    def _words(self, cell: Cell, name: str, url: str, count: int) -> dict[str, object]:
        decoupled = cell.replies == "addressable" and cell.client != MERCURY
        described = cell.client == METRO or (cell.policy and cell.client != MERCURY)
        return {
            "url": url,
            "cell": name,
            "count": count,
            "rm": cell.rm,
            "wsa": cell.wsa,
            "soap": cell.soap,
            "exchange": cell.exchange,
            "replies": cell.replies,
            "offer": cell.offer if cell.offer == "none" else None,
            "decoupled": f"http://127.0.0.1:{free_port()}/replies" if decoupled else None,
            "wsdl": describe(self._folder, url, cell) if described else None,
            "unanswered": 1 if cell.one_at_a_time and cell.client == MERCURY else None,
            "window": 1 if cell.one_in_flight else None,
            "patience": PATIENCE,
        }


def _wrong_answers(cell: Cell, result: dict[str, str], count: int) -> str:
    if cell.client != MERCURY:
        return ""  # its client has looked at each
    answers = [int(number) for number in result["answers"].split(",") if number]
    expected = list(range(1, count + 1))
    return (
        "" if sorted(answers) == expected else f"answers: {len(answers)}, wrong: {sorted(set(answers) ^ set(expected))}"
    )


def _until(ask: Callable[[], bool], patience: float) -> None:
    """Ask until the answer is true, or for ``patience`` seconds."""
    until = time.monotonic() + patience
    while not ask() and time.monotonic() < until:
        time.sleep(0.1)


def _root(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
