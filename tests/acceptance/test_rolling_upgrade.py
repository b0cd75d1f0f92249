"""The wheel of the version before runs on a store whose schema is upgraded, beside processes of this version.

The wheel is built from the last commit before schema 0002, which the history of a whole clone has.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from sqlalchemy import Engine, create_engine, text

from mercury.storage.sql import upgrades, versions
from mercury.storage.sql.versions import HEAD
from tests.acceptance.processes import PATIENCE, ROOT, Ended, Running, eventually, run

STEP = "mercury/storage/sql/migrations/versions/v0002.py"
START = "from mercury.cli.main import run; run()"
#: Orders of one transaction.
COUNT = 20


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


@pytest.fixture(scope="module")
def version_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the wheel of the version before is installed, without its dependencies."""
    added = git("log", "--diff-filter=A", "--format=%H", "--", STEP).splitlines()
    commit = git("rev-parse", "--verify", "--quiet", f"{added[-1]}^") if added else ""
    if not commit:
        pytest.skip("this is not a clone with its whole history: there is no commit before schema 0002")
    folder = tmp_path_factory.mktemp("before")
    archive = folder / "tree.tar"
    subprocess.run(["git", "archive", "--output", str(archive), commit], cwd=ROOT, check=True)
    with tarfile.open(archive) as packed:
        packed.extractall(folder / "tree", filter="data")
    installing = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder / "wheel")]
    done = subprocess.run([*installing, str(folder / "tree")], capture_output=True, text=True, check=False)
    if done.returncode != 0 and "hatchling" in done.stderr:
        pytest.skip(f"pip cannot get the build backend: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return folder / "wheel"


class Node(Running):
    """A process that serves and sends, of the version that ``path`` has."""

    def __init__(self, path: Path, folder: Path, store: str) -> None:
        command = (sys.executable, "-c", START, "serve", "node:app", "--port", "0")
        settings = {"PYTHONPATH": str(path), "MERCURY_STORE": store, "MERCURY_LOG_LEVEL": "WARNING"}
        super().__init__(*command, cwd=folder, **settings)
        self.url = self.says(r"(http://[^\s\"]+)")
        found = str(self._call("GET", "/version"))
        assert Path(found).is_relative_to(path), f"{found} is not the version in {path}"

    def __enter__(self) -> Node:
        return self

    def send(self, to: Node, key: str, first: int) -> None:
        assert self._call("POST", "/send", to=to.url, key=key, first=first, count=COUNT) == COUNT

    def ask(self, to: Node, key: str, number: int) -> None:
        assert self._call("POST", "/ask", to=to.url, key=key, number=number) == number

    def _call(self, method: str, path: str, **query: object) -> object:
        request = Request(f"{self.url}{path}?{urlencode(query)}", method=method)
        try:
            with urlopen(request, timeout=PATIENCE) as answer:
                return json.load(answer)
        except HTTPError as error:
            raise AssertionError(self.err) from error


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "tests/acceptance/node.py", tmp_path)
    return tmp_path


@pytest.fixture
def store(postgres_database: Callable[..., str]) -> Iterator[tuple[str, Engine]]:
    url = postgres_database()
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("create table taken (at serial, key text, id int, pid int)"))
        connection.execute(text("create table answered (id int)"))
    yield url, engine
    engine.dispose()


def taken(engine: Engine) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    with engine.connect() as connection:
        for key, number in connection.execute(text("select key, id from taken order by at")):
            found.setdefault(key, []).append(number)
    return found


def answered(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        return list(connection.scalars(text("select id from answered order by id")))


def command(path: Path, folder: Path, store: str, *words: str) -> Ended:
    return run([sys.executable, "-c", START, *words], cwd=folder, PYTHONPATH=str(path), MERCURY_STORE=store)


def test_processes_of_two_versions_exchange_messages_on_one_upgraded_store(
    version_before: Path, folder: Path, store: tuple[str, Engine]
) -> None:
    url, engine = store
    expected: dict[str, list[int]] = {}
    requests: list[int] = []

    def send(sender: Node, to: Node, key: str) -> None:
        key = f"{key} at {to.url}"  # the order is that of an endpoint and a key
        numbers = expected.setdefault(key, [])
        first = len(numbers) + 1
        sender.send(to, key, first)
        numbers += range(first, first + COUNT)

    def ask(sender: Node, to: Node, key: str) -> None:
        number = len(requests) + 1
        sender.ask(to, key, number)
        requests.append(number)
        expected.setdefault(key, []).append(number)

    def all_arrive() -> bool:
        arrived = taken(engine) == expected
        return arrived and answered(engine) == requests

    with Node(version_before, folder, url) as old, Node(version_before, folder, url) as leaving:
        assert versions.status(engine).version == "0001"
        for key in ("a", "b"):
            send(old, leaving, key)
            send(leaving, old, key + key)
        # The upgrade runs while both transmit and deliver.
        assert upgrades.upgrade(engine).version == HEAD
        send(old, leaving, "a")
        ask(old, old, "requests of the old one")
        with Node(ROOT, folder, url) as new:
            # Sequences that old processes have begun go on, and processes of both versions transmit and deliver.
            for key in ("a", "b", "aa", "c", "d"):
                send(old, new, key)
                send(new, old, "of new " + key)
                send(new, old, key)
            ask(new, old, "requests")
            ask(old, new, "requests of the old one")
            eventually(all_arrive, "all arrive, once and in order")
            # A process of schema 0001 does not start again: its make_ready knows no newer schema.
            refused = command(version_before, folder, url, "db", "status", "-o", "json")
            assert (refused.code, refused.value["usable"]) == (1, False)
            for process in (leaving, old):
                process.signal(signal.SIGTERM)
                assert process.ends().code == 0
            send(new, new, "a")
            with Node(ROOT, folder, url) as another:
                send(another, new, "after")
                send(new, another, "b")
                eventually(all_arrive, "all arrive, once and in order")
    with engine.connect() as connection:
        assert connection.scalar(text("select count(*) from mercury_dead_letter")) == 0
