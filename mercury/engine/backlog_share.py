"""The bytes that each sequence may keep here, whatever others keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mercury.engine.settings import EngineSettings


def share(settings: EngineSettings) -> int:
    """Bytes that each sequence may have whatever others have: with it, all that may be open just reach a limit."""
    return min(
        settings.max_backlog_bytes_per_peer // settings.max_sequences_per_peer,
        settings.max_backlog_bytes // settings.max_sequences,
    )


def little(settings: EngineSettings) -> int:
    """Bytes that a peer may have although others fill the limit of all: what those leave is not its doing."""
    return min(settings.max_backlog_bytes_per_peer, settings.max_backlog_bytes) // 16
