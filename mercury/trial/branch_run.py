"""Runs one branch: inserts its messages, waits for its step, sets its faults, waits for what arrives, and judges."""

from __future__ import annotations

import asyncio
import time

from mercury.errors import MercuryError, TransientStorageError
from mercury.trial.databases import Undo
from mercury.trial.deployment import START_TIMEOUT, Deployment
from mercury.trial.faults import RULES, Action, Fault, Rank, Release, Subject
from mercury.trial.judging import ArrivedRow, Finding, Gaps, Sent, Verdict, gaps, judge
from mercury.trial.link import Connection, Trigger
from mercury.trial.programs.messages import Kind, checksum, content
from mercury.trial.result import BranchResult, Moments
from mercury.trial.stream import Stream
from mercury.trial.tree import Branch

#: Seconds between two looks at the tables.
LOOK = 0.05
#: Seconds after a pause in which the paused member may write what it had begun; it does not say when that is done.
LATE_WRITES = 0.5
#: How long a step is waited for, in seconds, unless the half of the patience is longer.
STEP_TIMEOUT = 15.0


class BranchRun:
    """One run of one branch on a deployment that is whole."""

    def __init__(self, branch: Branch, deployment: Deployment, stream: Stream) -> None:
        self._branch, self._deployment, self._stream = branch, deployment, stream
        self._scenario = deployment.scenario
        self._reached = asyncio.Event()
        self._undoing: list[asyncio.Task[None]] = []
        self._returning: list[asyncio.Task[None]] = []
        self._events: list[tuple[float, str]] = []
        self._sent: list[Sent] = []
        self._began = time.time()
        self._fault_at: float | None = None
        self._failed: BaseException | None = None
        #: How long things were away that have no replacement: a link, the database, or the only program of a side.
        self._away = 0.0

    async def run(self) -> BranchResult:
        """Run it. Errors become the verdict `Verdict.FAILED`; at the end the deployment may not be whole yet."""
        first = max(1, self._stream.last - 20)
        finding = answers = Finding()
        verdict, detail = Verdict.FAILED, ""
        self._deployment.split = 0.0
        written = await self._written()
        try:
            if await self._break():
                await self._undone()
                finding, answers = await self._wait(self._stream.last + 1)
                verdict, detail = self._verdict(finding, answers)
            else:
                # Without a fault, its messages must have arrived all the same.
                finding, answers = await self._wait(self._stream.last + 1)
                verdict, detail = self._verdict(finding, answers)
                verdict = verdict if verdict.is_wrong else Verdict.NOT_REACHED
        except MercuryError as error:
            detail = " ".join(str(error).split())
        finally:
            self._deployment.links[self._branch.step.link].disarm()
        if verdict is Verdict.RIGHT and self._scenario.single and self._deployment.split > self._scenario.lease:
            verdict, detail = Verdict.SPLIT, f"two members served at the same time for {self._deployment.split:.1f} s"
        if verdict is Verdict.RIGHT and (replaced := await self._by_replaced(written)):
            epochs = ", ".join(map(str, sorted(set(replaced))))
            verdict, detail = Verdict.SPLIT, f"a member that was replaced has written (epoch {epochs})"
        between, stream, arrivals = await self._times(first)
        if verdict is Verdict.RIGHT and self._scenario.limit is not None:
            limit = self._scenario.limit + self._away
            if between.longest > limit:
                verdict, detail = Verdict.SLOW, f"{between.longest:.1f} s, and {limit:.1f} s are permitted"
        if verdict is not Verdict.RIGHT:
            self._deployment.dump_stacks()
        moments = Moments(
            events=tuple(self._events),
            arrivals=tuple(at - self._began for at in arrivals),
            stream=tuple(at - self._began for at in stream),
            fault=None if self._fault_at is None else self._fault_at - self._began,
            seconds=time.time() - self._began,
        )
        return BranchResult(self._branch, verdict, finding, answers, between, moments, len(self._sent), detail)

    # --- the faults ------------------------------------------------------------------------------------------------

    async def _break(self) -> bool:
        """Send the messages and set all faults; returns whether the step was reached."""
        branch, step, content = self._branch, self._branch.step, self._branch.content
        number = step.number(self._scenario.count)
        patterns = tuple((each.bytes_for(branch.key, number), each.way) for each in step.patterns)
        slow = content.size if step.carries_body and content.large else 0
        if content.kind == "text" or content.kind == "attachment":
            slow = slow * 9 // 10  # the head of the message passes too, and what is left must not be waited for
        trigger = Trigger(patterns, branch.moment, self._on_step, self._scenario.during, slow)
        link = self._deployment.links[step.link]
        if not patterns:  # the next connection may be of another key: the messages are there before it
            await self._insert()
            link.arm(trigger)
        else:
            link.arm(trigger)
            await self._insert()
        try:
            async with asyncio.timeout(max(STEP_TIMEOUT, self._scenario.patience / 2)):
                await self._reached.wait()
        except TimeoutError:
            return False
        if self._failed is not None:
            raise self._failed
        for action in self._branch.actions[1:]:
            await self._next(action)
        return True

    async def _on_step(self, connection: Connection) -> None:
        """Set the first fault; return when what is held may go on."""
        action = self._branch.actions[0]
        self._note(f"{self._branch.moment.value} {self._branch.step.name}")
        self._fault_at = time.time()
        try:
            undo = await self._deployment.set(action, connection, self._note)
        except MercuryError as error:
            self._failed = error
            self._reached.set()
            return
        undoing = self._undo(action, undo)
        self._reached.set()
        if RULES[action.fault].release is Release.UNDONE and self._has_sent(action):
            await asyncio.shield(undoing)

    def _has_sent(self, action: Action) -> bool:
        """Whether the bytes that are held are those of the program on which the fault is set, as far as that is known.

        Those of another one must go on: to hold them would be a second fault.
        """
        sender = next(link.sender for link in self._scenario.links if link.name == self._branch.step.link)
        return sender in (None, action.target) and action.rank is not Rank.STANDBY

    async def _next(self, action: Action) -> None:
        """Set a further fault: on the program that serves by then, or on what is between while a program is gone."""
        if RULES[action.fault].subject is Subject.PROGRAM:
            await self._undone()
            await self._deployment.whole(START_TIMEOUT)
            await self._wait_for_stream()
            await self._insert()
        self._undo(action, await self._deployment.set(action, None, self._note))

    async def _wait_for_stream(self) -> None:
        """Until the first fault is overcome: otherwise two times to fail over would be one."""
        number, until = self._stream.last + 1, time.monotonic() + self._scenario.patience
        while self._stream.runs and not await self._flows(number) and time.monotonic() < until:
            await asyncio.sleep(LOOK)

    def _undo(self, action: Action, undo: Undo) -> asyncio.Task[None]:
        began = time.time() if self._undoing else self._fault_at or time.time()
        is_program = RULES[action.fault].subject is Subject.PROGRAM

        async def undoing() -> None:
            back = await undo()
            if not is_program:
                self._away += back - began
            elif self._scenario.members(action.target) == 1:
                self._returning.append(asyncio.create_task(self._returned(action.target, began)))

        task = asyncio.create_task(undoing())
        self._undoing.append(task)
        return task

    async def _returned(self, side: str, began: float) -> None:
        """Count the time until the only program of a side serves again."""
        until = time.monotonic() + START_TIMEOUT
        while not self._deployment.serves(side) and time.monotonic() < until:
            await asyncio.sleep(LOOK)
        self._away += time.time() - began

    async def _undone(self) -> None:
        for tasks in (self._undoing, self._returning):
            await asyncio.gather(*tasks)
            tasks.clear()

    # --- the messages ----------------------------------------------------------------------------------------------

    async def _insert(self) -> None:
        """Insert the next messages of the branch."""
        what, count = self._branch.content, self._scenario.count
        numbers = range(len(self._sent) + 1, len(self._sent) + count + 1)
        # Those with odd numbers expire: the message at the step does not.
        expiring = {number for number in numbers if what.expires_in is not None and number % 2}
        into = self._scenario.sent
        await asyncio.to_thread(self._deployment.tables.insert, into, self._branch.key, numbers, what, expiring)
        checks = into.checksum is not None and self._scenario.arrived.checksum is not None
        for number in numbers:
            data = content(self._branch.key, number, Kind(what.kind), what.size) if checks else b""
            self._sent.append(Sent(number, checksum(data) if checks else "", number in expiring))
        self._note(f"messages {numbers[0]} to {numbers[-1]}")

    async def _wait(self, streamed: int) -> tuple[Finding, Finding]:
        """Wait until all messages and answers are there and the stream flows, or the patience is over."""
        until = time.monotonic() + self._scenario.patience
        # One that expires is waited for a little: it may be on its way.
        grace = time.monotonic() + 1.0 + (self._branch.content.expires_in or 0) % 60
        while True:
            found, answers = await self.judged()
            missing = found.lost or answers.lost or (found.expired and time.monotonic() < grace)
            flows = not self._stream.runs or await self._flows(streamed)
            if (not missing and flows) or time.monotonic() > until:
                return found, answers
            await asyncio.sleep(LOOK)

    async def judged(self) -> tuple[Finding, Finding]:
        """Compare the tables now; all messages are missing while the database is away."""
        arrived = await self._arrived()
        answers: Finding = Finding()
        if self._branch.content.answered and self._scenario.answers is not None:
            answers = judge(self._sent, await self._arrived(answers=True))
        return judge(self._sent, arrived), answers

    async def _arrived(self, *, answers: bool = False) -> list[ArrivedRow]:
        of = self._scenario.answers if answers and self._scenario.answers is not None else self._scenario.arrived
        try:
            return await asyncio.to_thread(self._deployment.tables.arrived, of, self._branch.key)
        except TransientStorageError:
            return []

    async def _written(self) -> int:
        of = self._scenario.members_table
        return 0 if of is None else await asyncio.to_thread(self._deployment.tables.last_of_members, of)

    async def _by_replaced(self, since: int) -> list[int]:
        """The epochs of rows that replaced members have written behind a position, also after a pause."""
        of = self._scenario.members_table
        if of is None:
            return []
        if any(each.fault is Fault.PAUSE for each in self._branch.actions):
            await asyncio.sleep(LATE_WRITES)
        try:
            return await asyncio.to_thread(self._deployment.tables.by_replaced, of, since)
        except TransientStorageError:
            return []

    async def _flows(self, number: int) -> bool:
        """Whether a message of the stream with this number or a higher one has arrived."""
        try:
            return bool(await self._stream.arrived(number))
        except TransientStorageError:
            return False

    # --- the result ------------------------------------------------------------------------------------------------

    def _verdict(self, finding: Finding, answers: Finding) -> tuple[Verdict, str]:
        order = list(Verdict)
        verdict = min((finding.verdict, answers.verdict), key=order.index)
        detail = "; ".join(part for part in (str(finding), f"answers: {answers}" if str(answers) else "") if part)
        return verdict, detail

    async def _times(self, first: int) -> tuple[Gaps, list[float], list[float]]:
        """The gaps of the stream, and the times of arrival of the stream and of the branch."""
        try:
            own = [each.at for each in await self._arrived() if each.at is not None]
            stream = [each.at for each in await self._stream.arrived(first) if each.at is not None]
        except MercuryError:
            return Gaps(), [], []
        return gaps(stream, self._fault_at or self._began), stream, own

    def _note(self, what: str) -> None:
        self._events.append((time.time() - self._began, what))
