"""The guards that Mercury rests on, and what must fail when one of them is taken out.

A mutant is an exact text substitution: when the text is not there once, the guard has moved and the list is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    path: str
    before: str
    after: str


@dataclass(frozen=True)
class Mutant:
    """One guard taken out."""

    name: str
    changes: tuple[Change, ...]
    #: Simulated seeds that must show a violation, or pytest node ids that must fail.
    seeds: int = 0
    tests: tuple[str, ...] = ()


IGNORE_FAILURES = '__import__("contextlib").suppress(Exception), self._parts.store.transaction() as tx:'

MUTANTS = (
    Mutant(
        "duplicate filter",
        (
            Change(
                "mercury/statemachine/rmd.py",
                "if number in self.received:  # RM-SEQ-06",
                "if False and number in self.received:  # RM-SEQ-06",
            ),
        ),
        seeds=20,
    ),
    Mutant(
        "acknowledge before commit",
        (
            Change(
                "mercury/engine/reception.py",
                "with self._parts.store.transaction() as tx:\n            batch = Batch(self._parts, tx, now)\n"
                "            batch.lock(drafts)",
                f"with {IGNORE_FAILURES}\n            batch = Batch(self._parts, tx, now)\n"
                "            batch.lock(drafts)",
            ),
        ),
        seeds=20,
    ),
    Mutant(
        "send before commit",
        (
            Change(
                "mercury/engine/source.py",
                "with self._parts.store.transaction() as tx:\n            tx.guard(claim)",
                f"with {IGNORE_FAILURES}\n            tx.guard(claim)",
            ),
        ),
        seeds=20,
    ),
    Mutant(
        "numbering twice",
        (Change("mercury/statemachine/rms.py", "self.last_number += 1", "self.last_number += self.last_number != 3"),),
        seeds=20,
    ),
    Mutant(
        "skipping a gap",
        (
            Change(
                "mercury/statemachine/invoker.py",
                "if self.may_skip_gaps or not (self.in_order or self._holds_gaps):\n"
                "            yield from self.buffered.numbers()",
                "if True:\n            yield from self.buffered.numbers()",
            ),
        ),
        seeds=20,
    ),
    Mutant(
        "dropping on overload",
        (
            Change(
                "mercury/engine/messages.py",
                "    if refusal is not None:\n        draft.fault = refusal\n        return\n",
                "    if refusal is not None:\n        record.machine.received.add(header.message_number)\n"
                "        batch.raise_rmd(record, events.AckWanted())\n        batch.acknowledge(draft, record)\n"
                "        return\n",
            ),
        ),
        seeds=40,
    ),
    Mutant(
        "forgetting a tombstone",
        (
            Change(
                "mercury/statemachine/rmd.py",
                "return self.ended_at + policy.tombstone",
                "return self.ended_at",
            ),
            Change(
                "mercury/engine/destination.py",
                "if machine.ended_at + policy.tombstone <= now:",
                "if machine.ended_at <= now:",
            ),
        ),
        seeds=200,
    ),
)
