"""The steady stream: one message at a fixed interval, by whose arrivals the time to fail over is measured."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace

from mercury.errors import TransientStorageError
from mercury.trial.judging import ArrivedRow, Sent
from mercury.trial.programs.messages import Kind, checksum, content
from mercury.trial.scenario import Content, Scenario
from mercury.trial.tables import STREAM, TrialTables

#: A message of the stream: small, one way.
MESSAGE = Content(name="stream", size=60)


class Stream:
    """Inserts the messages of the stream, for as long as it runs."""

    def __init__(self, scenario: Scenario, tables: TrialTables) -> None:
        self._scenario = scenario
        self.tables = tables
        #: What was sent. While the database is away it is not known whether a row is there: it may be missing.
        self.sent: list[Sent] = []
        self._task: asyncio.Task[None] | None = None
        self._checks = scenario.sent.checksum is not None and scenario.arrived.checksum is not None

    @property
    def runs(self) -> bool:
        return self._scenario.stream > 0

    @property
    def last(self) -> int:
        """The number of its last message that is surely sent; 0 = there is none."""
        return next((each.number for each in reversed(self.sent) if not each.expires), 0)

    def start(self) -> None:
        if self.runs:
            self._task = asyncio.create_task(self._send())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _send(self) -> None:
        number, due = 0, time.monotonic()
        while True:
            number += 1
            data = content(STREAM, number, Kind.TEXT, MESSAGE.size)
            sent = Sent(number, checksum(data) if self._checks else "")
            # Until the insert has returned, also if it never does, it is not known whether the row is there.
            self.sent.append(replace(sent, expires=True))
            try:
                inserting = asyncio.to_thread(self.tables.insert, self._scenario.sent, STREAM, [number], MESSAGE, set())
                await asyncio.shield(inserting)
                self.sent[-1] = sent
            except TransientStorageError:
                pass
            due = max(due + self._scenario.stream, time.monotonic())
            await asyncio.sleep(due - time.monotonic())

    async def arrived(self, since: int = 0) -> list[ArrivedRow]:
        """What has arrived of it, from a number on."""
        return await asyncio.to_thread(self.tables.arrived, self._scenario.arrived, STREAM, since)
