"""The world of most tests: a client and a server."""

from __future__ import annotations

from typing import Any

from mercury.statemachine.policy import DestinationPolicy
from mercury.statemachine.protocol import Protocol

from .link import Link
from .node import Node
from .words import DESTINATION, source
from .world import World


class Pair(World):
    """A client and a server."""

    def __init__(
        self,
        *,
        policy: DestinationPolicy = DESTINATION,
        client_policy: DestinationPolicy = DESTINATION,
        **server_settings: Any,
    ) -> None:
        super().__init__()
        self.client = Node("client", self, policy=client_policy)
        self.server = Node("server", self, policy=policy, **server_settings)

    def link(
        self,
        protocol: Protocol | None = None,
        *,
        listens: bool = True,
        key: str = "key",
        polls: bool = False,
        **changes: Any,
    ) -> Link:
        """A sender from the client to the server; ``changes`` are fields of `SourcePolicy`."""
        return self.client.to(self.server, key, policy=source(protocol, **changes), listens=listens, polls=polls)
