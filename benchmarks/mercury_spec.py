"""How a process of Mercury is set up in a benchmark: only what says where it is and what it sends, no tuning."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace

from mercury.statemachine.policy import SourcePolicy
from mercury.statemachine.protocol import RmVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    store: str
    #: The ports of the servers; a server listens on the first.
    ports: list[int] = field(default_factory=list)
    #: The database of the application's tables; ``None`` = the store's own.
    database: str | None = None
    decision_log: str | None = None
    keys: int = 1
    #: Each row is a request whose response the client inserts.
    asks: bool = False
    rm: str = RmVersion.RM11.value
    #: One message in each HTTP exchange.
    single: bool = False
    #: The handler takes lists of rows.
    lists: bool = False
    #: The application and the handler execute their statements on SQLAlchemy's connection, each by itself.
    at_once: bool = False
    #: Characters of a row.
    body: int = 300
    #: Profile all threads.
    functions: bool = False

    def json(self) -> str:
        return json.dumps(asdict(self))

    def policy(self, default: SourcePolicy) -> SourcePolicy:
        policy = replace(default, protocol=replace(default.protocol, rm=RmVersion(self.rm)))
        return replace(policy, batch=1) if self.single else policy
