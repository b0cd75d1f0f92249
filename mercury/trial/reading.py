"""Reads a scenario from a TOML file."""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, cast

from mercury.choices import member
from mercury.errors import ConfigurationError
from mercury.trial import built_in
from mercury.trial.built_in import Deployment
from mercury.trial.faults import Fault
from mercury.trial.scenario import Command, Compared, Content, LinkTo, Program, Scenario
from mercury.trial.steps import Moment, Pattern, Step, Way

T = TypeVar("T")

#: The scenario that `mercury trial --example` prints.
EXAMPLE = Path(__file__).with_name("example.toml")
#: What `[deployment]` and `[try]` may say for every deployment.
DEPLOYMENT = ("kind", "lease", "limit", "patience", "prepare")
TRY = ("faults", "moments", "steps", "count", "stream", "cut", "during", "large")
SECTIONS = (
    "name",
    "deployment",
    "try",
    "database",
    "program",
    "link",
    "sent",
    "arrived",
    "answers",
    "step",
    "command",
    "content",
)
OWN = ("database", "program", "link", "sent", "arrived", "answers", "step")


def read(path: Path) -> Scenario:
    """Read a scenario.

    :raises ConfigurationError: the file cannot be read, or says something that is not possible; the text names it.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
    try:
        return make(values)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def make(values: Mapping[str, Any]) -> Scenario:
    """The scenario that a file's values describe.

    :raises ConfigurationError: as for `read`.
    """
    _known(values, SECTIONS, "the scenario")
    deployment, tries = _section(values, "deployment"), _section(values, "try")
    _known(deployment, DEPLOYMENT, "[deployment]")
    _known(tries, TRY, "[try]")
    kind = member(Deployment, deployment.get("kind", "pair"), "deployment.kind")
    lease = _number(deployment, "lease", 1.0, least=0.5)
    if kind is Deployment.PROGRAMS:
        scenario = _own(values, deployment, lease)
    else:
        for name in OWN:
            if name in values:
                raise ConfigurationError(f'{name}: only with deployment.kind = "programs"')
        scenario = built_in.scenario(kind, lease)
    return _tried(scenario, values, deployment, tries)


def _own(values: Mapping[str, Any], deployment: Mapping[str, Any], lease: float) -> Scenario:
    programs = tuple(
        _made(Program, each, "program", command=_words, stop=_words, environment=_texts)
        for each in _many(values, "program")
    )
    links = tuple(_made(LinkTo, each, "link") for each in _many(values, "link"))
    steps = tuple(_step(each) for each in _many(values, "step"))
    if not programs or not links or not steps:
        raise ConfigurationError("a deployment of programs needs [[program]], [[link]] and [[step]]")
    names = {link.name for link in links}
    for step in steps:
        if step.link not in names:
            raise ConfigurationError(f"step {step.name}: there is no link {step.link!r}")
    sides = {program.side for program in programs}
    for link in links:
        if link.side not in sides:
            raise ConfigurationError(f"link {link.name}: there is no program of the side {link.side!r}")
    databases = _texts(_section(values, "database"), "database")
    tables = {
        name: _made(Compared, _section(values, name), name) for name in ("sent", "arrived", "answers") if name in values
    }
    if "sent" not in tables or "arrived" not in tables:
        raise ConfigurationError("[sent] and [arrived] say which tables are compared")
    for name, each in tables.items():
        if each.database not in databases:
            raise ConfigurationError(f"{name}.database: [database] has no {each.database!r}")
    left_out = {Fault.COMMAND}
    if "embedded" not in databases.values():
        left_out |= {Fault.DATABASE_STOP, Fault.DATABASE_KILL}
    return Scenario(
        name="programs",
        programs=programs,
        links=links,
        sent=tables["sent"],
        arrived=tables["arrived"],
        answers=tables.get("answers"),
        databases=databases,
        prepare=tuple(_words(each, "deployment.prepare") for each in deployment.get("prepare", ())),
        steps=steps,
        faults=tuple(fault for fault in Fault if fault not in left_out),
        lease=lease,
    )


def _step(values: Mapping[str, Any]) -> Step:
    """A step's patterns are texts; one that begins with ``reply:`` is looked for in the other direction."""

    def patterns(given: object, where: str) -> tuple[Pattern, ...]:
        return tuple(
            Pattern(text.removeprefix("reply:"), Way.REPLY if text.startswith("reply:") else Way.REQUEST)
            for text in _words(given, where)
        )

    return _made(Step, values, "step", patterns=patterns)


def _tried(
    scenario: Scenario, values: Mapping[str, Any], deployment: Mapping[str, Any], tries: Mapping[str, Any]
) -> Scenario:
    """The scenario with what the file says about both kinds of deployments."""
    commands = {
        each.name: each
        for each in (_made(Command, each, "command", set=_words, undo=_words) for each in _many(values, "command"))
    }
    faults = scenario.faults
    if "faults" in tries:
        faults = tuple(member(Fault, each, "try.faults") for each in _words(tries["faults"], "try.faults"))
    if commands and Fault.COMMAND not in faults:
        faults = (*faults, Fault.COMMAND)
    steps = scenario.steps
    if "steps" in tries:
        known = {step.name: step for step in steps}
        for name in (wanted := _words(tries["steps"], "try.steps")):
            if name not in known:
                raise ConfigurationError(f"try.steps: no step {name!r}; there are: {', '.join(known)}")
        steps = tuple(step for step in steps if step.name in wanted)
    contents = tuple(_made(Content, each, "content") for each in _many(values, "content")) or scenario.contents
    if "large" in tries:
        size = int(_number(tries, "large", 0, least=1))
        contents = tuple(dataclasses.replace(each, size=size) if each.large else each for each in contents)
    moments = scenario.moments
    if "moments" in tries:
        moments = tuple(member(Moment, each, "try.moments") for each in _words(tries["moments"], "try.moments"))
    return dataclasses.replace(
        scenario,
        name=str(values.get("name", scenario.name)),
        faults=faults,
        steps=steps,
        contents=contents,
        moments=moments,
        commands=MappingProxyType(commands),
        count=int(_number(tries, "count", scenario.count, least=2)),
        stream=_number(tries, "stream", scenario.stream),
        cut=_number(tries, "cut", scenario.cut),
        during=_number(tries, "during", scenario.during),
        patience=_number(deployment, "patience", scenario.patience, least=0.1),
        limit=_number(deployment, "limit", 0.0) if "limit" in deployment else scenario.limit,
    )


# --- values ----------------------------------------------------------------------------------------------------------


def _made(kind: type[T], values: object, where: str, **read: Callable[[object, str], object]) -> T:
    """A dataclass from a table of TOML; ``read`` converts the values of some fields."""
    if not isinstance(values, Mapping):
        raise ConfigurationError(f"{where}: a table is needed")
    fields = {each.name: each for each in dataclasses.fields(cast(Any, kind))}
    _known(values, fields, f"[{where}]")
    given = {name: read[name](value, f"{where}.{name}") if name in read else value for name, value in values.items()}
    for name, value in given.items():
        if name not in read and fields[name].type in ("str", "str | None") and not isinstance(value, str):
            raise ConfigurationError(f"{where}.{name}: a text is needed")
    needed = [
        name
        for name, each in fields.items()
        if each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING and name not in given
    ]
    if needed:
        raise ConfigurationError(f"[{where}]: {', '.join(needed)} is missing")
    return kind(**given)


def _known(values: Iterable[str], names: Iterable[str], where: str) -> None:
    names = list(names)
    for name in values:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names)}"
            raise ConfigurationError(f"{where} has no {name!r}; {hint}")


def _section(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = values.get(name, {})
    if not isinstance(found, Mapping):
        raise ConfigurationError(f"[{name}] must be a table")
    return found


def _many(values: Mapping[str, Any], name: str) -> list[Any]:
    found = values.get(name, [])
    if not isinstance(found, list):
        raise ConfigurationError(f"[[{name}]] must be an array of tables")
    return found


def _words(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ConfigurationError(f"{where}: a list of texts is needed")
    return tuple(value)


def _texts(value: object, where: str) -> Mapping[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(each, str) for each in value.values()):
        raise ConfigurationError(f"{where}: a table of texts is needed")
    return MappingProxyType(dict(value))


def _number(values: Mapping[str, Any], name: str, default: float, least: float = 0.0) -> float:
    value = values.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < least:
        raise ConfigurationError(f"{name}: a number of at least {least:g} is needed")
    return float(value)
