"""The rules for all files of the repository; see `tree`."""

from __future__ import annotations

import os
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from .tree import REGISTRY_HOSTS, bad_links, bad_pins, files, forbidden_texts, normal, pinned, too_long

ROOT = Path(__file__).resolve().parents[2]
LINKS = ("service", "statemachine", "storage")
CONSTRAINTS = ROOT / "constraints.txt"

#: Files that were too long when the rule came, with the lines they may have. The list may only become shorter.
STILL_LONG: dict[str, int] = {}


# --- links -----------------------------------------------------------------------------------------------------------


def test_the_three_top_level_names_are_relative_links_to_the_parts() -> None:
    assert bad_links(ROOT, LINKS) == []


def test_a_wrong_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "mercury/service").mkdir(parents=True)
    (tmp_path / "service").symlink_to("mercury/service")
    (tmp_path / "statemachine").symlink_to(tmp_path / "mercury/service")
    (tmp_path / "storage").mkdir()
    (tmp_path / "wire").symlink_to("mercury/wire")
    found = bad_links(tmp_path, [*LINKS, "wire"])
    assert [each.partition(":")[0] for each in found] == ["statemachine", "storage", "wire"]


# --- texts -----------------------------------------------------------------------------------------------------------


def test_no_file_names_a_registry_or_a_path_of_one_machine() -> None:
    assert forbidden_texts(ROOT) == []


def test_there_are_files_to_check() -> None:
    found = {path.relative_to(ROOT).as_posix() for path in files(ROOT)}
    assert {"pyproject.toml", "mercury/errors.py", "tests/architecture/tree.py"} <= found
    assert not any(name.startswith((".git/", ".venv/")) for name in found)


@pytest.mark.parametrize("host", REGISTRY_HOSTS)
def test_a_registry_host_is_found(tmp_path: Path, host: str) -> None:
    (tmp_path / "a.md").write_text(f"\nsee https://{host.upper()}/simple\n")
    (found,) = forbidden_texts(tmp_path)
    assert found == f"a.md:2: names the registry host {host}"


@pytest.mark.parametrize("path", ["/{}/main", "/{}/x/y.py", "/{}/.cache"])
@pytest.mark.parametrize("folder", ["work", "root", "home"])
@pytest.mark.parametrize("line", ["{}", "cd {}", "path = '{}'", "({})", "a:{}:b", "={}", "{}.", "file://{}"])
def test_a_path_of_one_machine_is_found(tmp_path: Path, folder: str, path: str, line: str) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/a.txt").write_text(f"\n{line.format(path.format(folder))}\n")
    (found,) = forbidden_texts(tmp_path)
    assert found.startswith("deep/a.txt:2: names a path of one machine: ")


@pytest.mark.parametrize(
    "line",
    [
        *("http://example.org/{0}/x", "a/{0}/b", "../{0}/a", "~/{0}/a", "/{0}s/x", "/{0}-a", "{0}/a"),
        *("//{0}/text()", "{{a}}/{0}/b"),
    ],
)
def test_text_that_only_resembles_a_path_is_not_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.txt").write_text("".join(line.format(folder) + "\n" for folder in ("work", "root", "home")))
    assert forbidden_texts(tmp_path) == []


def test_binary_files_and_links_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\0" + REGISTRY_HOSTS[0].encode())
    (tmp_path / "link").symlink_to(tmp_path / "a.bin")
    os.mkfifo(tmp_path / "pipe")
    assert forbidden_texts(tmp_path) == []


# --- pins ------------------------------------------------------------------------------------------------------------


def test_every_constraint_is_one_version_of_one_distribution() -> None:
    assert bad_pins(CONSTRAINTS.read_text()) == []


def test_everything_that_the_project_asks_for_is_pinned_with_all_that_it_needs() -> None:
    pins = pinned(CONSTRAINTS.read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(each for extra in project["optional-dependencies"].values() for each in extra)]
    seen: set[str] = set()
    while asked:
        requirement = asked.pop()
        name = normal(re.split(r"[\s\[;<>=!~(]", requirement, maxsplit=1)[0])
        if name in seen or name == normal(project["name"]) or "extra ==" in requirement:
            continue
        try:
            asked += metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # not for this machine
        seen.add(name)
    assert len(seen) > 20
    assert seen - pins == set()


@pytest.mark.parametrize(
    "line",
    ["a>=1", "a", "a==1,<2", "a==1.*", "a @ https://files.example/a-1.whl", "https://files.example/a-1.whl", "-e .",
     "--index-url https://files.example", "a==1 --hash=sha256:0", "-r other.txt", "==1"],
)  # fmt: skip
def test_line_without_an_exact_version_is_found(line: str) -> None:
    assert bad_pins(f"# a comment\n\nb==2\n{line}\nc_d.e-f==1.0.post1+local # why\n") == [f"4: {line}"]


# --- sizes -----------------------------------------------------------------------------------------------------------


def test_no_source_file_is_longer_than_a_reader_can_keep_in_mind() -> None:
    assert too_long(ROOT, STILL_LONG) == []
    assert set(too_long(ROOT, {})) == {each for each in too_long(ROOT, {}) if each.partition(":")[0] in STILL_LONG}


def test_files_that_became_short_are_removed_from_the_list() -> None:
    found = {each.partition(":")[0] for each in too_long(ROOT, {})}
    assert set(STILL_LONG) - found == set()


def test_a_file_that_is_too_long_is_found(tmp_path: Path) -> None:
    (tmp_path / "mercury/a").mkdir(parents=True)
    (tmp_path / "mercury/a/short.py").write_text("\n" * 420)
    (tmp_path / "mercury/a/long.py").write_text("\n" * 421)
    assert too_long(tmp_path, {}) == ["mercury/a/long.py: 421 lines, more than 420: make two of it"]
    assert too_long(tmp_path, {"mercury/a/long.py": 421}) == []
