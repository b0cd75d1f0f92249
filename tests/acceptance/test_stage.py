"""A server with a stage, whose PostgreSQL goes away and comes back, and what cannot be combined with a stage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from mercury import AcknowledgeAt, ConfigurationError, DestinationPolicy, MemberRole, Mercury, MessageContext, Service
from mercury.engine.runtime.threads import RuntimeSettings
from mercury.engine.settings import EngineSettings
from mercury.engine.stage_room import StageSettings
from mercury.postgres.embedded import EmbeddedPostgres
from mercury.statemachine.retransmission import RetransmissionPolicy
from mercury.storage.memory import MemoryStore
from tests.acceptance.processes import eventually
from tests.storage.shop import LOCAL, Order, Placed, settings

SOON = DestinationPolicy(redelivery=RetransmissionPolicy(base=0.05, cap=0.1))
#: The claims of a process that could not give them back to the database are over soon.
QUICK = settings(runtime=RuntimeSettings(poll=0.2), engine=EngineSettings(addresses=LOCAL, lease=1.0))


def shop() -> Service:
    """Writes each order into its own table, in the transaction that consumes it."""
    service = Service("shop", policy=SOON)

    @service.operation("put")
    def put(order: Order, context: MessageContext) -> None:
        context.transaction.connection().execute(text("insert into taken (id) values (:id)"), {"id": order.id})

    return service


def test_server_with_a_stage_acknowledges_while_postgresql_is_away_and_delivers_when_it_is_back(
    own_postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    store = own_postgres.create_database("shared")
    engine = create_engine(store, pool_pre_ping=True)
    with engine.begin() as connection:
        connection.execute(text("create table taken (at serial, id int)"))

    def taken() -> list[int]:
        with engine.connect() as connection:
            return list(connection.scalars(text("select id from taken order by at")))

    with Mercury("memory:", settings=QUICK) as client:
        server = Mercury(store, stage=f"sqlite:///{tmp_path}/stage.db", settings=QUICK)
        try:
            url = f"{server.listen(shop())}/services/shop"
            sender = client.to(url)
            for number in range(1, 11):
                sender.send(Order(number), operation="put")
            eventually(lambda: len(taken()) == 10, "the first ten pass through the stage")
            own_postgres.kill()
            for number in range(11, 61):
                sender.send(Order(number), operation="put")
            another = client.to(url, key="begins while the database is away")
            another.send(Order(1000), operation="put")
            assert sender.wait(20)  # acknowledged, every one
            assert another.wait(20)
            assert server.watch.readiness() == {"workers": "ok", "store": "ok"}
            assert server.watch.metrics()["staged"] == 51
        finally:
            server.stop()  # what is in the stage outlives the process
        own_postgres.start()
        again = Mercury(store, stage=f"sqlite:///{tmp_path}/stage.db", settings=QUICK)
        try:
            again.listen(shop())
            eventually(lambda: len(taken()) == 61, "everything is delivered", 30)
            assert [each for each in taken() if each < 1000] == list(range(1, 61))
            eventually(lambda: again.watch.metrics()["staged"] == 0, "nothing is left in the stage")
            assert again.dead_letters() == []
        finally:
            again.stop()
    engine.dispose()


@pytest.fixture
def staged() -> Iterator[Mercury]:
    mercury = Mercury("memory:", stage=MemoryStore(), settings=QUICK)
    yield mercury
    mercury.stop()


def test_service_with_a_response_cannot_be_staged(staged: Mercury) -> None:
    service = Service("shop")

    @service.operation("ask")
    def ask(order: Order) -> Placed:
        return Placed(order.id)

    with pytest.raises(ConfigurationError, match=r"^stage: ask of service 'shop' has a response"):
        staged.add_service(service)


def test_service_that_acknowledges_at_delivery_cannot_be_staged(staged: Mercury) -> None:
    service = Service("shop", policy=DestinationPolicy(acknowledge_at=AcknowledgeAt.DELIVERY))

    @service.operation("put")
    def put(order: Order) -> None:
        del order

    with pytest.raises(ConfigurationError, match="acknowledges at delivery"):
        staged.add_service(service)


@pytest.mark.parametrize("stage", ["memory:", "postgresql+psycopg://nobody@127.0.0.1/none"])
def test_stage_is_a_file_on_the_local_disk(stage: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^stage: it is a file on the local disk"):
        Mercury("memory:", stage=stage, settings=QUICK)


def test_stage_of_the_settings_is_used_and_cannot_be_combined_with_a_standby(tmp_path: Path) -> None:
    chosen = replace(QUICK, stage=StageSettings(store=f"sqlite:///{tmp_path}/stage.db"))
    mercury = Mercury("memory:", settings=chosen)
    try:
        (staged,) = mercury.watch.metrics().values()
        assert (staged, type(staged)) == (0, int)
    finally:
        mercury.stop()
    with pytest.raises(ConfigurationError, match=r"^stage: with active-standby"):
        Mercury("memory:", settings=replace(chosen, role=MemberRole.ACTIVE_STANDBY))
