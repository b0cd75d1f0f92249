"""An embedded PostgreSQL: the programs of a wheel, with Mercury's own launcher.

The wheel's own launcher is not used: as root it adds a user and makes the parent folders accessible to all users, it
takes no settings, and it does not remove its log. This launcher starts the server with the settings that tests need:
flushing to disk, prepared transactions, and only a Unix socket, which other users cannot connect to.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psycopg

from mercury.errors import StorageError
from mercury.postgres import binaries, processes
from mercury.postgres.databases import CONNECT_TIMEOUT, Databases, checked_name
from mercury.postgres.folder import PORT, ServerFolder

#: How long a start and a stop may take, in seconds.
START_TIMEOUT, STOP_TIMEOUT = 30.0, 30.0

SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "max_prepared_transactions": "64",
        "max_connections": "100",
        "listen_addresses": "",
        "port": str(PORT),
        # There is no password: a client that can connect has all rights, and can run programs.
        "unix_socket_permissions": "0700",
        "shared_buffers": "64MB",
        "log_min_messages": "warning",
    }
)


class EmbeddedPostgres:
    """One server in one folder. `start` creates the folder's files; the constructor and the properties change none.

    The server runs until it is stopped, even if the process that started it ends. Its data remain in the folder.

    :param folder: the folder for the data, the log and the socket: new, empty, or used for this before.
    :param settings: PostgreSQL's settings.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str] = SETTINGS) -> None:
        self._folder = ServerFolder(folder)
        self._settings = {**SETTINGS, **settings}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def folder(self) -> Path:
        """The server's folder, with symbolic links resolved."""
        return self._folder.path

    @property
    def data(self) -> Path:
        """PostgreSQL's data folder."""
        return self._folder.data

    @property
    def log(self) -> Path:
        """The server's log file."""
        return self.folder / "log"

    # --- start and stop --------------------------------------------------------------------------------------------

    @property
    def pid(self) -> int | None:
        """The id of the server's process, which this or another process has started; ``None`` = it does not run.

        :raises ConfigurationError: the folder cannot be read.
        """
        with self._folder.usable():
            found = self._running()
        return None if found is None else found.pid

    def start(self) -> EmbeddedPostgres:
        """Start the server unless it runs, and wait until it accepts connections. Several processes may call this at
        once.

        :raises ConfigurationError: the programs are not installed, or the folder cannot be used.
        :raises StorageError: the server does not start; the text contains the errors of its log.
        """
        with self._folder.usable():
            # Raises before anything is created if the programs are missing.
            programs, user = binaries.installed(), self._folder.server_user()
            self._folder.create(user)
            with self._folder.locked():
                self._forget_ended()
                log = self.log.stat().st_size if self.log.exists() else 0
                if self._running() is None:
                    self._launch(programs, user)
                self._wait_until_ready(log)
        return self

    def stop(self) -> None:
        """Stop the server in an orderly way: it ends its sessions and writes everything to disk. Does nothing if it
        does not run.

        :raises ConfigurationError: the folder has other content, or cannot be read.
        :raises StorageError: the server does not end within `STOP_TIMEOUT`.
        """
        with self._folder.usable():
            if not self._folder.is_marked():
                return
            with self._folder.locked():
                running, sockets = self._running(), self._sockets()
                if running is not None:
                    # A process that was stopped by SIGSTOP must be resumed before it can end.
                    _signal([running.pid], signal.SIGINT)
                    _signal([running.pid], signal.SIGCONT)
                    self._wait_for_end([running.pid])
                self._forget_ended()
                self._folder.remove_sockets(sockets)

    def kill(self) -> None:
        """Kill the server and its sessions' processes, as a power failure would.

        Committed and prepared transactions are present after the next start.

        :raises ConfigurationError: the folder cannot be read.
        """
        pid = self.pid
        if pid is not None:
            # Stopped first, so that the server starts no new processes while its children are listed.
            _signal([pid], signal.SIGSTOP)
            pids = [pid, *processes.children(pid)]
            _signal(pids, signal.SIGKILL)
            self._wait_for_end(pids)
        self._forget_ended()

    def __enter__(self) -> EmbeddedPostgres:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- databases -------------------------------------------------------------------------------------------------

    def url(self, database: str = "postgres") -> str:
        """The URL of a database, for SQLAlchemy and for Mercury's stores. The database need not exist.

        :raises ConfigurationError: the name is not valid, or the folder cannot be read.
        """
        return f"postgresql+psycopg://postgres@:{PORT}/{checked_name(database)}?host={self._sockets()}"

    def create_database(self, name: str, template: str | None = None) -> str:
        """Create a database, empty or as a copy; returns its URL.

        :raises ConfigurationError: the name is not valid.
        :raises StorageError: the database exists already, the template is in use, or the server does not run.
        """
        Databases(self.url()).create(name, template)
        return self.url(name)

    def provide_database(self, name: str) -> str:
        """Create a database unless it exists; returns its URL.

        :raises ConfigurationError: the name is not valid.
        :raises StorageError: the server does not run.
        """
        Databases(self.url()).provide(name)
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database if it exists. First its sessions are terminated and its prepared transactions rolled back.

        :raises StorageError: it is still in use after half a minute, or the server does not run.
        """
        Databases(self.url()).drop(name)

    # --- helpers ---------------------------------------------------------------------------------------------------

    def _running(self) -> processes.PidFile | None:
        found = processes.read_pid_file(self.data)
        return found if found is not None and processes.serves(found.pid, self.data) else None

    def _sockets(self) -> Path:
        with self._folder.usable():
            running = self._running()
        # Another process, with another temporary folder, may have started the server.
        return self._folder.sockets() if running is None or running.sockets is None else running.sockets

    def _launch(self, programs: Path, user: dict[str, Any]) -> None:
        programs = binaries.runnable(programs, user, self.folder / "binaries")
        if not self.data.exists():
            self._initialise(programs, user)
        command = [str(programs / "postgres"), "-D", str(self.data), "-k", str(self._folder.make_sockets(user))]
        for name, value in {**self._settings, "cluster_name": self._folder.name}.items():
            command += ["-c", f"{name}={value}"]
        environment = _environment()
        stale = processes.read_pid_file(self.data)
        if stale is not None and processes.exists(stale.pid):
            # The pid file of a killed server may name an unrelated process now. This variable, which pg_ctl uses too,
            # makes the server ignore that process id; it still checks for remaining processes of the killed server.
            environment["PG_GRANDPARENT_PID"] = str(stale.pid)
        self._end_orphans()
        log = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            self._process = subprocess.Popen(  # noqa: S603  our own binaries
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self.folder,
                start_new_session=True,
                **user,
            )
        finally:
            os.close(log)

    def _initialise(self, programs: Path, user: dict[str, Any]) -> None:
        """Create the data folder, completely or not at all."""
        unfinished = self.folder / "data.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        command = [str(programs / "initdb"), "-D", str(unfinished), "-U", "postgres", "-A", "trust"]
        command += ["-E", "UTF8", "--locale=C"]
        done = subprocess.run(  # noqa: S603  our own binaries
            command, capture_output=True, env=_environment(), cwd=self.folder, check=False, **user
        )
        if done.returncode:
            raise StorageError(f"a database cluster cannot be created in {self.data}: {_one_line(done.stderr)}")
        unfinished.rename(self.data)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _end_orphans(self) -> None:
        """End remaining processes of a killed server: the new one does not start while any of them runs."""
        left = processes.orphans(self._folder.name)
        _signal(left, signal.SIGKILL)
        self._wait_for_end(left)

    def _wait_until_ready(self, log: int) -> None:
        """Wait until the server accepts connections.

        :param log: the size of the log, in bytes, before this start.
        :raises StorageError: it does not within `START_TIMEOUT`, or it has ended.
        """
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            host = str(self._sockets())
            try:
                psycopg.connect(
                    dbname="postgres", user="postgres", host=host, port=PORT, connect_timeout=CONNECT_TIMEOUT
                ).close()
                return
            except psycopg.OperationalError as error:
                ended = self._process is not None and self._process.poll() is not None
                if ended or time.monotonic() > deadline:
                    raise StorageError(f"the embedded PostgreSQL does not start: {self._log_errors(log)}") from error
                time.sleep(0.02)

    def _wait_for_end(self, pids: Iterable[int]) -> None:
        deadline = time.monotonic() + STOP_TIMEOUT
        while left := [pid for pid in pids if not processes.ended(pid)]:
            self._forget_ended()
            if time.monotonic() > deadline:
                raise StorageError(f"the embedded PostgreSQL does not end: processes {', '.join(map(str, left))}")
            time.sleep(0.02)

    def _forget_ended(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            self._process = None

    def _log_errors(self, begin: int) -> str:
        """The errors in the log after the position ``begin``, or else its end, on one line."""
        with self.log.open("rb") as log:
            log.seek(begin)
            written = log.read()
        wrong = re.findall(rb"(?:FATAL|PANIC|ERROR|HINT|DETAIL): .*", written)
        return f"{_one_line(b' '.join(wrong) or written[-1000:])} (the log is {self.log})"


def _one_line(text: bytes) -> str:
    return " ".join(text.decode(errors="replace").split())


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _environment() -> dict[str, str]:
    """This process's environment without PostgreSQL's variables, which would select another port or data folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}
