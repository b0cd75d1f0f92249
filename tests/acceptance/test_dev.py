"""``mercury dev``: one command with the server, its console, a store and messages."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

from mercury.postgres import processes
from tests.acceptance.processes import MERCURY, ROOT, Running, eventually, mercury
from tests.console.browsing import Browser
from tests.postgres import postgres_folder

SERVER = """
from dataclasses import dataclass
from mercury import Mercury, Service

service = Service("shop")


@dataclass
class Note:
    text: str


@dataclass
class Question:
    number: int


@dataclass
class Answer:
    number: int


@service.operation
def note(what: Note) -> None:
    print("noted", what.text, flush=True)


@service.operation
def ask(question: Question) -> Answer:
    return Answer(question.number)


app = Mercury("{store}").app(service)
"""


def dev(target: str, *options: str, cwd: Path, **settings: str) -> Running:
    command = (MERCURY, "dev", target, "--port", "0", "--console-port", "0", "--output", "json", *options)
    return Running(*command, cwd=cwd, PYTHONPATH=str(ROOT), MERCURY_LOG_LEVEL="WARNING", **settings)


def started(running: Running) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(running.says(r"\{.*\}"))
    return found


def ends_with_all_children(running: Running) -> None:
    """Ctrl-C ends the command, and each process that it has started."""
    children = processes.children(running.pid)
    assert children
    running.signal(signal.SIGINT)
    assert running.ends().code == 0
    assert [each for each in children if not processes.ended(each)] == []


def test_messages_arrive_in_the_console_and_a_changed_file_starts_the_server_again(tmp_path: Path) -> None:
    server = tmp_path / "shop.py"
    right = SERVER.replace("{store}", f"sqlite:///{tmp_path}/shop.db")
    server.write_text(right)
    with dev("shop:app", cwd=tmp_path) as running:
        said = started(running)
        assert 0 < said["seconds"] < 300, "it says how long the start took"
        running.says("noted text 1\n")
        running.says(r"shop.ask answers: Answer\(number=1\)")
        browser = Browser(f"{said['console']}/")
        assert browser.get(said["login"].removeprefix(browser.url)).status == 200
        eventually(
            lambda: "shop" in browser.get("sequences").words.partition("Log out")[2].partition("Store sqlite")[0],
            "the sequence at the service is shown",
        )
        server.write_text("this is no Python\n")
        eventually(lambda: "starts again when a file changes" in running.err, "it says that the server has ended")
        server.write_text(right.replace('"noted"', '"noted by the new server"'))
        running.says("noted by the new server text")
        assert browser.get("services").title.startswith("Services"), "the console goes on, with its login"
        ends_with_all_children(running)


def test_without_a_configured_store_hello_stores_in_an_embedded_postgresql() -> None:
    with postgres_folder() as folder:
        folder.chmod(0o755)  # the server's user, if this one is root
        command = (MERCURY, "dev", "samples.hello.server:app", "--port", "0", "--console-port", "0", "--output", "json")
        program = ("env", "-u", "MERCURY_STORE", f"PYTHONPATH={ROOT}", *command)
        with Running(*program, cwd=folder, MERCURY_LOG_LEVEL="WARNING") as running:
            said = started(running)
            assert said["store"].startswith("postgresql")
            running.says("text 1\n")
            found = processes.read_pid_file(folder / ".mercury-dev/pg/data")
            assert found is not None
            ends_with_all_children(running)
        assert processes.ended(found.pid)


def test_a_target_that_cannot_be_loaded_ends_the_command(tmp_path: Path) -> None:
    ended = mercury("dev", "nowhere:app", "--port", "0", "--console-port", "0", cwd=tmp_path)
    ended.refused("there is no module 'nowhere'")


def test_a_store_in_memory_has_no_console_and_the_server_ends_when_the_command_is_killed(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SERVER.replace("{store}", "memory:"))
    with dev("shop:app", "--no-send", cwd=tmp_path) as running:
        assert started(running)["console"] is None
        eventually(lambda: "no console" in running.err, "it says why there is no console")
        assert not (tmp_path / ".mercury-dev/samples.db").exists()
        children = processes.children(running.pid)
        assert len(children) == 1
        running.signal(signal.SIGKILL)
        eventually(lambda: all(processes.ended(each) for each in children), "the server has ended")
