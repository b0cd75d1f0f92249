"""The application as the engine at a stage sees it."""

from __future__ import annotations

from dataclasses import replace

from mercury.engine.application import Application, Callback, Operation
from mercury.engine.stage_room import StageSettings
from mercury.statemachine.policy import DestinationPolicy


class StagedApplication:
    """The services of an application, with the limits of the stage instead of those of each sequence: a stage takes
    messages until it is full."""

    def __init__(self, application: Application, settings: StageSettings) -> None:
        self._application = application
        self._settings = settings

    def services(self) -> frozenset[str]:
        return self._application.services()

    def has_service(self, service: str) -> bool:
        return self._application.has_service(service)

    def operation(self, service: str, action: str) -> Operation | None:
        return self._application.operation(service, action)

    def largest_batch(self, service: str | None) -> int:
        return self._application.largest_batch(service)

    def policy(self, service: str | None) -> DestinationPolicy:
        policy, settings = self._application.policy(service), self._settings
        return replace(policy, max_backlog=settings.max_messages, max_backlog_bytes=settings.max_bytes)

    def understands(self, service: str | None) -> frozenset[str]:
        return self._application.understands(service)

    def callback(self, name: str) -> Callback | None:
        return self._application.callback(name)
