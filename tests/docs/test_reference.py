"""docs/reference.md agrees with the code that it describes, and the commands and names that the pages use exist."""

from __future__ import annotations

import functools
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import mercury
from mercury import errors, testing
from mercury.cli.main import app
from mercury.settings import explain, variable
from tests.acceptance import processes

from .pages import ROOT, blocks, code_spans, pages, section, table

REFERENCE = (ROOT / "docs/reference.md").read_text(encoding="utf-8")
PAGES = pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))


def bare(cell: str) -> str:
    """A cell that is nothing but one code span."""
    return cell.strip("`")


# --- settings --------------------------------------------------------------------------------------------------------


def test_the_table_of_settings_has_every_setting_with_its_default_in_their_order() -> None:
    documented = [(bare(name), bare(default)) for name, default, _ in table(section(REFERENCE, "Settings"))]
    assert documented == [(setting.path, setting.shown) for setting in explain(environment={})]


def test_every_setting_is_explained() -> None:
    assert [row for row in table(section(REFERENCE, "Settings")) if not row[2]] == []


def test_config_show_prints_what_the_table_says(tmp_path: Path) -> None:
    shown = processes.run_by_default([processes.MERCURY, "config", "show", "--output", "json"], tmp_path)
    documented = [bare(name) for name, _, _ in table(section(REFERENCE, "Settings"))]
    assert shown.code == 0, shown.err
    settings = json.loads(shown.out)
    assert [setting["setting"] for setting in settings] == documented
    assert {setting["from"] for setting in settings} == {"default"}


@PAGES
def test_every_variable_that_a_page_sets_is_a_setting(page: Path) -> None:
    known = {variable(setting.path) for setting in explain(environment={})} | {"MERCURY_CONFIG"}
    named = set(re.findall(r"\bMERCURY_(?!TEST_)[A-Z_]*[A-Z]\b", page.read_text(encoding="utf-8")))
    assert named - known == set()


@PAGES
def test_every_setting_that_a_page_names_is_one(page: Path) -> None:
    paths = {setting.path for setting in explain(environment={})}
    parts = {path.partition(".")[0] for path in paths if "." in path}
    spans = (span.partition(" = ")[0] for span in code_spans(page.read_text(encoding="utf-8")))
    named = {span for span in spans if re.fullmatch(rf"(?:{'|'.join(parts)})(?:\.\w+)+", span)}
    assert named - paths == set()


# --- commands --------------------------------------------------------------------------------------------------------


def command_lines(text: str) -> Iterator[str]:
    """Everything in a page that calls `mercury`: code spans, and what stands behind a prompt."""
    yield from (span for span in code_spans(text) if re.match(r"mercury [a-z-]", span))
    for block in blocks(text):
        for line in block.text.replace("\\\n", " ").splitlines():
            found = re.match(r"\$ (?:\w+=\S+ )*(mercury .*)", line)
            if found:
                yield found[1]


@functools.cache
def root_command() -> Any:
    """The command ``mercury``, made once: that takes a quarter of a second."""
    return get_command(app)


def problem(line: str) -> str | None:
    """Why a line calls a command or an option that there is not; ``None`` = it may be typed as it stands."""
    try:
        words = shlex.split(line, comments=True)[1:]
    except ValueError as error:
        return f"{line}: {error}"
    command = root_command()
    context: Any = command.make_context("mercury", [], resilient_parsing=True)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        # The pages say `list|show` and `list`, `show ID` for two that are alike.
        found = command.get_command(context, words[0])
        if found is None:
            return f"{line}: there is no command {words[0]!r}"
        command, words = found, words[1:]
    options = {each for parameter in command.params for each in (*parameter.opts, *parameter.secondary_opts)}
    options |= {"--help", "-h"}
    unknown = [word for word in words if word.startswith("-") and word.partition("=")[0] not in options]
    return f"{line}: there is no option {unknown[0]}" if unknown else None


@PAGES
def test_every_command_that_a_page_names_exists_with_its_options(page: Path) -> None:
    found = [problem(line) for line in command_lines(page.read_text(encoding="utf-8"))]
    assert [each for each in found if each is not None] == []


def test_there_are_commands_to_check() -> None:
    lines = {line for page in pages() for line in command_lines(page.read_text(encoding="utf-8"))}
    assert {"mercury config show", "mercury serve MODULE:APP", "mercury simulate --seeds 1000"} <= lines


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("mercury fly", "there is no command 'fly'"),
        ("mercury sequences drop 1", "there is no command 'drop'"),
        ("mercury send URL --to x", "there is no option --to"),
        ("mercury simulate --seed=1 --sed=2", "there is no option --sed=2"),
    ],
)
def test_a_command_that_is_not_there_is_found(line: str, why: str) -> None:
    assert problem(line) == f"{line}: {why}"


def test_every_command_is_in_the_reference() -> None:
    cells = [cell for cell, _ in table(section(REFERENCE, "Commands"))]
    root = root_command()
    for name, command in root.commands.items():
        about = " ".join(cell for cell in cells if f"mercury {name}" in cell)
        assert about, f"mercury {name} is not in the table of commands"
        for inner in getattr(command, "commands", {}):
            assert re.search(rf"\b{inner}\b", about), f"mercury {name} {inner} is not in the table of commands"


@PAGES
def test_every_target_of_make_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    typed = [line for block in blocks(text) for line in block.text.splitlines() if line.startswith("$ ")]
    named = {name for line in (*code_spans(text), *typed) for name in re.findall(r"^(?:\$ )?make ([a-z]+)", line)}
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert named - targets == set()


# --- names -----------------------------------------------------------------------------------------------------------


def test_the_table_of_names_has_every_public_name_and_no_other() -> None:
    rows = table(section(REFERENCE, "The Python names"))
    documented = [name for cell, _ in rows for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(documented) == sorted(set(documented))
    public = {name for name in mercury.__all__ if not name.startswith("_")}
    in_errors = {name for name in public if issubclass_of_error(getattr(mercury, name))}
    assert set(documented) - public == set()
    assert public - set(documented) - in_errors == set()


def test_the_table_of_names_for_tests_has_every_name_of_mercury_testing_and_their_members() -> None:
    rows = table(section(REFERENCE, "The names for tests"))
    documented = [name for cell, _ in rows for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(documented) == sorted(testing.__all__)
    pair = testing.Pair()
    made = {"Pair": pair, "Node": pair.client, "Wire": pair.wire, "FakeClock": pair.clock}
    for cell, text in rows:
        owner = made.get(re.findall(r"`(\w+)`", cell)[0], getattr(testing, re.findall(r"`(\w+)`", cell)[0]))
        if cell.count("`") == 2 and ": `" in text:
            members = re.findall(r"`([a-z_]+)`", text.partition(": ")[2])
            assert [member for member in members if not hasattr(owner, member)] == []


def issubclass_of_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def test_the_table_of_errors_names_errors_that_there_are() -> None:
    documented = [name for cell, _ in table(section(REFERENCE, "Errors")) for name in re.findall(r"`(\w+)`", cell)]
    assert [name for name in documented if not issubclass_of_error(getattr(errors, name, None))] == []
    public = {name for name in mercury.__all__ if issubclass_of_error(getattr(mercury, name))}
    assert public - set(documented) - {"MercuryError"} == set()


def test_the_members_that_the_table_gives_mercury_are_there() -> None:
    for cell, text in table(section(REFERENCE, "The Python names")):
        for name in re.findall(r"`(\w+)`", cell):
            if name in ("Mercury", "Sender", "Receipt"):
                owner = getattr(mercury, name if name != "Receipt" else "Sender")
                members = re.findall(r"`([a-z_]+)`", text)
                assert [member for member in members if not hasattr(owner, member)] == []
