"""What a request and its answer say of the store (decision 73)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mercury.engine.runtime.threads import Runtime
from mercury.service.bodies import RequestRefused
from mercury.wire.envelope import HttpMessage


def named(reply: HttpMessage, runtime: Runtime | None) -> HttpMessage:
    """An answer that states the store of its runtime; ``None`` = it does not run."""
    return reply if runtime is None or runtime.store_id is None else replace(reply, store=runtime.store_id)


def check_store(runtime: Runtime | None, headers: Mapping[str, str]) -> None:
    """Refuse what is meant for another store, before anything is done with it.

    :raises RequestRefused: 421, which no peer takes for an answer of the store that it means.
    """
    meant = headers.get("mercury-store")
    if meant is None or runtime is None or runtime.store_id is None or meant.strip() == runtime.store_id:
        return
    raise RequestRefused(421, "This is another store than the message is for; nothing was done with it.")
