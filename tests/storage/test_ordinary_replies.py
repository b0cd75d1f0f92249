"""Responses outside any sequence, with every kind of store: kept over a restart, delivered once, deleted in the end."""

from __future__ import annotations

import threading
from dataclasses import replace
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from mercury import ApplicationFault, Mercury, MessageContext
from mercury.storage.sql.overview import StoreOverview
from mercury.wire.envelope import HttpMessage
from tests.acceptance.processes import eventually
from tests.scenario.foreign import Foreign, identifier_in
from tests.stores import NewUrl

from .shop import EAGER, Order, Placed, Shop, settings

NO_OFFER = replace(EAGER, offer=False)


def test_requests_are_answered_without_an_offer_on_every_store(any_urls: NewUrl) -> None:
    client_url, server_url = any_urls(), any_urls()
    shop, answers, done = Shop(), [], threading.Event()
    with shop.open(server_url) as (_, url), Mercury(client_url, settings=settings()) as mercury:

        @mercury.callback("placed")
        def placed(answer: Placed, context: MessageContext) -> None:
            context.transaction.after_commit(lambda: (answers.append(answer.id), done.set()))

        sender = mercury.to(url, policy=NO_OFFER, listen=False)
        futures = [sender.request(Order(number), response=Placed, operation="ask") for number in range(1, 11)]
        assert [future.result(30) for future in futures] == [Placed(number) for number in range(1, 11)]
        with pytest.raises(ApplicationFault, match="no such orders"):
            sender.request(Order(-1), response=Placed, operation="ask").result(30)
        sender.request_with_callback(Order(11), "placed", operation="ask")
        assert done.wait(30)
        eventually(lambda: sender.pending == 0, "every request is acknowledged and answered")
        with mercury.store.transaction() as tx:
            left = [record.sequence for record in tx.invoker.all() if record.sequence.startswith("reply:")]
        assert left == []
    assert shop.orders == list(range(1, 12))
    assert answers == [11]


def test_a_reply_is_given_again_after_a_restart_of_the_server(sql_url: str) -> None:
    shop, foreign = Shop(), Foreign()
    with shop.open(sql_url) as (_, url):
        identifier = identifier_in(post(url, foreign.create()))
        asked = order(foreign, identifier, url)
        first = post(url, asked)
    port = urlsplit(url).port or 0
    with shop.open(sql_url, port) as (server, _):
        second = post(url, asked)
        with server.store.transaction() as tx:
            found = StoreOverview(tx).status(10)
        assert (found.unacknowledged, found.outbound) == (0, ()), "what is kept does not wait"
    assert b">1</" in first.body
    assert first.body == second.body
    assert shop.orders == [1]


def order(foreign: Foreign, identifier: str, url: str) -> HttpMessage:
    content = '<o:ask xmlns:o="urn:mercury:app"><o:id>1</o:id></o:ask>'
    headers = foreign.sequence(identifier, 1)
    return foreign.envelope("urn:mercury:app/ask", content, headers=headers, message_id="urn:request", to=url)


def post(url: str, http: HttpMessage) -> HttpMessage:
    asked = Request(url, http.body, {"Content-Type": http.content_type})
    with urlopen(asked, timeout=30) as reply:
        return HttpMessage(reply.read(), reply.headers["Content-Type"], None, reply.status)
