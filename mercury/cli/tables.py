"""`mercury tables`."""

from __future__ import annotations

import sys

from mercury.cli.output import Format, Output, show
from mercury.statemachine import tables as machine_tables
from mercury.statemachine.render import render_all
from mercury.statemachine.table import E, G, S, Table


def tables(output: Output = Format.TEXT) -> None:
    """Print the three state machines as Markdown with Mermaid diagrams, the content of docs/state-machines.md."""
    value = [_as_value(machine_tables.RMS), _as_value(machine_tables.RMD), _as_value(machine_tables.INVOKER)]
    show(output, value, lambda: _write(render_all()))


def _as_value(table: Table[S, E, G]) -> dict[str, object]:
    return {
        "name": table.name,
        "factors": dict(table.factors),
        "states": {state.value: state.name for state in table.states},
        "events": [event.value for event in table.events],
        "rows": [
            {
                "state": row.state.value,
                "event": row.event.value,
                "guard": None if row.guard is None else str(row.guard.value),
                "next": row.outcome,
                "effects": [effect.__name__ for effect in row.effects],
                "specification": list(row.specification),
            }
            for row in table.rows
        ],
    }


def _write(text: str) -> None:
    sys.stdout.write(text)
