"""A guard taken out: what is changed, and what must fail then."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """An exact text substitution: when the text is not there once, the guard has moved."""

    path: str
    before: str
    after: str


@dataclass(frozen=True)
class Mutant:
    """One guard taken out."""

    name: str
    changes: tuple[Change, ...]
    #: Simulated seeds one of which must show a violation. They may begin where one soon does.
    seeds: range = range(0)
    #: Or the pytest node that must fail.
    test: str = ""
