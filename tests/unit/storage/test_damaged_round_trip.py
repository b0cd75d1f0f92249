"""A damaged value of a round trip is found when it is read, before a pause is computed from it."""

from __future__ import annotations

import pytest

from mercury.storage.sql.values import read_round_trip


@pytest.mark.parametrize("repeated", ["-1", "4", "99999999999"])
def test_a_number_of_doublings_that_cannot_be_is_damage(repeated: str) -> None:
    with pytest.raises(ValueError, match="is not between"):
        read_round_trip(f"0.25 0.125 17 - {repeated}")
