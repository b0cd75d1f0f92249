"""Identifiers are UUIDs of version 4, in the form that `uuid` writes."""

from __future__ import annotations

import uuid

from mercury.engine.ids import RandomIds


def test_identifiers_are_random_uuids() -> None:
    made = [RandomIds().new() for _ in range(1000)]
    read = [uuid.UUID(each) for each in made]
    assert [each.urn for each in read] == made
    assert {(each.version, each.variant) for each in read} == {(4, uuid.RFC_4122)}
    assert len(set(made)) == len(made)
    free = [
        digit for place, digit in enumerate(zip(*(each.hex for each in read), strict=True)) if place not in (12, 16)
    ]
    assert all(len(set(digits)) == 16 for digits in free), "every other digit is chance"
