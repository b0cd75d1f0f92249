"""The tree: which branches there are, their names, and how some of them are selected."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from mercury.trial.built_in import Deployment, scenario
from mercury.trial.databases import STANDBY
from mercury.trial.faults import RULES, Fault, Rank, Release, Subject
from mercury.trial.steps import Moment
from mercury.trial.tree import Branch, branches, lines, matches, selected

PAIR = branches(scenario(Deployment.PAIR))


def found(name: str) -> list[Branch]:
    return [branch for branch in PAIR if branch.name.startswith(name)]


@pytest.mark.parametrize("kind", [kind for kind in Deployment if kind is not Deployment.PROGRAMS])
def test_every_step_meets_every_fault_on_every_member_of_every_side(kind: Deployment) -> None:
    made = scenario(kind)
    tree = branches(made)
    one = {(branch.step.name, branch.moment, str(branch.actions[0])) for branch in tree if len(branch.actions) == 1}
    programs = [
        f"{side}-{rank.value}"
        for side in made.sides
        for rank in (tuple(Rank) if made.members(side) > 1 else (Rank.ACTIVE,))
    ]
    for step in made.steps:
        targets = {Subject.PROGRAM: programs, Subject.LINK: [step.link], Subject.DATABASE: ["database"]}
        for moment in step.moments:
            for fault in made.faults:
                for target in targets[RULES[fault].subject]:
                    assert (step.name, moment, f"{fault.value}:{target}") in one


def test_databases_fail_over_only_where_they_have_a_standby_and_disks_are_full_only_where_files_are_written() -> None:
    faults = {kind: set(scenario(kind).faults) for kind in Deployment if kind is not Deployment.PROGRAMS}
    for kind, found in faults.items():
        assert found & STANDBY == (STANDBY if kind is Deployment.STANDBY else set())
        assert (Fault.DISK_FULL in found) is (kind is Deployment.STAGE)


def test_each_link_of_a_relay_is_cut_in_each_direction_at_each_of_its_steps() -> None:
    made = scenario(Deployment.RELAY)
    cut = {str(branch.actions[0]) for branch in branches(made) if branch.actions[0].fault is Fault.CUT_REQUESTS}
    assert cut == {f"cut-requests:{link}" for link in ("there", "onward", "client-db", "relay-db", "server-db")}


@pytest.mark.parametrize(
    ("kind", "least"),
    [(Deployment.PAIR, 500), (Deployment.FLEET, 500), (Deployment.RELAY, 700), (Deployment.STANDBY, 400)],
)
def test_each_tree_has_hundreds_of_branches_and_no_name_twice(kind: Deployment, least: int) -> None:
    names = [branch.name for branch in branches(scenario(kind))]
    assert len(names) == len(set(names)) > least


def test_a_single_member_has_no_standby() -> None:
    ranks = {action.rank for branch in branches(scenario(Deployment.PLAIN)) for action in branch.actions}
    assert ranks == {Rank.ACTIVE, None}


def test_a_connection_has_no_middle() -> None:
    assert {branch.moment for branch in PAIR if branch.step.name == "connect"} == {Moment.BEFORE, Moment.AFTER}


def test_member_that_has_taken_over_is_killed_too() -> None:
    (branch,) = found("handle/before/kill:server-active+kill:server-active/")
    assert len(branch.actions) == 2


def test_a_fault_during_the_transmission_of_a_body_has_a_large_message() -> None:
    assert all(branch.content.large for branch in found("receive/during/"))
    assert not any(branch.content.large for branch in found("receive/before/"))


def test_only_steps_of_answers_have_messages_that_are_answered() -> None:
    assert {branch.step.name for branch in PAIR if branch.content.answered} == {"answer", "settle"}


def test_the_same_seed_selects_the_same_branches_in_the_order_of_the_tree() -> None:
    some = selected(PAIR, None, 20, seed=7)
    assert some == selected(PAIR, None, 20, seed=7) != selected(PAIR, None, 20, seed=8)
    assert [branch.index for branch in some] == sorted({branch.index for branch in some})


def test_a_selection_has_every_step_equally_often_and_faults_and_moments_in_nearly_equal_shares() -> None:
    some = selected(PAIR, None, 126, seed=13)
    steps = Counter(branch.step.name for branch in some)
    assert set(steps) == {branch.step.name for branch in PAIR}
    assert max(steps.values()) - min(steps.values()) <= 1
    faults = Counter(tuple(str(action).split(":there")[0] for action in branch.actions) for branch in some)
    single = [f"{fault}:{side}-{rank}" for fault in ("stop", "kill", "pause") for side in ("client", "server")
              for rank in ("active", "standby")]  # fmt: skip
    assert all(3 <= faults[(fault,)] <= 9 for fault in single)
    moments = Counter(branch.moment for branch in some)
    assert min(moments.values()) > 126 / 5


def test_a_selection_of_few_branches_has_as_many_steps() -> None:
    some = selected(PAIR, None, 5, seed=1)
    assert len({branch.step.name for branch in some}) == 5
    assert len({tuple(map(str, branch.actions)) for branch in some}) == 5


def test_a_branch_that_is_run_again_has_other_messages() -> None:
    again = dataclasses.replace(PAIR[0], again=True)
    assert again.key != PAIR[0].key
    assert again.name == PAIR[0].name


def test_a_pattern_selects_by_the_name() -> None:
    (branch,) = selected(PAIR, "store/after/kill:server-active/", None, 1)
    assert matches(branch, "store/*/kill*")
    assert not matches(branch, "store/*/stop*")
    assert selected(PAIR, "no such", None, 1) == []


def test_the_list_has_a_line_for_each_branch() -> None:
    some = found("handle/before/kill:server-active/")
    assert list(lines(some)) == [
        "handle",
        "  before",
        f"    {some[0].index:>4}  kill:server-active  ({some[0].content.name})",
    ]


def test_only_a_paused_process_keeps_its_bytes_back_until_it_wakes() -> None:
    assert [fault for fault, rule in RULES.items() if rule.release is Release.UNDONE] == [Fault.PAUSE]


def test_faults_in_a_row_need_their_faults() -> None:
    without = dataclasses.replace(scenario(Deployment.PAIR), faults=(Fault.PAUSE,))
    assert {len(branch.actions) for branch in branches(without)} == {1}
