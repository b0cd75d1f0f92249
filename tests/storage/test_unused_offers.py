"""Sequences that peers offer with a sequence of requests that they never use, on every kind of store."""

from __future__ import annotations

import pytest

from mercury.engine.addresses import AddressPolicy
from mercury.engine.exchange import Arrival
from mercury.engine.settings import EngineSettings
from mercury.storage.opening import open_store
from tests.scenario.foreign import WSMC, Foreign

from .pair import URL, Side

NOW = 1_800_000_000.0
FRIEND = "http://friend.example/replies"


@pytest.mark.parametrize("endpoint", [f"{WSMC}/anonymous?id=one", FRIEND], ids=["fetched", "posted"])
def test_offered_sequences_are_deleted_with_the_requests_that_were_never_sent(any_url: str, endpoint: str) -> None:
    store, foreign = open_store(any_url), Foreign()
    server = Side(store, settings=EngineSettings(addresses=AddressPolicy(("*",))))
    created = [
        foreign.create("anonymous", offer=f"urn:offered:{number}", offer_endpoint=endpoint, expires="PT5S")
        for number in range(3)
    ]
    server.engine.receive([Arrival(http=http, service="shop", url=URL) for http in created], NOW)
    with store.transaction() as tx:
        assert len(tx.rms.all()) == len(tx.rmd.all()) == 3
    server.turn(NOW + 6)
    with store.transaction() as tx:
        assert tx.rmd.all() == []
        assert tx.rms.all() == []
        assert tx.invoker.all() == []
    assert server.turn(NOW + 100_000) == (0, [])
    store.close()
