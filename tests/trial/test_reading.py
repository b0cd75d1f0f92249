"""Scenario files: what they say, and what is refused by name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mercury import ConfigurationError
from mercury.trial.faults import Fault
from mercury.trial.reading import EXAMPLE, read
from mercury.trial.steps import Moment, Way

ROOT = Path(__file__).resolve().parents[2]


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "scenario.toml"
    file.write_text(text)
    return file


def test_the_example_is_a_scenario() -> None:
    scenario = read(EXAMPLE)
    assert (scenario.name, scenario.lease, scenario.limit) == ("our installation", 1.0, 3.0)
    assert Fault.COMMAND not in scenario.faults
    assert {content.size for content in scenario.contents if content.large} == {1_000_000}


def test_the_commented_parts_of_the_example_are_scenarios_too(tmp_path: Path) -> None:
    text = EXAMPLE.read_text().replace('kind = "pair"', 'kind = "programs"')
    scenario = read(write(tmp_path, re.sub(r"(?m)^# (?=\[|[a-z]+ = )", "", text).replace('steps = ["receive', '# ["')))
    assert [program.name for program in scenario.programs] == ["server-a", "client"]
    assert list(scenario.commands) == ["disk full"]
    assert scenario.steps[1].patterns[1].way is Way.REPLY
    assert scenario.arrived.arrival == "id"


def test_scenario_narrows_the_tree(tmp_path: Path) -> None:
    text = '[try]\nfaults = ["kill"]\nsteps = ["handle"]\nmoments = ["after"]\ncount = 3\nstream = 0\n'
    scenario = read(write(tmp_path, text))
    assert scenario.faults == (Fault.KILL,)
    assert [step.name for step in scenario.steps] == ["handle"]
    assert (scenario.moments, scenario.count, scenario.stream) == ((Moment.AFTER,), 3, 0)


PROGRAMS = """
[deployment]
kind = "programs"
[database]
one = "sqlite:///{folder}/one.db"
[[program]]
name = "p"
side = "s"
command = ["true"]
[[link]]
name = "l"
side = "s"
[[step]]
name = "x"
link = "l"
[sent]
database = "one"
table = "t"
[arrived]
database = "one"
table = "u"
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", "scenario.toml: Invalid value"),
        ('[deploymnt]\nkind = "pair"', "has no 'deploymnt'; did you mean 'deployment'?"),
        (
            '[deployment]\nkind = "trio"',
            "deployment.kind: 'trio' is not one of plain, pair, fleet, standby, relay, stage, programs",
        ),
        ("[deployment]\nlease = 0.1", "lease: a number of at least 0.5"),
        ("[deployment]\nlease = true", "lease: a number of at least 0.5"),
        ('[try]\nfaults = ["flood"]', "try.faults: 'flood' is not one of stop, kill"),
        ('[try]\nsteps = ["recieve"]', "no step 'recieve'; there are: send, commit"),
        ("[try]\ncount = 1", "count: a number of at least 2"),
        ('[database]\na = "b"', 'database: only with deployment.kind = "programs"'),
        ('[deployment]\nkind = "programs"', "needs [[program]], [[link]] and [[step]]"),
        (PROGRAMS.replace('link = "l"', 'link = "m"'), "step x: there is no link 'm'"),
        (PROGRAMS.replace('name = "l"\nside = "s"', 'name = "l"\nside = "t"'), "no program of the side 't'"),
        (PROGRAMS.replace('database = "one"\ntable = "u"', 'database = "two"\ntable = "u"'), "has no 'two'"),
        (PROGRAMS.replace('command = ["true"]', 'command = "true"'), "program.command: a list of texts is needed"),
        (PROGRAMS.replace('command = ["true"]\n', ""), "[program]: command is missing"),
        (PROGRAMS.replace('table = "u"\n', "table = 1\n"), "arrived.table: a text is needed"),
    ],
)
def test_impossible_values_are_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(write(tmp_path, text))
    assert said in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.toml: No such file"):
        read(tmp_path / "none.toml")


@pytest.mark.parametrize("file", sorted(ROOT.glob("samples/*/trial*.toml")), ids=lambda file: str(file.parent.name))
def test_the_scenarios_of_the_samples_are_read(file: Path) -> None:
    assert read(file).steps
