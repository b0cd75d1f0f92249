"""Mercury as a client and a server that reads commands from standard input; see `peers`."""

from __future__ import annotations

import logging
import random
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from sqlalchemy import text

from mercury import (
    AddressingVersion,
    ApplicationFault,
    Mercury,
    MessageContext,
    Protocol,
    RmVersion,
    Sender,
    Service,
    SoapVersion,
    SourcePolicy,
    Transaction,
)

NAMESPACE = "urn:mercury:interop"


@dataclass(frozen=True)
class Note:
    cell: str
    number: int


@dataclass(frozen=True)
class Ask:
    cell: str
    number: int
    photo: bytes | None = None


@dataclass(frozen=True)
class Answer:
    square: int
    photo: bytes | None = None


Words = dict[str, str]


class MercuryPeer:
    """The store's database holds the journal: what reached the handlers, and what reached the callback.

    :param handler_seconds: how long the handler of a request takes.
    """

    def __init__(self, store: str, port: int, handler_seconds: float) -> None:
        self._mercury = Mercury(f"sqlite:///{store}", allow=["http://127.0.0.1:*"])
        with self._mercury.transaction() as tx:
            for table in ("received", "answered"):
                tx.connection().execute(
                    text(f"create table if not exists {table} (serial integer primary key, cell text, number integer)")
                )
        service = Service("orders", namespace=NAMESPACE)

        @service.operation
        def note(what: Note, tx: Transaction) -> None:
            keep(tx, "received", what.cell, what.number)

        @service.operation
        def ask(what: Ask, tx: Transaction) -> Answer:
            time.sleep(handler_seconds)
            keep(tx, "received", what.cell, what.number)
            return Answer(what.number**2, what.photo)

        @self._mercury.callback("answered")
        def answered(answer: Answer | ApplicationFault, context: MessageContext) -> None:
            cell, number = (context.correlation or "").split(" ")
            good = isinstance(answer, Answer) and answer.square == int(number) ** 2
            if isinstance(answer, Answer) and answer.photo is not None:
                good = good and answer.photo == random.Random(int(number)).randbytes(len(answer.photo))
            keep(context.transaction, "answered", cell, int(number) if good else -int(number))

        url = self._mercury.listen(service, port=port)
        self._mercury.start()
        self.url = f"{url}/services/orders"

    def received(self, words: Words) -> Words:
        return {"numbers": self._numbers("received", words["cell"])}

    def send(self, words: Words) -> Words:
        """Hand over the messages of a cell, then wait for them as `wait` does."""
        orders = self._sender(words)
        cell, first = words["cell"], int(words.get("first", "1"))
        with self._mercury.transaction() as tx:  # all of them are stored before the first one is sent
            for number in range(first, first + int(words["count"])):
                if words["exchange"] == "one-way":
                    orders.send(Note(cell, number), tx=tx)
                else:
                    name = f"{cell} {number}"
                    photo = random.Random(number).randbytes(int(words["photo"])) if "photo" in words else None
                    orders.request_with_callback(Ask(cell, number, photo), "answered", correlation=name, tx=tx)
        orders.close()
        return self.wait(words)

    def wait(self, words: Words) -> Words:
        """Wait until everything that was sent in a cell has arrived (requests: is answered)."""
        result = self._sender(words).wait(float(words.get("patience", "60")))
        dead = [letter.reason for letter in self._mercury.dead_letters() if letter.key == words["cell"]]
        trouble = "" if result and not dead else " ".join(f"{result}; dead: {dead}".split())
        return {"answers": self._numbers("answered", words["cell"]), "wrong": trouble}

    def _sender(self, words: Words) -> Sender:
        protocol = Protocol(SoapVersion(words["soap"]), AddressingVersion(words["wsa"]), RmVersion(words["rm"]))
        policy = SourcePolicy(protocol=protocol, offer=words.get("offer") != "none", mtom="mtom" in words)
        if "window" in words:
            retransmission = replace(policy.retransmission, base=10.0)
            policy = replace(policy, window=int(words["window"]), retransmission=retransmission)
        if "unanswered" in words:
            policy = replace(policy, max_unanswered=int(words["unanswered"]))
        listen = words.get("replies") == "addressable"
        return self._mercury.to(words["url"], key=words["cell"], namespace=NAMESPACE, policy=policy, listen=listen)

    def _numbers(self, table: str, cell: str) -> str:
        with self._mercury.transaction() as tx:
            rows = tx.connection().execute(
                text(f"select number from {table} where cell = :cell order by serial"), {"cell": cell}
            )
            return ",".join(str(number) for (number,) in rows)


def keep(tx: Transaction, table: str, cell: str, number: int) -> None:
    tx.connection().execute(
        text(f"insert into {table} (cell, number) values (:cell, :number)"), {"cell": cell, "number": number}
    )


def main() -> None:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s")
    peer = MercuryPeer(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
    commands: dict[str, Callable[[Words], Words]] = {
        "received": peer.received,
        "send": peer.send,
        "wait": peer.wait,
        "serve": lambda words: {"url": peer.url},
    }
    saying = threading.Lock()

    def say(*parts: str) -> None:
        with saying:
            print(*parts, sep="\t", flush=True)

    def answer(serial: str, name: str, words: Words) -> None:
        try:
            result = commands[name](words)
            say(f"@{serial}", "ok", *(f"{key}={value}" for key, value in result.items()))
        except Exception as error:
            logging.exception("%s %s", name, words)
            say(f"@{serial}", "failed", f"error={' '.join(f'{type(error).__name__}: {error}'.split())}")

    with ThreadPoolExecutor(32) as pool:
        say("@0", "ok")
        for line in sys.stdin:
            serial, name, *parts = line.rstrip("\n").split("\t")
            pool.submit(answer, serial, name, dict(part.partition("=")[::2] for part in parts))
    peer._mercury.stop()


if __name__ == "__main__":
    main()
