"""Properties of what a page shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fact:
    """A property, with its value and perhaps a page about it."""

    name: str
    value: object
    href: str | None = None


def known(facts: Iterable[Fact]) -> list[Fact]:
    """Those that have a value."""
    return [each for each in facts if each.value not in (None, "")]
