"""The embedded PostgreSQL: properties of a user's machine that it tolerates, and changes of it that it avoids."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, text

from mercury.errors import ConfigurationError, StorageError
from mercury.postgres import binaries, processes
from mercury.postgres.databases import Databases
from mercury.postgres.embedded import EmbeddedPostgres
from tests.acceptance.processes import eventually
from tests.postgres import embedded_postgres, postgres_folder

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what belongs to others")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that a server's user can reach."""
    with postgres_folder() as folder:
        folder.chmod(0o755)
        yield folder


@pytest.fixture(scope="module")
def running() -> Iterator[EmbeddedPostgres]:
    """A server for the tests that leave it as it is."""
    with embedded_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def one_victim() -> Iterator[EmbeddedPostgres]:
    with embedded_postgres() as server:
        yield server


@pytest.fixture
def victim(one_victim: EmbeddedPostgres) -> EmbeddedPostgres:
    """A server that runs and that the test may treat as it likes."""
    return one_victim.start()


def ask(server: EmbeddedPostgres, *statements: str, database: str = "postgres") -> list[tuple[Any, ...]]:
    """Run statements, each committed by itself; returns the rows of the last one."""
    with connect(server, database) as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def connect(server: EmbeddedPostgres, database: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(server.url(database).replace("+psycopg", ""), autocommit=True, connect_timeout=10)


def as_server_user() -> dict[str, Any]:
    """A process that the server's user could have had, for `subprocess`."""
    return {"user": "nobody", "group": os.stat("/").st_gid, "extra_groups": []} if os.geteuid() == 0 else {}


# --- what it is ----------------------------------------------------------------------------------------------------


def test_it_keeps_what_it_commits_and_can_prepare(running: EmbeddedPostgres) -> None:
    names = ("fsync", "synchronous_commit", "full_page_writes")
    assert [ask(running, f"show {name}") for name in names] == [[("on",)]] * 3
    ((prepared,),) = ask(running, "show max_prepared_transactions")
    assert int(prepared) >= 64


def test_only_its_owner_can_connect(running: EmbeddedPostgres) -> None:
    assert ask(running, "show listen_addresses") == [("",)]
    assert stat.S_IMODE((running.folder / ".s.PGSQL.5432").stat().st_mode) == 0o700


def test_its_url_is_one_for_sqlalchemy(running: EmbeddedPostgres) -> None:
    assert running.url("orders") == f"postgresql+psycopg://postgres@:5432/orders?host={running.folder}"
    engine = create_engine(running.url())
    with engine.connect() as connection:
        assert connection.execute(text("select current_database()")).scalar_one() == "postgres"
    engine.dispose()


def test_variables_that_are_meant_for_other_servers_do_not_disturb(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PGPORT": "6000", "PGDATA": "/nowhere", "PGHOST": "localhost", "PGUSER": "me"}.items():
        monkeypatch.setenv(name, value)
    with monkeypatch.context() as at_start:
        at_start.setenv("PGCLIENTENCODING", "LATIN1")
        server = EmbeddedPostgres(place / "pg").start()
    with server:
        assert ask(server, "select current_user::text, inet_server_port()") == [("postgres", None)]
        assert ask(server, "show client_encoding") == [("UTF8",)]


def test_looking_at_a_server_makes_nothing(place: Path) -> None:
    server = EmbeddedPostgres(place / "pg")
    assert server.pid is None
    assert "host=" in server.url()
    server.stop()
    server.kill()
    assert os.listdir(place) == []


# --- its life ------------------------------------------------------------------------------------------------------


def test_it_stops_and_has_its_data_when_it_starts_again(place: Path) -> None:
    server = EmbeddedPostgres(place / "pg").start()
    pid = server.pid
    assert pid is not None
    ask(server, "create table kept (id int)", "insert into kept values (1)")
    server.stop()
    assert server.pid is None
    assert processes.ended(pid)
    with pytest.raises(StorageError):
        server.create_database("late")
    with server:
        assert ask(server, "select id from kept") == [(1,)]


def test_one_that_runs_is_used_as_it_is_and_anybody_can_stop_it(place: Path) -> None:
    first, second = EmbeddedPostgres(place / "pg").start(), EmbeddedPostgres(place / "pg").start()
    assert first.pid == second.pid is not None
    second.stop()
    assert first.pid is None
    first.stop()


def test_several_that_start_it_at_once_get_one_server(place: Path) -> None:
    servers = [EmbeddedPostgres(place / "pg") for _ in range(4)]
    threads = [threading.Thread(target=server.start) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pids = {server.pid for server in servers}
    for server in servers:
        server.stop()
    assert len(pids) == 1
    assert None not in pids


def test_killed_it_still_has_what_was_committed_and_what_was_prepared(victim: EmbeddedPostgres) -> None:
    ask(
        victim,
        "create table kept (id int)",
        "insert into kept values (1)",
        "begin; insert into kept values (2); prepare transaction 'mercury:1'",
    )
    lost = connect(victim)
    lost.execute("begin; insert into kept values (3)")
    victim.kill()
    assert victim.pid is None
    with pytest.raises(psycopg.OperationalError):
        lost.execute("commit")
    lost.close()
    victim.start()
    assert ask(victim, "select gid from pg_prepared_xacts") == [("mercury:1",)]
    assert ask(victim, "commit prepared 'mercury:1'", "select id from kept order by id") == [(1,), (2,)]


@contextmanager
def busy_session(server: EmbeddedPostgres) -> Iterator[int]:
    """A session that computes until it is ended, which it is to be in the block; its process."""
    session = connect(server)

    def compute() -> None:
        with pytest.raises(psycopg.OperationalError), session:
            session.execute("select count(*) from generate_series(1, 10000000000)")

    thread = threading.Thread(target=compute)
    thread.start()
    working = "select 1 from pg_stat_activity where query like 'select count%' and state = 'active'"
    eventually(lambda: ask(server, working), "the session works")
    yield session.info.backend_pid
    thread.join()


def test_killing_it_kills_the_processes_of_its_sessions(victim: EmbeddedPostgres) -> None:
    pid = victim.pid
    assert pid is not None
    with busy_session(victim) as theirs:
        family = processes.children(pid)
        assert theirs in family
        victim.kill()
        assert [each for each in (pid, *family) if not processes.ended(each)] == []


def test_it_starts_after_another_process_killed_it_while_a_session_was_busy(victim: EmbeddedPostgres) -> None:
    # The session's process goes on without its server, and PostgreSQL would not start beside it.
    pid = victim.pid
    assert pid is not None
    with busy_session(victim) as theirs:
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: victim.pid is None, "the server is gone")
        assert not processes.ended(theirs)
        victim.start()
    assert ask(victim, "select 1") == [(1,)]
    assert victim.pid != pid


def test_one_that_was_suspended_can_be_stopped(victim: EmbeddedPostgres) -> None:
    pid = victim.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    victim.stop()
    assert processes.ended(pid)


def test_two_beside_each_other_have_nothing_in_common(running: EmbeddedPostgres, victim: EmbeddedPostgres) -> None:
    victim.create_database("mine")
    assert ask(running, "select 1 from pg_database where datname = 'mine'") == []
    pid = running.pid
    victim.kill()
    assert running.pid == pid
    assert pid is not None


def test_a_pid_file_that_outlived_its_server_harms_no_other_process(victim: EmbeddedPostgres) -> None:
    victim.kill()
    with subprocess.Popen(["sleep", "1000"], **as_server_user()) as bystander:
        try:
            _claim_pid(victim, bystander.pid)
            assert victim.pid is None
            victim.stop()
            victim.kill()
            victim.start()
            assert ask(victim, "select 1") == [(1,)]
            assert bystander.poll() is None
        finally:
            bystander.kill()


def test_a_pid_file_that_names_another_postgresql_harms_it_not(
    running: EmbeddedPostgres, victim: EmbeddedPostgres
) -> None:
    victim.kill()
    other = running.pid
    assert other is not None
    _claim_pid(victim, other)
    assert victim.pid is None
    victim.stop()
    started = victim.start()
    assert started.pid not in (None, other)
    assert running.pid == other
    assert ask(running, "select 1") == [(1,)]


def _claim_pid(server: EmbeddedPostgres, pid: int) -> None:
    """As when the machine was started again, and the number went to another process."""
    for file in (server.data / "postmaster.pid", server.folder / ".s.PGSQL.5432.lock"):
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join([f"{pid}\n", *lines[1:]]))


def test_one_that_was_interrupted_when_it_was_made_is_made_again(place: Path) -> None:
    server = EmbeddedPostgres(place / "pg").start()
    server.stop()
    server.data.rename(server.folder / "data.unfinished")
    with server:
        assert ask(server, "select 1") == [(1,)]
    assert not (server.folder / "data.unfinished").exists()


def test_one_that_does_not_start_says_why(place: Path) -> None:
    with pytest.raises(StorageError, match=r"max_connections.*the log is .*pg/log") as caught:
        EmbeddedPostgres(place / "pg", {"max_connections": "many"}).start()
    assert "\n" not in str(caught.value)


# --- its folder ----------------------------------------------------------------------------------------------------

LONG, ODD = "deep/" * 60 + "pg", "a b,c:1 50%&x=?#+ q\"'\\ $(touch evil) `touch evil` größe"


@pytest.mark.parametrize("name", [LONG, ODD], ids=["long", "odd"])
def test_a_folder_may_have_any_name(place: Path, name: str) -> None:
    server = EmbeddedPostgres(place / name)
    before = server.url()
    with server:
        assert server.url() == before
        engine = create_engine(server.url())
        with engine.connect() as connection:
            assert connection.execute(text("show data_directory")).scalar_one() == str(server.data)
        engine.dispose()
        sockets = Path(before.partition("?host=")[2])
    assert not sockets.exists()
    assert sorted(path.name for path in place.rglob("evil")) == []


def test_the_url_is_right_where_the_temporary_folder_is_another(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "tmp").mkdir()
    folder = place / "with blanks"
    with EmbeddedPostgres(folder) as server:
        url = server.url()
        monkeypatch.setattr("tempfile.tempdir", str(place / "tmp"))
        assert EmbeddedPostgres(folder).url() == url


@ROOT_ONLY
def test_a_socket_folder_of_another_user_is_not_used(place: Path) -> None:
    server = EmbeddedPostgres(place / "with blanks")
    theirs = Path(server.url().partition("?host=")[2])
    theirs.mkdir(mode=0o777)
    try:
        os.chown(theirs, 12345, 12345)
        with pytest.raises(ConfigurationError, match="belongs to another user"):
            server.start()
    finally:
        theirs.rmdir()


@pytest.mark.parametrize("act", [EmbeddedPostgres.start, EmbeddedPostgres.stop], ids=["start", "stop"])
def test_a_folder_with_other_things_is_left_alone(place: Path, act: Callable[[EmbeddedPostgres], object]) -> None:
    for name in ("data", "log"):
        (place / name).mkdir()
    before = place.stat()
    with pytest.raises(ConfigurationError, match="has other content") as caught:
        act(EmbeddedPostgres(place))
    assert str(place) in str(caught.value)
    after = place.stat()
    assert (after.st_uid, after.st_gid, after.st_mode, after.st_mtime_ns) == (
        *(before.st_uid, before.st_gid, before.st_mode, before.st_mtime_ns),
    )


def test_a_file_is_no_folder(place: Path) -> None:
    (place / "pg").write_text("")
    for act in (EmbeddedPostgres.start, EmbeddedPostgres.stop):
        with pytest.raises(ConfigurationError, match="cannot be used"):
            act(EmbeddedPostgres(place / "pg"))


@ROOT_ONLY
def test_a_folder_that_the_servers_user_cannot_reach_is_refused_before_it_is_made(place: Path) -> None:
    place.chmod(0o700)
    with pytest.raises(ConfigurationError, match=r"does not run as root, and user nobody cannot reach"):
        EmbeddedPostgres(place / "closed" / "pg").start()
    assert os.listdir(place) == []


@ROOT_ONLY
def test_folders_made_by_root_are_passable_under_any_umask(place: Path) -> None:
    before = os.umask(0o077)
    try:
        with EmbeddedPostgres(place / ".mercury" / "pg") as server:
            assert ask(server, "select 1") == [(1,)]
            assert server.folder.stat().st_uid != 0
    finally:
        os.umask(before)


# --- its programs --------------------------------------------------------------------------------------------------


def test_without_the_programs_it_says_how_to_get_them(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, binaries.PACKAGE, None)
    with pytest.raises(ConfigurationError, match=r"pip install 'mercury-rm\[demo\]'"):
        EmbeddedPostgres(place / "pg").start()
    assert os.listdir(place) == []


def test_a_wheel_without_them_is_explained_too(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / binaries.PACKAGE).mkdir()
    (place / binaries.PACKAGE / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(place)
    with pytest.raises(ConfigurationError, match=r"has no folder pginstall18.*mercury-rm\[demo\]"):
        EmbeddedPostgres(place / "pg").start()


@ROOT_ONLY
def test_programs_that_only_root_can_reach_are_copied(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = binaries.installed().parent.parent
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    for source in (package, package.with_name(package.name + ".libs")):
        if source.exists():
            (closed / source.name).symlink_to(source)
    monkeypatch.syspath_prepend(closed)
    assert binaries.installed().is_relative_to(closed)
    for _ in range(2):
        with EmbeddedPostgres(place / "pg") as server:
            assert ask(server, "select 1") == [(1,)]
            command = Path(f"/proc/{server.pid}/cmdline").read_bytes()
            assert command.startswith(os.fsencode(server.folder / "binaries"))


# --- its databases -------------------------------------------------------------------------------------------------


def test_a_database_is_made_empty_or_as_a_copy(running: EmbeddedPostgres) -> None:
    assert running.create_database("first") == running.url("first")
    ask(running, "create table kept as select 1 as id", database="first")
    running.create_database("second", template="first")
    assert ask(running, "insert into kept values (2)", "select id from kept", database="second") == [(1,), (2,)]
    assert ask(running, "select id from kept", database="first") == [(1,)]
    with pytest.raises(StorageError, match="first"):
        running.create_database("first")
    running.provide_database("first")
    assert ask(running, "select id from kept", database="first") == [(1,)]


@pytest.mark.parametrize("files", [False, True])
def test_a_copy_of_files_has_what_a_copy_through_the_log_has(running: EmbeddedPostgres, files: bool) -> None:
    made = Databases(running.url())
    made.create("origin")
    ask(running, "create table kept as select 1 as id", database="origin")
    url = made.create("copy", "origin", files=files)
    assert url == running.url("copy")
    assert ask(running, "insert into kept values (2)", "select id from kept", database="copy") == [(1,), (2,)]
    assert ask(running, "select id from kept", database="origin") == [(1,)]
    for name in ("copy", "origin"):
        made.drop(name)


def test_a_database_is_dropped_with_sessions_and_prepared_transactions(running: EmbeddedPostgres) -> None:
    running.create_database("busy")
    ask(
        running,
        "create table kept (id int)",
        *(f"begin; insert into kept values ({n}); prepare transaction 'busy:{n}'" for n in range(3)),
        database="busy",
    )
    ask(running, "begin; create table elsewhere (id int); prepare transaction 'other'")
    session = connect(running, "busy")
    session.execute("begin; lock table kept in row exclusive mode")
    running.drop_database("busy")
    with pytest.raises(psycopg.OperationalError):
        session.execute("commit")
    session.close()
    assert ask(running, "select gid from pg_prepared_xacts") == [("other",)]
    assert ask(running, "rollback prepared 'other'", "select 1 from pg_database where datname = 'busy'") == []
    running.drop_database("busy")


@pytest.mark.parametrize("name", ["", "a b", "1", "a?host=b", "a/b", "a'b", 'a"b', "a%20b", "größe", "a" * 64, "a\n"])
def test_a_name_that_would_be_another_one_elsewhere_is_refused(running: EmbeddedPostgres, name: str) -> None:
    for act in (running.url, running.create_database, running.provide_database):
        with pytest.raises(ConfigurationError, match="not a database's name"):
            act(name)
