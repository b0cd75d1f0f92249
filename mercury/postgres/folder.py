"""The folder of an embedded PostgreSQL: its marker file, its lock, its owner, and the folder of its socket."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pwd
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mercury.errors import ConfigurationError
from mercury.postgres import binaries

#: The file that marks the folder as one of an embedded PostgreSQL; also the lock for starting and stopping it.
MARKER = "mercury-pg"
MARKED = "An embedded PostgreSQL of Mercury. It is stopped by `mercury pg stop --folder` and the name of this folder.\n"
PORT = 5432
#: The longest folder, in bytes, for a Unix socket on every system (the shortest limit is 104, with a final zero).
SOCKET_PATH_LIMIT = 103 - len(f"/.s.PGSQL.{PORT}.lock")
#: A path without characters that separate hosts and ports or need escaping in a URL.
PLAIN_PATH = re.compile(r"[A-Za-z0-9/._-]+")
#: The user of the server if this process is root, because PostgreSQL refuses to run as root.
UNPRIVILEGED = "nobody"


class ServerFolder:
    """One server's folder, which need not exist. The constructor and the queries change nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.data = self.path / "data"
        #: A short unique name, for the server and for its socket's folder.
        self.name = f"{MARKER}-{hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]}"

    @contextlib.contextmanager
    def usable(self) -> Iterator[None]:
        """Translate an `OSError` of the block.

        :raises ConfigurationError: the block raised an `OSError`; the text says that the folder cannot be used.
        """
        try:
            yield
        except OSError as error:
            why = f"{error.strerror or error}: {error.filename or self.path}"
            raise ConfigurationError(f"{self.path} cannot be used for an embedded PostgreSQL: {why}") from error

    def is_marked(self) -> bool:
        """Whether the folder belongs to an embedded PostgreSQL; false if it does not exist or is empty.

        :raises ConfigurationError: it has other content.
        :raises OSError: it cannot be read.
        """
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            return False
        if names and MARKER not in names:
            raise ConfigurationError(
                f"{self.path} has other content than an embedded PostgreSQL: name an empty folder or a new one"
            )
        return bool(names)

    def create(self, user: dict[str, Any]) -> None:
        """Create the folder if it is missing, and mark it.

        :param user: the server's user, see `server_user`.
        :raises ConfigurationError: the folder has other content.
        :raises OSError: it cannot be written.
        """
        if self.is_marked():
            return
        for parent in reversed(self.path.parents):
            if not parent.exists():
                parent.mkdir(exist_ok=True)
                if os.geteuid() == 0:
                    parent.chmod(0o755)  # the server's user has to pass through
        self.path.mkdir(mode=0o700, exist_ok=True)
        if user:
            os.chown(self.path, user["user"], user["group"])
        # The marker is written first, so that another process never finds an unmarked folder with content.
        (self.path / MARKER).write_text(MARKED)
        (self.path / ".gitignore").write_text("*\n")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """A lock: one process at a time starts or stops the server.

        :raises OSError: the folder belongs to another user.
        """
        with (self.path / MARKER).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def server_user(self) -> dict[str, Any]:
        """Arguments of `subprocess.run` that select the server's user; empty = the present one.

        If this process is root, it is the owner of the data, or `UNPRIVILEGED` if there are no data yet.

        :raises ConfigurationError: the user does not exist, or cannot reach the folder.
        """
        if os.geteuid() != 0:
            return {}
        new = not self.data.exists()
        try:
            uid = pwd.getpwnam(UNPRIVILEGED).pw_uid if new else self.data.stat().st_uid
            gid = pwd.getpwnam(UNPRIVILEGED).pw_gid if new else self.data.stat().st_gid
        except KeyError:
            raise ConfigurationError(
                f"PostgreSQL does not run as root, and there is no user {UNPRIVILEGED} to run it as"
            ) from None
        user = {"user": uid, "group": gid, "extra_groups": []}
        there = next(parent for parent in self.path.parents if parent.exists())
        if not binaries.may_run(["/bin/sh", "-c", 'test -x "$1"', "sh", str(there)], user):
            raise ConfigurationError(
                f"PostgreSQL does not run as root, and user {UNPRIVILEGED if new else uid} cannot reach {self.path}: "
                "name a folder whose parents every user may pass through"
            )
        return user

    # --- the socket ------------------------------------------------------------------------------------------------

    def sockets(self) -> Path:
        """The folder of the Unix socket for the next start: this folder, unless its path is too long or not plain."""
        return self.path if _fits(self.path) else self._short()

    def make_sockets(self, user: dict[str, Any]) -> Path:
        """Create the folder of the Unix socket.

        :param user: the server's user, see `server_user`.
        :raises ConfigurationError: another user owns a folder of that name.
        """
        place = self.sockets()
        if place == self.path:
            return place
        with contextlib.suppress(FileExistsError):
            place.mkdir(mode=0o700)
            if user:
                os.chown(place, user["user"], user["group"])
        if place.is_symlink() or place.lstat().st_uid != user.get("user", os.geteuid()):
            raise ConfigurationError(f"{place}, the folder for the socket, belongs to another user")
        return place

    def remove_sockets(self, place: Path) -> None:
        """Remove a folder that `make_sockets` created, if it is empty."""
        if place != self.path:
            with contextlib.suppress(OSError):
                place.rmdir()

    def _short(self) -> Path:
        default = Path(tempfile.gettempdir()) / self.name
        return default if _fits(default) else Path("/tmp") / self.name  # noqa: S108  its owner is checked


def _fits(place: Path) -> bool:
    return len(os.fsencode(place)) <= SOCKET_PATH_LIMIT and PLAIN_PATH.fullmatch(str(place)) is not None
