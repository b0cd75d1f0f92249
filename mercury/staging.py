"""The stage of a process: a store on the local disk that takes messages in front of the process's store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from mercury.engine.membership import MemberRole
from mercury.engine.stage.mover import Target
from mercury.engine.stage_room import StageRoom
from mercury.errors import ConfigurationError
from mercury.service.definition import Service
from mercury.settings import Settings
from mercury.statemachine.policy import AcknowledgeAt
from mercury.storage.api import StorageManager
from mercury.storage.opening import open_store

if TYPE_CHECKING:
    from mercury.engine.runtime.core import Engine
    from mercury.engine.runtime.threads import Runtime, RuntimeSettings


class Staging:
    """The stage of a process, with its engine and threads while it runs.

    :param stage: its URL, or the open store itself.
    :param target: the process's store, which the messages are moved to.
    :raises ConfigurationError: no such stage can be used; the text begins with ``stage``.
    :raises StorageError: the stage cannot be opened.
    """

    def __init__(self, stage: str | StorageManager, target: StorageManager, settings: Settings) -> None:
        if settings.role is MemberRole.ACTIVE_STANDBY:
            raise ConfigurationError("stage: with active-standby, the other members do not have what is in the stage")
        if isinstance(stage, str) and not stage.startswith("sqlite:///"):
            raise ConfigurationError("stage: it is a file on the local disk, sqlite:///FILE")
        #: The stage itself.
        self.store = open_store(stage) if isinstance(stage, str) else stage
        if self.store is target:
            raise ConfigurationError("stage: it is the store itself")
        self._settings = settings
        #: Counts its messages.
        self.room = StageRoom(settings.stage.max_messages)
        self._target = Target(target, settings.stage, self.room)
        #: The threads; ``None`` = it does not run.
        self.runtime: Runtime | None = None

    def check(self, service: Service) -> None:
        """Whether the messages of a service can be staged.

        :raises ConfigurationError: they cannot; the text says why.
        """
        name, policy = service.name, service.policy or self._settings.destination
        for operation in service.operations:
            if operation.response_action is not None:
                raise ConfigurationError(
                    f"stage: {operation.name} of service {name!r} has a response, which the stage cannot send: "
                    "make it one-way, or serve it without a stage"
                )
        if service.takes_attachments:
            raise ConfigurationError(f"stage: service {name!r} takes content in pieces, which the stage cannot move")
        if policy.acknowledge_at is AcknowledgeAt.DELIVERY:
            raise ConfigurationError(f"stage: service {name!r} acknowledges at delivery, a stage when it has stored")

    def start(
        self, make: Callable[..., Engine], run: Callable[[Engine, StorageManager, RuntimeSettings], Runtime]
    ) -> None:
        """Start to receive into the stage, and to move what is in it.

        :param make: makes an engine with a store, settings and a target.
        :param run: starts the threads of an engine.
        """
        most = self._settings.stage.max_bytes
        settings = replace(self._settings.engine, max_backlog_bytes=most, max_backlog_bytes_per_peer=most)
        engine = make(store=self.store, settings=settings, target=self._target, store_id=self.store.id)
        self.runtime = run(engine, self.store, replace(self._settings.runtime, invokers=1))  # one thread moves

    def stop(self, deadline: float) -> None:
        """Stop to receive and to move; what is in the stage is moved after the next start.

        :param deadline: seconds to wait at most.
        """
        runtime, self.runtime = self.runtime, None
        if runtime is not None:
            runtime.stop(deadline)

    def close(self) -> None:
        """Close the stage."""
        self.store.close()


def staging_of(stage: str | StorageManager | None, target: StorageManager, settings: Settings) -> Staging | None:
    """The stage that a process asks for, or that of its settings; ``None`` = it has none. Errors as for `Staging`."""
    asked = settings.stage.store if stage is None else stage
    try:
        return None if not asked else Staging(asked, target, settings)
    except BaseException:
        target.close()
        raise
