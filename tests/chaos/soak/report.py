"""The result of a soak, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.chaos.kinds import Mode
from tests.chaos.soak.run import Outcome


def text(outcome: Outcome) -> str:
    """The whole result as text."""
    plan, seen, difference = outcome.plan, outcome.progress, outcome.difference
    verdict = {
        "orders made": seen.made,
        "received": seen.received,
        "confirmed": seen.confirmed if plan.mode is Mode.IN_OUT else "(in-only)",
        "lost": difference.lost,
        "repeated": difference.repeated,
        "out of order": difference.out_of_order,
        "altered": difference.altered,
        "left prepared": outcome.prepared,
        "errors over what is committed": len(outcome.misled),
        "other errors": len(outcome.errors),
        "memory": "flat" if outcome.steady else "GROWS",
    }
    lines = [
        *_table("faults", outcome.faults),
        *_table("exchanges over the network", outcome.exchanges),
        *_table("errors that the clients' applications caught", outcome.output.caught),
        *[f"    for example {name}: {each}" for name, each in sorted(outcome.output.examples.items())],
        *_table("warnings and errors in the logs", outcome.output.warned),
        *_table("tracebacks in the logs", outcome.output.tracebacks),
        "memory of the processes that ran longest",
        *[f"  {memory}" for memory in outcome.memories],
        *_table("verdict", verdict),
        *[f"  wrong: {each}" for each in [*outcome.misled, *outcome.errors]],
        f"{plan.form.value}, {plan.mode.value}, seed {plan.seed}, {plan.lasting / 60:.1f} min; {outcome.senders} "
        f"clients have sent; at most {outcome.largest_backlog} orders were on their way; all had arrived "
        f"{outcome.arrived:.1f} s after the end of the faults, every sequence had ended after {outcome.drained:.1f} s",
        "GOOD" if outcome.good else "WRONG",
    ]
    return "\n".join(lines)


def _table(title: str, values: Mapping[str, object]) -> list[str]:
    if not values:
        return [f"{title}: none"]
    width = max(len(str(value)) for value in values.values())
    return [title, *(f"  {value!s:>{width}}  {name}" for name, value in values.items())]


def as_json(outcome: Outcome) -> dict[str, Any]:
    """The figures as a JSON value."""
    seen, difference = outcome.progress, outcome.difference
    return {
        "good": outcome.good,
        "form": outcome.plan.form.value,
        "mode": outcome.plan.mode.value,
        "seed": outcome.plan.seed,
        "seconds": outcome.plan.lasting,
        "made": seen.made,
        "received": seen.received,
        "confirmed": seen.confirmed,
        "lost": difference.lost,
        "repeated": difference.repeated,
        "out_of_order": difference.out_of_order,
        "altered": difference.altered,
        "left_prepared": outcome.prepared,
        "misled": outcome.misled,
        "errors": outcome.errors,
        "faults": outcome.faults,
        "exchanges": outcome.exchanges,
        "caught": dict(outcome.output.caught),
        "warned": dict(outcome.output.warned),
        "tracebacks": dict(outcome.output.tracebacks),
        "memory": [{"process": each.name, "samples": each.samples} for each in outcome.memories],
        "largest_backlog": outcome.largest_backlog,
        "arrived": round(outcome.arrived, 1),
        "drained": round(outcome.drained, 1),
    }
