"""What a transaction raises for arrivals whose sequences other transactions have locked (decision 109)."""

from __future__ import annotations

from collections.abc import Collection


class HeldElsewhere(Exception):
    """Other transactions, perhaps of other processes, have locked sequences of these arrivals. This transaction is
    rolled back, and repeated without them."""

    def __init__(self, exchanges: Collection[object]) -> None:
        super().__init__(f"{len(exchanges)} arrivals are for sequences that other transactions have locked")
        self.exchanges = exchanges
