"""The store is given by a URL: a program runs unchanged with every kind."""

from __future__ import annotations

import threading

import pytest

from mercury import ApplicationFault, Mercury, MessageContext
from tests.acceptance.processes import eventually
from tests.stores import NewUrl

from .shop import Order, Placed, Shop, settings


def program(client_store: str, server_store: str) -> tuple[list[int], list[int], list[object]]:
    """Sends, asks, rolls back, restarts; returns what was handled, what was called back and what futures gave."""
    shop = Shop()
    answers: list[int] = []
    results: list[object] = []
    done = threading.Event()

    def client() -> Mercury:
        mercury = Mercury(client_store, settings=settings())

        @mercury.callback("placed")
        def placed(answer: Placed, context: MessageContext) -> None:
            context.transaction.after_commit(lambda: (answers.append(answer.id), done.set()))

        return mercury

    with shop.open(server_store) as (_, url), client() as mercury:
        sender = mercury.to(url)
        with mercury.transaction() as tx:
            for number in (1, 2):
                sender.send(Order(number), operation="put", tx=tx)
        with pytest.raises(LookupError), mercury.transaction() as tx:
            sender.send(Order(99), operation="put", tx=tx)
            raise LookupError
        results.append(sender.request(Order(3), response=Placed, operation="ask").result(30))
        with pytest.raises(ApplicationFault) as refused:
            sender.request(Order(-4), response=Placed, operation="ask").result(30)
        results.append(refused.value.reason)
        sender.request_with_callback(Order(5), "placed", operation="ask")
        assert done.wait(30)
        sender.close()
        assert sender.wait(30)
        eventually(lambda: len(shop.handled) == 4, "all are handled")
    return shop.orders, answers, results


def test_a_program_does_the_same_on_every_store(any_urls: NewUrl) -> None:
    handled, answers, results = program(any_urls(), any_urls())
    assert handled == [1, 2, 3, 5]
    assert answers == [5]
    assert results == [Placed(3), "there are no such orders"]
