"""Runs the branches of a scenario: several deployments side by side, each with one branch after the other."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mercury.errors import ConfigurationError, MercuryError, StorageError
from mercury.trial.branch_run import BranchRun
from mercury.trial.deployment import START_TIMEOUT, Deployment
from mercury.trial.judging import UNKNOWN, Finding, Verdict, judge
from mercury.trial.result import BranchResult, TrialResult
from mercury.trial.scenario import Scenario
from mercury.trial.stream import Stream
from mercury.trial.tables import TrialTables
from mercury.trial.tree import Branch

#: Is called with each result, and the number of planned branches.
OnBranch = Callable[[BranchResult, int], None]


class Trial:
    """One trial of a scenario.

    :param lanes: deployments that run side by side; each takes the next branch when it is ready.
    :param folder: where the databases and the logs of the programs are; left out, a temporary one that is removed.
    """

    def __init__(
        self,
        scenario: Scenario,
        branches: Sequence[Branch],
        *,
        seed: int = 1,
        lanes: int = 1,
        folder: Path | None = None,
        on_branch: OnBranch | None = None,
    ) -> None:
        self._scenario = scenario
        self._left = list(branches)
        self._lanes = max(1, min(lanes, len(branches)))
        # The links are sockets in it, and a socket's folder has an absolute path.
        self._folder = folder.absolute() if folder is not None else None
        self._on_branch = on_branch
        self._ends = asyncio.Event()
        self._began = time.monotonic()
        self.result = TrialResult(scenario.name, [], len(branches), seed, 0.0, scenario.lease, scenario.limit)

    def interrupt(self) -> None:
        """Begin no further branch, and abandon those that run."""
        self.result.interrupted = True
        self._ends.set()

    async def run(self) -> TrialResult:
        """Run all branches; returns when all programs have ended.

        :raises ConfigurationError: a program of the scenario cannot be started.
        :raises StorageError: the deployment does not start.
        """
        with self._place() as folder:
            lanes = [asyncio.create_task(self._lane(folder / f"{number}")) for number in range(1, self._lanes + 1)]
            ends = asyncio.create_task(self._ends.wait())
            try:
                await _all_or_first(lanes, ends)
            finally:
                for task in (*lanes, ends):
                    task.cancel()
                await asyncio.gather(*lanes, ends, return_exceptions=True)
            for lane in lanes:
                if not lane.cancelled() and (error := lane.exception()) is not None:
                    raise error
        self.result.branches.sort(key=lambda each: each.branch.index)
        self.result.processors, self.result.load = os.cpu_count() or 0, os.getloadavg()[2]
        self.result.seconds = time.monotonic() - self._began
        return self.result

    @contextlib.contextmanager
    def _place(self) -> Iterator[Path]:
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            if any(self._folder.iterdir()):
                raise ConfigurationError(f"{self._folder}: it is not empty")
            yield self._folder
            return
        folder = Path(tempfile.mkdtemp(prefix="mercury-trial-"))
        folder.chmod(0o711)  # the user of PostgreSQL, if this one is root, passes through it
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    async def _lane(self, folder: Path) -> None:
        """Run branches on one deployment; a new one is started when one is broken."""
        generation = 0
        while self._left:
            generation += 1
            place = folder.with_name(f"{folder.name}-{generation}")
            place.mkdir(parents=True)
            place.chmod(0o711)
            deployment = Deployment(self._scenario, place)
            async with deployment.running():
                await self._on(deployment)

    async def _on(self, deployment: Deployment) -> None:
        stream = Stream(self._scenario, deployment.tables)
        stream.start()
        done: list[tuple[BranchRun, BranchResult]] = []
        broken = False
        try:
            await self._flows(stream)
            while self._left and not broken:
                run = BranchRun(branch := self._left.pop(0), deployment, stream)
                result = await run.run()
                try:
                    await deployment.whole(START_TIMEOUT)
                except StorageError as error:
                    result = BranchResult(branch, Verdict.FAILED, moments=result.moments, detail=str(error))
                    broken = True
                done.append((run, result))
                if result.verdict is Verdict.NOT_REACHED and not branch.again:
                    # No fault was set, so nothing is known: a retransmission or a kept connection has passed the step.
                    self._left.append(dataclasses.replace(branch, again=True))
                    self.result.again += 1
                    continue
                self.result.branches.append(result)
                if self._on_branch is not None:
                    self._on_branch(result, self.result.planned)
        finally:
            await stream.stop()
        await self._judge_again(done, stream)

    async def _flows(self, stream: Stream) -> None:
        """Wait until the stream's first message has arrived: nothing is broken before the deployment works.

        :raises StorageError: it does not arrive.
        """
        until = time.monotonic() + self._scenario.patience
        while stream.runs and not await stream.arrived():
            if time.monotonic() > until:
                raise StorageError("no message arrives, although nothing is broken yet")
            await asyncio.sleep(0.05)

    async def _judge_again(self, done: list[tuple[BranchRun, BranchResult]], stream: Stream) -> None:
        """Compare all tables once more: what was delivered again, later than its branch ended, is found here."""
        for run, result in done:
            if result.verdict in UNKNOWN:
                continue
            finding, answers = await run.judged()
            if finding.repeated or finding.unexpected or answers.repeated or answers.unexpected:
                result.finding, result.answers = finding, answers
                result.verdict = finding.verdict if finding.verdict.is_wrong else answers.verdict
                result.detail = "; ".join(filter(None, (str(finding), str(answers))))
        if stream.runs:
            found = await self._streamed(stream)
            self.result.stream = _sum(self.result.stream, found)
            self.result.streamed += len(stream.sent)
        for database in self._scenario.emptied:
            self.result.left += await self._remaining(database, stream.tables)

    async def _remaining(self, database: str, tables: TrialTables) -> int:
        """How many messages are still in a store when all have arrived: the last ones are acknowledged a little
        later."""
        until = time.monotonic() + self._scenario.patience
        while True:
            left = await asyncio.to_thread(tables.left, database)
            if not left or time.monotonic() > until:
                return left
            await asyncio.sleep(0.1)

    async def _streamed(self, stream: Stream) -> Finding:
        """The finding on the whole stream, when all of it has arrived, or the patience is over."""
        until = time.monotonic() + self._scenario.patience
        while True:
            with contextlib.suppress(MercuryError):
                found = judge(stream.sent, await stream.arrived())
                if not found.lost or time.monotonic() > until:
                    return found
            await asyncio.sleep(0.1)


async def _all_or_first(lanes: list[asyncio.Task[None]], ends: asyncio.Task[bool]) -> None:
    """Wait until all lanes have ended, one has failed, or the trial is interrupted."""
    left: set[asyncio.Task[Any]] = set(lanes)
    while left:
        done, _ = await asyncio.wait({*left, ends}, return_when=asyncio.FIRST_COMPLETED)
        left -= done
        if ends in done or any(each.exception() is not None for each in done):
            return


def _sum(one: Finding, other: Finding) -> Finding:
    """Both findings together; the numbers are those of several streams."""
    return Finding(
        lost=one.lost + other.lost,
        repeated=one.repeated + other.repeated,
        altered=one.altered + other.altered,
        unexpected=one.unexpected + other.unexpected,
        disordered=one.disordered + other.disordered,
    )
