"""Orders that a handler inserts into a table of its store, and pairs whose server has such a handler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import text

from mercury import Service
from mercury.testing import Pair

INSERT = text("insert into placed(id) values (:id)")


@dataclass
class Order:
    id: int


@dataclass
class Placed:
    id: int


class Serving(Protocol):
    @property
    def service(self) -> Service: ...


#: Makes a pair whose server has the service of a shop and a store at a URL.
PairOf = Callable[[Serving, str], Pair]


@contextmanager
def pairs() -> Iterator[PairOf]:
    """Pairs until the end of the block. Their servers deliver nothing on arrival."""
    with ExitStack() as stack:

        def made(shop: Serving, url: str) -> Pair:
            pair = stack.enter_context(Pair(shop.service, server_store=url))
            # What a pair sends arrives one by one: messages of one run have waited in the store.
            delivery = pair.server._process.engine.on_arrival
            assert delivery is not None
            delivery.able = False
            position = "bigserial primary key" if "postgresql" in url else "integer primary key"
            with pair.server.transaction() as tx:
                tx.connection().execute(text(f"create table placed(position {position}, id integer)"))
            return pair

        yield made


def send(pair: Pair, ids: Sequence[int], name: str = "Place") -> None:
    with pair.client.transaction() as tx:
        for number in ids:
            pair.to().send(Order(number), operation=name, tx=tx)


def placed(pair: Pair) -> list[int]:
    with pair.server.transaction() as tx:
        return list(tx.connection().scalars(text("select id from placed order by position")))
