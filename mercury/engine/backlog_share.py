"""The bytes that each sequence and each peer may always store, however much the others store."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mercury.engine.settings import EngineSettings


def share(settings: EngineSettings) -> int:
    """The guaranteed bytes of one sequence. If all sequences that may be open use them, a limit is just reached."""
    return min(
        settings.max_backlog_bytes_per_peer // settings.max_sequences_per_peer,
        settings.max_backlog_bytes // settings.max_sequences,
    )


def small_amount(settings: EngineSettings) -> int:
    """The bytes below which dead letters of other peers do not count against a peer."""
    return min(settings.max_backlog_bytes_per_peer, settings.max_backlog_bytes) // 16
