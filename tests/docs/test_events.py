"""docs/reference.md lists all events, and the metric of docs/how-to/operations.md runs as printed there."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from urllib.request import urlopen

from mercury import Mercury, events
from tests.acceptance.processes import Serving, eventually
from tests.ports import free_port

from .pages import ROOT, section, table
from .test_examples import files_of

HOW_TO = ROOT / "docs/how-to/operations.md"
#: A field as the table shows it.
FIELD = re.compile(r"`([a-z_]+)`")


def test_the_table_of_events_has_every_kind_with_its_fields_in_their_order() -> None:
    page = (ROOT / "docs/reference.md").read_text(encoding="utf-8")
    documented = [(name.strip("`"), FIELD.findall(named)) for name, named, _ in table(section(page, "Events"))]
    assert documented == [
        (kind.__name__, [field.name for field in fields(kind) if field.name != "at"]) for kind in events.EVENTS
    ]


def test_every_kind_of_event_is_tested() -> None:
    stories = [ROOT / "tests/scenario/test_events.py", ROOT / "tests/xa/test_events.py"]
    text = "".join(story.read_text(encoding="utf-8") for story in stories)
    assert [
        kind.__name__ for kind in events.EVENTS if not re.search(rf"seen\({kind.__name__}\)|{kind.__name__}\)", text)
    ] == []


def test_the_metric_of_the_how_to_counts_what_is_delivered(tmp_path: Path) -> None:
    for name, text in files_of(HOW_TO).items():
        if name in ("metrics.py", "counted.py"):
            (tmp_path / name).write_text(text, encoding="utf-8")
    with Serving("counted:app", "--port", str(free_port()), cwd=tmp_path) as server, Mercury("memory:") as client:
        sender = client.to(f"{server.url}/services/orders")
        for customer in ("Ada", "Grace"):
            sender.send(
                f"<PlaceOrder xmlns='urn:mercury:app'><customer>{customer}</customer></PlaceOrder>",
                operation="PlaceOrder",
            )
        assert sender.wait(30)
        eventually(lambda: 'operation="place_order"} 2' in shown(server.url), "both are counted")
        assert re.search(r"^mercury_waited_seconds_total \d+\.\d{3}$", shown(server.url), re.MULTILINE)


def shown(url: str) -> str:
    with urlopen(f"{url}/metrics", timeout=30) as reply:
        return str(reply.read().decode())
