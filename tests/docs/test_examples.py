"""The programs in README and the tutorial run as printed there, in real processes."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import shlex
import signal
import sqlite3
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.acceptance.processes import MERCURY, Running, Serving, run
from tests.ports import free_port

from .pages import ROOT, Block, blocks, pages

#: Where the pages say that the server is.
SHOWN = "127.0.0.1:8000"


def files_of(page: Path) -> dict[str, str]:
    """The files that a page shows, by the name in their first line: ``# shop/server.py``."""
    found = {}
    for block in blocks(page.read_text(encoding="utf-8")):
        name = re.match(r"# ([\w/]+\.py)\b", block.text)
        if block.language == "python" and name:
            found[name[1]] = block.text
    return found


def write(page: Path, folder: Path, netloc: str) -> None:
    """Write a page's files; the server's address is the only thing that changes."""
    for name, text in files_of(page).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.replace(SHOWN, netloc))


def printed_by(page: Path, command: str) -> list[str]:
    """What a page says that a command prints."""
    for block in blocks(page.read_text(encoding="utf-8")):
        first, _, rest = block.text.partition("\n")
        if block.language == "console" and first == f"$ {command}":
            return rest.splitlines()
    raise AssertionError(f"{page.name} does not show {command!r}")


# --- README ----------------------------------------------------------------------------------------------------------

README = ROOT / "README.md"


def test_the_ten_lines_of_the_readme_do_what_they_say(tmp_path: Path) -> None:
    port = free_port()
    write(README, tmp_path, f"127.0.0.1:{port}")
    with Serving("server:app", "--port", str(port), cwd=tmp_path) as server:
        client = run([sys.executable, "client.py"], cwd=tmp_path)
        assert (client.code, client.out, client.err) == (0, "everything has arrived\n", "")
        server.signal(signal.SIGTERM)
        ended = server.ends()
    assert ended.code == 0
    orders = [line for line in ended.out.splitlines() if line.startswith("order")]
    assert orders == [f"order {number} from Ada" for number in (1, 2, 3)]


def test_the_client_of_the_readme_may_start_before_its_server(tmp_path: Path) -> None:
    """``send`` returns when the message is stored, whether or not the server is up."""
    port = free_port()
    write(README, tmp_path, f"127.0.0.1:{port}")
    early = (
        (tmp_path / "client.py").read_text().replace("    orders.close()", "    print('stored')\n    orders.close()")
    )
    (tmp_path / "client.py").write_text(f"import sys\nsys.stdout.reconfigure(line_buffering=True)\n{early}")
    with Running(sys.executable, "client.py", cwd=tmp_path) as client:
        client.says("stored")
        assert not (tmp_path / "server.db").exists(), "the client has made the server's store"
        with Serving("server:app", "--port", str(port), cwd=tmp_path) as server:
            assert client.ends().code == 0
            server.says(r"order 3 from Ada")


def test_the_readme_shows_how_its_programs_are_run() -> None:
    files = files_of(README)
    assert set(files) == {"messages.py", "server.py", "client.py"}
    assert "mercury serve server:app" in files["server.py"].partition("\n")[0]
    assert "python client.py" in files["client.py"].partition("\n")[0]
    assert all(len([line for line in text.splitlines() if line.strip()]) <= 15 for text in files.values())


# --- the tutorial ----------------------------------------------------------------------------------------------------

TUTORIAL = ROOT / "docs/tutorial.md"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory):
    """The tutorial's server, and the folder that its files are in."""
    folder, port = tmp_path_factory.mktemp("tutorial"), free_port()
    write(TUTORIAL, folder, f"127.0.0.1:{port}")
    with Serving("shop.server:app", "--port", str(port), cwd=folder) as server:
        yield server, folder


def test_the_server_says_what_the_tutorial_says(shop) -> None:
    server, _ = shop
    (said,) = printed_by(TUTORIAL, "mercury serve shop.server:app")
    assert server.out.splitlines()[0] == said.replace(SHOWN, server.netloc)


def test_the_client_prints_what_the_tutorial_says(shop) -> None:
    server, folder = shop
    client = run([sys.executable, "-m", "shop.client"], cwd=folder)
    assert (client.code, client.out.splitlines()) == (0, printed_by(TUTORIAL, "python -m shop.client")), client.err
    server.says(r"number 1: order 1 of Ada")


def test_the_commands_of_the_tutorial_work(shop) -> None:
    server, folder = shop
    typed = [
        line.removeprefix("$ ").replace(SHOWN, server.netloc)
        for block in blocks(TUTORIAL.read_text(encoding="utf-8"))
        for line in block.text.replace("\\\n", " ").splitlines()
        if re.match(r"\$ mercury (send|sequences)", line)
    ]
    assert len(typed) == 2
    for line in typed:
        words = shlex.split(line)[1:]
        ended = run([MERCURY, *words, *(["--at", server.url] if words[0] == "sequences" else [])], cwd=folder)
        assert (ended.code, ended.err) == (0, ""), ended
        assert "place_in_queue" in ended.out or words[0] == "sequences"


# --- how-to ----------------------------------------------------------------------------------------------------------

HOW_TO = ROOT / "docs/how-to"


def test_the_asynchronous_client_of_the_how_to_sends_what_it_keeps(tmp_path: Path) -> None:
    port = free_port()
    write(README, tmp_path, f"127.0.0.1:{port}")
    write(HOW_TO / "sending.md", tmp_path, f"127.0.0.1:{port}")
    assert "`python asynchronous.py`" in (HOW_TO / "sending.md").read_text(encoding="utf-8")
    with Serving("server:app", "--port", str(port), cwd=tmp_path) as server:
        client = run([sys.executable, "asynchronous.py"], cwd=tmp_path)
        assert (client.code, client.out, client.err) == (0, "everything has arrived\n", "")
        server.says(r"order 8 from Bob")
        server.says(r"order 9 from Bob")
    with contextlib.closing(sqlite3.connect(tmp_path / "asynchronous.db")) as database:
        assert database.execute("select id from placed").fetchall() == [(9,)]


def test_the_contract_of_the_how_to_has_two_sides(tmp_path: Path) -> None:
    port = free_port()
    write(HOW_TO / "services.md", tmp_path, f"127.0.0.1:{port}")
    with Serving("warehouse_server:app", "--port", str(port), cwd=tmp_path):
        client = run([sys.executable, "warehouse_client.py"], cwd=tmp_path)
        assert (client.code, client.out, client.err) == (0, "left: 7\neverything has arrived\n", "")


def test_the_zeep_client_of_its_page_sends_to_the_server_of_the_readme(tmp_path: Path) -> None:
    port = free_port()
    write(README, tmp_path, f"127.0.0.1:{port}")
    write(ROOT / "docs/zeep.md", tmp_path, f"127.0.0.1:{port}")
    with Serving("server:app", "--port", str(port), cwd=tmp_path) as server:
        client = run([sys.executable, "zeep_client.py"], cwd=tmp_path)
        assert (client.code, client.out, client.err) == (0, "everything has arrived\n", "")
        server.says(r"order 17 from Ada")


# --- all pages -------------------------------------------------------------------------------------------------------


def python_blocks() -> list[tuple[str, Block]]:
    return [
        (f"{page.relative_to(ROOT)} {number}", block)
        for page in pages()
        for number, block in enumerate(blocks(page.read_text(encoding="utf-8")), 1)
        if block.language == "python"
    ]


@pytest.mark.parametrize("block", [pytest.param(block, id=name) for name, block in python_blocks()])
def test_every_example_is_python_and_imports_what_there_is(block: Block) -> None:
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and node.module in ("mercury", "mercury.testing"):
            public = import_module(node.module).__all__
            assert [each.name for each in node.names if each.name not in public] == []


# --- testing ---------------------------------------------------------------------------------------------------------

TESTING = ROOT / "docs/testing.md"


def test_the_tests_that_the_page_shows_pass(tmp_path: Path) -> None:
    write(TESTING, tmp_path, SHOWN)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "-c", os.devnull]
    done = run([*command, "--rootdir", str(tmp_path), str(tmp_path)], cwd=tmp_path)
    assert re.search(r"^\d\d passed in", done.out, re.MULTILINE), done.out + done.err
    assert done.code == 0


def test_the_store_that_the_page_shows_passes_the_contract(tmp_path: Path) -> None:
    write(ROOT / "docs/stores.md", tmp_path, SHOWN)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "-c", os.devnull]
    done = run([*command, "--rootdir", str(tmp_path), str(tmp_path)], cwd=tmp_path)
    assert re.search(r"^\d{3} passed, \d+ skipped in", done.out, re.MULTILINE), done.out + done.err


def test_the_first_test_of_the_page_is_short() -> None:
    """A plain function of less than ten lines: this is what the interface was made for."""
    module = ast.parse(files_of(TESTING)["test_orders.py"])
    first = next(node for node in module.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))
    assert first.end_lineno is not None
    assert first.end_lineno - first.lineno < 10
