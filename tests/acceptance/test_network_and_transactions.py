"""No network call happens inside a transaction: tested on both sides with all their threads, over real sockets."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType

import pytest

from mercury import (
    ApplicationFault,
    DestinationPolicy,
    Mercury,
    RetransmissionPolicy,
    Service,
    Settings,
    SourcePolicy,
    Transaction,
)
from mercury.engine.runtime.http_exchange import OnPosted, Post, Posted
from mercury.engine.runtime.transport import HttpTransport
from mercury.errors import TransportError
from mercury.storage.api import BeforeCommit
from mercury.storage.memory import MemoryStore
from mercury.storage.memory.transaction import MemoryTransaction
from mercury.wire.decode import decode
from mercury.wire.envelope import HttpMessage, Payload


class Watch:
    """Records which threads are in a transaction, and which thread posts."""

    def __init__(self) -> None:
        self._inside = threading.local()
        self._mutex = threading.Lock()
        #: What was posted by a thread in a transaction.
        self.breaches: list[str] = []
        #: How often each kind of envelope was posted, and how many transactions there were.
        self.posted: Counter[str] = Counter()
        self.transactions = 0

    def entered(self) -> None:
        self._inside.depth = self.depth + 1
        with self._mutex:
            self.transactions += 1

    def left(self) -> None:
        self._inside.depth = self.depth - 1

    @property
    def depth(self) -> int:
        """The number of open transactions of this thread."""
        return int(getattr(self._inside, "depth", 0))

    def posts(self, kind: str) -> None:
        with self._mutex:
            self.posted[kind] += 1
            if self.depth:
                self.breaches.append(f"{kind} is posted inside a transaction by {threading.current_thread().name}")


class WatchedTransaction:
    """Counts as open until its commit, and the calls after it, have returned."""

    def __init__(self, inner: MemoryTransaction, watch: Watch) -> None:
        self._inner = inner
        self._watch = watch

    def __enter__(self) -> MemoryTransaction:
        self._watch.entered()
        return self._inner.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._inner.__exit__(kind, error, trace)
        finally:
            self._watch.left()


class WatchedStore(MemoryStore):
    """The in-memory store; reports its transactions to the watch."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def transaction(self, before_commit: BeforeCommit | None = None) -> WatchedTransaction:  # type: ignore[override]
        return WatchedTransaction(super().transaction(before_commit), self._watch)


class WatchedTransport:
    """Real HTTP; reports every post to the watch. The first post of each kind is not answered."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._http = HttpTransport(timeout=10.0)
        self._lost: set[str] = set()

    def begin(self, posts: Sequence[Post], on_end: OnPosted) -> None:
        for post in posts:
            self._watch.posts(kind_of(post.message))
        kinds = {id(post.about): kind_of(post.message) for post in posts}

        def ended(ends: Sequence[Posted]) -> None:
            on_end([self._first_is_lost(kinds[id(end.about)], end) for end in ends])

        self._http.begin(posts, ended)

    def _first_is_lost(self, kind: str, end: Posted) -> Posted:
        if kind in self._lost:
            return end
        self._lost.add(kind)
        return replace(end, result=TransportError(f"the reply to {kind} was lost"))

    def close(self) -> None:
        self._http.close()


def kind_of(message: HttpMessage) -> str:
    envelope = decode(message.body, message.content_type, message.soap_action)
    if not isinstance(envelope.body, Payload):
        return type(envelope.body).__name__
    if envelope.sequence is None:
        return "SequenceAcknowledgement"
    return "message" if envelope.relates_to is None else "response"


@dataclass(frozen=True)
class Note:
    text: str


@dataclass(frozen=True)
class Ask:
    text: str


@dataclass(frozen=True)
class Said:
    text: str


class Talk:
    """A server and a client in one process, both watched."""

    def __init__(self, *, listens: bool) -> None:
        self.watch = Watch()
        self.noted: list[str] = []
        self._listens = listens
        self.server = self._mercury()
        self.client = self._mercury()

    def _mercury(self) -> Mercury:
        return Mercury(
            WatchedStore(self.watch),
            settings=Settings(destination=DestinationPolicy(batches=False)),  # so that each kind of message is posted
            allow=("http://127.0.0.1:*",),
            transport=WatchedTransport(self.watch),
        )

    @contextmanager
    def running(self) -> Iterator[str]:
        """Run both; yields the URL of the service."""
        service = Service("desk")

        @service.operation
        def note(what: Note, tx: Transaction) -> None:
            tx.after_commit(lambda: self.noted.append(what.text))

        @service.operation
        def ask(what: Ask) -> Said:
            if what.text == "nonsense":
                raise ApplicationFault("that is nonsense", code="Nonsense")
            return Said(what.text)

        url = self.server.listen(service) + "/services/desk"
        try:
            if self._listens:
                self.client.listen()
            else:
                self.client.start()
            yield url
        finally:
            self.client.stop()
            self.server.stop()


@pytest.mark.parametrize("listens", [True, False], ids=["listening", "anonymous"])
def test_nothing_is_posted_by_a_thread_that_is_in_a_transaction(listens: bool) -> None:
    talk = Talk(listens=listens)
    policy = SourcePolicy(retransmission=RetransmissionPolicy(base=0.1))
    with talk.running() as url:
        desk = talk.client.to(url, policy=policy, listen=listens)
        with talk.client.transaction() as tx:
            for number in range(20):
                desk.send(Note(str(number)), tx=tx)
        futures = [desk.request(Ask(text), response=Said) for text in ("one", "nonsense", "three")]
        assert futures[0].result(30) == Said("one")
        with pytest.raises(ApplicationFault):
            futures[1].result(30)
        assert futures[2].result(30) == Said("three")
        desk.close()
        desk.wait(30)
    assert talk.noted == [str(number) for number in range(20)]
    assert talk.watch.breaches == []
    # Every kind of message was posted, including retransmissions, so the test has covered them.
    expected = {"CreateSequence", "message", "CloseSequence", "TerminateSequence"}
    if listens:
        expected |= {"response", "SequenceAcknowledgement", "CreateSequenceResponse", "TerminateSequenceResponse"}
    assert expected <= set(talk.watch.posted)
    assert sum(talk.watch.posted.values()) > len(talk.noted) + len(futures) + len(talk.watch.posted)
    assert talk.watch.transactions > 10


def test_a_post_inside_a_transaction_would_be_noticed() -> None:
    watch = Watch()
    store = WatchedStore(watch)
    with store.transaction():
        watch.posts("message")
    watch.posts("message")
    (breach,) = watch.breaches
    assert breach.startswith("message is posted inside a transaction by MainThread")


def test_calls_after_the_commit_of_a_store_count_as_inside() -> None:
    """The store's listeners only wake the workers: their work must not run in the committing thread."""
    watch = Watch()
    store = WatchedStore(watch)
    depths: list[int] = []
    store.listen(lambda _topics: depths.append(watch.depth))
    sender = Mercury(store).to("http://127.0.0.1:9/services/desk")
    with store.transaction() as tx:
        sender.send(Note("one"), tx=tx)
        tx.after_commit(lambda: depths.append(watch.depth))
    assert depths == [1, 1]
    assert watch.depth == 0
