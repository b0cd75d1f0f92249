"""`mercury tables`."""

from __future__ import annotations

import sys

from mercury.cli.output import Format, Output, show
from mercury.statemachine import tables as machine_tables
from mercury.statemachine.render import render_all
from mercury.statemachine.table import E, S, Table


def tables(output: Output = Format.TEXT) -> None:
    """Print the three state machines as Markdown with Mermaid diagrams: this is docs/state-machines.md."""
    value = [_as_value(machine_tables.RMS), _as_value(machine_tables.RMD), _as_value(machine_tables.INVOKER)]
    show(output, value, lambda: _write(render_all()))


def _as_value(table: Table[S, E]) -> dict[str, object]:
    return {
        "name": table.name,
        "factors": dict(table.factors),
        "states": {state.value: state.name for state in table.states},
        "events": [event.value for event in table.events],
        "cells": {
            state.value: {event.value: str(table.cells[state, event]) for event in table.events}
            for state in table.states
        },
    }


def _write(text: str) -> None:
    sys.stdout.write(text)
