"""A removed guard: the change of the source, and the test that must fail."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """An exact text substitution in the source of a symbol: when the text is not in it once, the guard has moved."""

    #: ``package.module:Class.function``, or a module alone; see `symbols.place_of`.
    symbol: str
    before: str
    after: str


@dataclass(frozen=True)
class Mutant:
    """One guard taken out."""

    #: It stays the same when code is renamed; no two mutants have the same.
    name: str
    changes: tuple[Change, ...]
    #: Simulated seeds one of which must show a violation. They may begin where one soon does.
    seeds: range = range(0)
    #: Or the pytest node that must fail.
    test: str = ""
