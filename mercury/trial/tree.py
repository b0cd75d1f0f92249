"""The tree of branches: each step, each moment, each fault on each thing, and a few in a row. Pure."""

from __future__ import annotations

import fnmatch
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mercury.trial.faults import RULES, Action, Fault, Rank, Subject
from mercury.trial.scenario import Content, Scenario
from mercury.trial.steps import Moment, Step


@dataclass(frozen=True, slots=True)
class Branch:
    """One way through the tree: messages are sent, and at the step and the moment the faults are set, one after the
    other."""

    index: int
    step: Step
    moment: Moment
    actions: tuple[Action, ...]
    content: Content
    #: It is run a second time, with other messages, because its step was not reached.
    again: bool = False

    @property
    def name(self) -> str:
        """``step/moment/fault:target``, with ``+`` between faults and before the kind of content."""
        faults = "+".join(str(action) for action in self.actions)
        return f"{self.step.name}/{self.moment.value}/{faults}/{self.content.name}"

    @property
    def key(self) -> str:
        """The key of its rows, of letters, digits and - only."""
        return f"b{self.index}again" if self.again else f"b{self.index}"


def branches(scenario: Scenario) -> list[Branch]:
    """All branches of a scenario, in the order of the tree."""
    made = (
        (step, moment, actions)
        for step in scenario.steps
        for moment in step.moments
        if moment in scenario.moments
        for actions in _actions(scenario, step, moment)
    )
    return [Branch(index, *each, _content(scenario, index, each[0], each[1])) for index, each in enumerate(made, 1)]


def _actions(scenario: Scenario, step: Step, moment: Moment) -> Iterator[tuple[Action, ...]]:
    for fault in scenario.faults:
        match RULES[fault].subject:
            case Subject.PROGRAM:
                for side in scenario.sides:
                    ranks = tuple(Rank) if scenario.members(side) > 1 else (Rank.ACTIVE,)
                    yield from ((Action(fault, side, rank),) for rank in ranks)
            case Subject.LINK:
                yield (Action(fault, step.link),)
            case Subject.DATABASE:
                yield (Action(fault, "database"),)
            case Subject.COMMAND:
                yield from ((Action(fault, name),) for name in scenario.commands)
    if moment is Moment.BEFORE:
        yield from scenario.in_a_row(step)


def _content(scenario: Scenario, index: int, step: Step, moment: Moment) -> Content:
    """The contents take turns; a fault during the transmission of a body has a large one."""
    kinds = [each for each in scenario.contents if each.answered == step.answered or not step.answered]
    kinds = (
        [each for each in kinds if each.answered] if step.answered else [each for each in kinds if not each.answered]
    )
    large = [each for each in kinds if each.large]
    if step.carries_body and moment is Moment.DURING and large:
        return large[index % len(large)]
    others = [each for each in kinds if not each.large] or kinds
    return others[index % len(others)]


def selected(found: Sequence[Branch], only: str | None, most: int | None, seed: int) -> list[Branch]:
    """The branches whose name matches the pattern, and of those at most ``most``, in the order of the tree.

    The seed chooses them: of each step as many as of every other one that has so many, and within a step as many as
    possible of each fault and of each moment.
    """
    chosen = [each for each in found if only is None or matches(each, only)]
    if most is None or most >= len(chosen):
        return chosen
    left = random.Random(seed).sample(chosen, len(chosen))  # noqa: S311 - not for secrets
    some: list[Branch] = []
    counts: Counter[object] = Counter()
    for _ in range(most):
        branch = min(left, key=lambda each: [counts[trait] for trait in _traits(each)])
        left.remove(branch)
        counts.update(_traits(branch))
        some.append(branch)
    return sorted(some, key=lambda each: each.index)


def _traits(branch: Branch) -> tuple[object, ...]:
    """What the selected branches have in equal shares, the most important first."""
    faults = tuple(map(str, branch.actions))
    # A cut is of the link of its step: all links count as one.
    fault = tuple(each.split(":")[0] if each.startswith(Fault.CUT.value) else each for each in faults)
    return (branch.step.name, fault, branch.moment, (branch.step.name, branch.moment))


def matches(branch: Branch, pattern: str) -> bool:
    """Whether the name of a branch matches a pattern with ``*``, or contains a text without."""
    return fnmatch.fnmatchcase(branch.name, pattern if set(pattern) & set("*?[") else f"*{pattern}*")


def lines(found: Iterable[Branch]) -> Iterator[str]:
    """The tree as text: a line for each step, each moment, each branch."""
    step = moment = None
    for branch in found:
        if branch.step.name != step:
            step, moment = branch.step.name, None
            yield step
        if branch.moment is not moment:
            moment = branch.moment
            yield f"  {moment.value}"
        faults = ", then ".join(str(action) for action in branch.actions)
        yield f"    {branch.index:>4}  {faults}  ({branch.content.name})"
