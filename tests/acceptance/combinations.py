"""All combinations of versions, listening or not, and offer or not, each with one-way messages and requests, over
sockets.

``python -m tests.acceptance.combinations`` runs all of them, and prints a line for each. Exit code 1 = one has failed.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from mercury import Mercury, MessageContext, Service, Settings, SourcePolicy
from mercury.engine.addresses import AddressPolicy
from mercury.engine.events import Side
from mercury.engine.settings import EngineSettings
from mercury.settings import HttpSettings
from mercury.statemachine.protocol import ALL_PROTOCOLS, Protocol
from mercury.statemachine.retransmission import RetransmissionPolicy
from tests.acceptance.messages import Answer, Note, StoreQuery

#: The number of messages of each pattern, and their timeout in seconds.
MESSAGES, PATIENCE = 5, 120.0


@dataclass(frozen=True, slots=True)
class Combination:
    """One combination."""

    protocol: Protocol
    #: Whether the server posts acknowledgements and responses to the client; otherwise they come in HTTP replies.
    listens: bool
    #: Whether the client offers the sequence for responses. Otherwise the server creates one, or, if the client does
    #: not listen, responds outside any sequence.
    offer: bool

    @property
    def name(self) -> str:
        ways = "listening" if self.listens else "back-channel"
        made = "offered" if self.offer else ("created" if self.listens else "no sequence")
        return f"{self.protocol}, {ways}, {made}"


@dataclass(slots=True)
class Outcome:
    """The messages that arrived."""

    combination: Combination
    notes: list[int] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    answers: list[tuple[int, str]] = field(default_factory=list)
    #: The number of the client's destination sequences, which are those for responses.
    response_sequences: int = 0
    settled: bool = False
    left: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> list[str]:
        numbers = list(range(1, MESSAGES + 1))
        # Responses outside any sequence have no order.
        answers = self.answers if self._in_sequence else sorted(self.answers)
        checks = {
            f"one-way messages: {self.notes}": self.notes == numbers,
            f"requests: {self.asked}": self.asked == numbers,
            f"responses: {self.answers}": answers == [(number, f"answer {number}") for number in numbers],
            f"{self.response_sequences} sequences for responses": bool(self.response_sequences) is self._in_sequence,
            "not settled in time": self.settled,
            f"left: {self.left}": not self.left,
        }
        return [what for what, good in checks.items() if not good]

    @property
    def _in_sequence(self) -> bool:
        return self.combination.listens or self.combination.offer


def combinations() -> Iterator[Combination]:
    """The twelve combinations of versions and ways, each with and without an offer."""
    for protocol, listens, offer in itertools.product(ALL_PROTOCOLS, (True, False), (True, False)):
        yield Combination(protocol, listens, offer)


def run(combination: Combination) -> Outcome:
    """Run both patterns between two `Mercury` objects that share only sockets."""
    outcome = Outcome(combination)
    orders = Service("letters")

    @orders.operation
    def note(message: Note) -> None:
        outcome.notes.append(message.number)

    @orders.operation
    def ask(message: StoreQuery) -> Answer:
        outcome.asked.append(message.number)
        return Answer(message.number, f"answer {message.number}")

    policy = SourcePolicy(
        protocol=combination.protocol,
        offer=combination.offer,
        retransmission=RetransmissionPolicy(base=0.5, cap=2.0),
    )
    server, client = (_mercury(policy) for _ in range(2))

    @client.callback("answered")
    def answered(message: Answer, context: MessageContext) -> None:
        outcome.answers.append((message.number, message.text))

    try:
        url = f"{server.listen(orders)}/services/letters"
        if combination.listens:
            client.listen()
        client.start()
        one_way = client.to(url, key="one-way", policy=policy)
        both_ways = client.to(url, key="both ways", policy=policy)
        for number in range(1, MESSAGES + 1):
            one_way.send(Note(number))
            both_ways.request_with_callback(StoreQuery(number), "answered")
        senders = [one_way, both_ways]
        for sender in senders:
            sender.close()
        outcome.settled = all(sender.wait(PATIENCE).settled for sender in senders)
        outcome.response_sequences = sum(status.side is Side.DESTINATION for status in client.sequences())
        outcome.left = [letter.reason for mercury in (client, server) for letter in mercury.dead_letters()]
    finally:
        client.stop()
        server.stop()
    return outcome


def _mercury(policy: SourcePolicy) -> Mercury:
    return Mercury(
        "memory:",
        settings=Settings(
            store="memory:",
            source=policy,
            http=HttpSettings(back_channel_wait=0.5),
            engine=EngineSettings(addresses=AddressPolicy(allowed=("http://127.0.0.1:*",))),
        ),
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.acceptance.combinations", description=__doc__)
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="TEXT",
        help="only combinations whose name contains it; repeatable",
    )
    options = parser.parse_args(arguments)
    chosen = [each for each in combinations() if all(word in each.name for word in options.only)]
    failed = 0
    for number, each in enumerate(chosen, 1):
        begun = time.monotonic()
        wrong = run(each).wrong
        failed += bool(wrong)
        seconds = time.monotonic() - begun
        sys.stdout.write(f"{number:3}/{len(chosen)} {seconds:5.1f} s  {'WRONG' if wrong else 'ok':5}  {each.name}\n")
        sys.stdout.writelines(f"    {what}\n" for what in wrong)
        sys.stdout.flush()
    sys.stdout.write(f"{len(chosen)} combinations, {MESSAGES} messages of each pattern: {failed} wrong\n")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
