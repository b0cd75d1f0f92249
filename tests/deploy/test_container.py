"""deploy/Containerfile: no engine for containers is needed, its instructions are followed in a folder."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from mercury.settings import HttpSettings
from tests.acceptance.processes import MERCURY, PATIENCE, ROOT, Running, get
from tests.deploy.test_kubernetes import POD


@dataclass(frozen=True)
class Instruction:
    name: str
    rest: str


def instructions() -> list[Instruction]:
    text = (ROOT / "deploy/Containerfile").read_text()
    lines = "\n".join(line for line in text.splitlines() if line and not line.startswith("#"))
    parts = [line.partition(" ") for line in lines.replace("\\\n", " ").splitlines()]
    return [Instruction(name, rest.strip()) for name, _, rest in parts]


def stages() -> list[list[Instruction]]:
    """The instructions of each stage, without its FROM."""
    found: list[list[Instruction]] = []
    for each in instructions():
        if each.name == "FROM":
            found.append([])
        else:
            found[-1].append(each)
    return found


BUILD, FINAL = stages()


def only(name: str) -> str:
    (found,) = [each.rest for each in FINAL if each.name == name]
    return found


def copied(stage: list[Instruction], folder: Path, workdir: str) -> Path:
    """Follow COPY instructions of files of this repository below a folder; returns the working folder."""
    for each in stage:
        if each.name != "COPY" or each.rest.startswith("--from="):
            continue
        *sources, target = shlex.split(each.rest)
        place = below(folder, str(Path(workdir) / target))
        for source in map(ROOT.joinpath, sources):
            if source.is_dir():
                shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, place)
    return below(folder, workdir)


def below(folder: Path, path: str) -> Path:
    return folder / Path(path).relative_to("/")


def variables() -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in shlex.split(only("ENV")))


def health_command() -> list[str]:
    command: list[str] = json.loads(only("HEALTHCHECK").partition("CMD ")[2])
    return command


def healthy(netloc: str) -> bool:
    """Run the command of HEALTHCHECK against a server here."""
    command = [part.replace(f"127.0.0.1:{HttpSettings().port}", netloc) for part in health_command()]
    assert command[0] == "python"
    done = subprocess.run([sys.executable, *command[1:]], capture_output=True, timeout=PATIENCE, check=False)
    return done.returncode == 0


def test_the_server_starts_from_the_copied_files_is_healthy_and_ends_at_the_stop_signal(tmp_path: Path) -> None:
    folder = copied(FINAL, tmp_path, only("WORKDIR"))
    assert not folder.exists(), "nothing is copied to where the user may write"
    folder.mkdir(parents=True)
    entry, arguments = json.loads(only("ENTRYPOINT")), json.loads(only("CMD"))
    assert entry == ["mercury"]
    settings = {name: value for name, value in variables().items() if name.startswith("MERCURY_")}
    # This machine's own interface, and a free port.
    settings["MERCURY_HTTP_HOST"] = "127.0.0.1"
    settings["MERCURY_HTTP_PORT"] = "0"
    settings["PYTHONPATH"] = str(below(tmp_path, variables()["PYTHONPATH"]))
    with Running(MERCURY, *arguments, cwd=folder, **settings, PYTHONUNBUFFERED="1") as server:
        netloc = server.says(r"http://([^\s\"]+)")
        assert get(netloc, "/readyz")[0] == 200
        assert healthy(netloc)
        server.signal(signal.Signals[only("STOPSIGNAL")])
        assert server.ends().code == 0
    assert not healthy(netloc)


def test_the_working_folder_is_the_one_that_the_user_owns() -> None:
    """The default store is a file there."""
    made = next(each.rest for each in FINAL if each.name == "RUN" and "useradd" in each.rest)
    assert f"--home-dir {only('WORKDIR')} --create-home" in made
    assert only("USER").partition(":")[0] in made


def test_the_copied_files_are_all_that_the_wheel_is_made_of(tmp_path: Path) -> None:
    (workdir,) = [each.rest for each in BUILD if each.name == "WORKDIR"]
    folder = copied(BUILD, tmp_path, workdir)
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = [project["project"]["readme"], *project["project"]["license-files"], *wheel["packages"]]
    needed += list(wheel["force-include"])
    assert [name for name in needed if not (folder / name).exists()] == []


def test_the_installation_uses_tested_versions_and_extras_that_exist() -> None:
    (install,) = [each.rest for each in BUILD if "pip install" in each.rest]
    command = shlex.split(install)
    assert command[command.index("-c") + 1] == "constraints.txt"
    asked = re.fullmatch(r"\.\[([\w,]+)\]", command[-1])
    assert asked is not None
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(asked[1].split(",")) <= set(project["optional-dependencies"])
    base = {each.rest.split()[0] for each in instructions() if each.name == "FROM"}
    assert base == {f"python:{project['requires-python'].removeprefix('>=')}-slim"}


def test_the_process_is_not_root_and_is_the_user_of_the_manifest() -> None:
    user, _, group = only("USER").partition(":")
    assert (int(user), int(group)) == (POD["securityContext"]["runAsUser"], POD["securityContext"]["runAsGroup"])
    assert any(f"--uid {user} " in each.rest for each in FINAL if each.name == "RUN")


def test_the_port_is_the_one_where_mercury_listens() -> None:
    assert int(only("EXPOSE")) == HttpSettings().port
    assert variables()["MERCURY_HTTP_HOST"] == "0.0.0.0"


@pytest.mark.parametrize("name", ["ENTRYPOINT", "CMD"])
def test_no_shell_stands_between_the_signals_and_the_process(name: str) -> None:
    assert isinstance(json.loads(only(name)), list)
