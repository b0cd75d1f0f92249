"""A zeep client with Mercury's transport, against the servers of other stacks: it knows their published WSDL only."""

from __future__ import annotations

import pytest

from mercury import Mercury

from .cells import CXF, MERCURY, METRO, Cell
from .stage import Stage

zeep = pytest.importorskip("zeep")

COUNT = 20


@pytest.mark.parametrize(
    ("stack", "rm", "soap"),
    [
        (CXF, "1.1", "1.1"),
        (METRO, "1.1", "1.2"),
        (METRO, "1.0", "1.1"),
    ],
)
def test_calls_arrive_once_and_in_order_and_have_their_responses(stack: str, rm: str, soap: str, stage: Stage) -> None:
    cell = Cell(MERCURY, stack, rm=rm, wsa="1.0", soap=soap, exchange="request", policy=True)
    url, server = stage.server(cell)
    calls, name = range(1, COUNT + 1), f"zeep_{stack}_{rm}_{soap}"
    with Mercury("memory:") as mercury:
        transport = mercury.zeep_transport(operation_timeout=60)
        with zeep.Client(f"{url}?wsdl", transport=transport) as client:
            for number in calls:
                client.service.Note(cell=name, number=number)
            answers = [client.service.Ask(cell=f"{name}_asked", number=number).square for number in calls]
        assert transport.wait(60)
    assert answers == [number * number for number in calls]
    assert server.received(name) == list(calls)
    assert server.received(f"{name}_asked") == list(calls)
