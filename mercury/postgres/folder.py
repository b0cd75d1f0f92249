"""The folder of an embedded PostgreSQL: whose it is, who may change it at the moment, and where its socket lies."""

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

#: A file that says whose the folder is; also the lock of those who start and stop the server.
MARKER = "mercury-pg"
MARKED = "An embedded PostgreSQL of Mercury. It is stopped by `mercury pg stop --folder` and the name of this folder.\n"
PORT = 5432
#: A Unix socket's path may have so many bytes on every system (the shortest limit is 104, with a zero at the end).
SOCKET_PATH_LIMIT = 103 - len(f"/.s.PGSQL.{PORT}.lock")
#: Other characters separate hosts and ports, or would have to be written in another way in a URL.
PLAIN_PATH = re.compile(r"[A-Za-z0-9/._-]+")
#: Whom the server runs as when we are root: PostgreSQL refuses to run as root.
UNPRIVILEGED = "nobody"


class ServerFolder:
    """One server's folder; whether or not it is there. Looking at it changes nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.data = self.path / "data"
        #: A short name of its own, for the server and for its socket's place.
        self.name = f"{MARKER}-{hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]}"

    @contextlib.contextmanager
    def usable(self) -> Iterator[None]:
        """What the operating system refuses below is a folder that cannot be used.

        :raises ConfigurationError: instead of `OSError`.
        """
        try:
            yield
        except OSError as error:
            why = f"{error.strerror or error}: {error.filename or self.path}"
            raise ConfigurationError(f"{self.path} cannot be used for an embedded PostgreSQL: {why}") from error

    def is_ours(self) -> bool:
        """Whether it has, or had, a server; not if it is not there, or empty.

        :raises ConfigurationError: there is something else in it.
        :raises OSError: it cannot be read.
        """
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            return False
        if names and MARKER not in names:
            raise ConfigurationError(
                f"{self.path} has other things in it than an embedded PostgreSQL: name an empty folder or a new one"
            )
        return bool(names)

    def take(self, user: dict[str, Any]) -> None:
        """Make it, or make it ours if it is empty.

        :param user: whom it is for, see `server_user`.
        :raises ConfigurationError: there is something else in it.
        :raises OSError: it cannot be written.
        """
        if self.is_ours():
            return
        for parent in reversed(self.path.parents):
            if not parent.exists():
                parent.mkdir(exist_ok=True)
                if os.geteuid() == 0:
                    parent.chmod(0o755)  # the server's user has to pass through
        self.path.mkdir(mode=0o700, exist_ok=True)
        if user:
            os.chown(self.path, user["user"], user["group"])
        # The marker is the first: another process that looks now finds an empty folder, or ours.
        (self.path / MARKER).write_text(MARKED)
        (self.path / ".gitignore").write_text("*\n")

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """One process at a time starts or stops the server; the others wait here.

        :raises OSError: the folder is somebody else's.
        """
        with (self.path / MARKER).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def server_user(self) -> dict[str, Any]:
        """Whom the server runs as, for `subprocess`; empty: as ourselves.

        As root it is whom the data belong to, and an unprivileged user while there are none.

        :raises ConfigurationError: there is no such user, or the folder is out of its reach.
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
                "name a folder whose parents everybody may pass through"
            )
        return user

    # --- the socket ------------------------------------------------------------------------------------------------

    def sockets(self) -> Path:
        """Where a server that is started now has its Unix socket: here, unless the path is too long or not plain."""
        return self.path if _fits(self.path) else self._short()

    def make_sockets(self, user: dict[str, Any]) -> Path:
        """Make that place.

        :param user: whom it is for, see `server_user`.
        :raises ConfigurationError: somebody else was there first.
        """
        place = self.sockets()
        if place == self.path:
            return place
        with contextlib.suppress(FileExistsError):
            place.mkdir(mode=0o700)
            if user:
                os.chown(place, user["user"], user["group"])
        if place.is_symlink() or place.lstat().st_uid != user.get("user", os.geteuid()):
            raise ConfigurationError(f"{place}, where the socket should be, is somebody else's")
        return place

    def remove_sockets(self, place: Path) -> None:
        """Remove a place that was made for them, if it is empty."""
        if place != self.path:
            with contextlib.suppress(OSError):
                place.rmdir()

    def _short(self) -> Path:
        usual = Path(tempfile.gettempdir()) / self.name
        return usual if _fits(usual) else Path("/tmp") / self.name  # noqa: S108  it is checked whose it is


def _fits(place: Path) -> bool:
    return len(os.fsencode(place)) <= SOCKET_PATH_LIMIT and PLAIN_PATH.fullmatch(str(place)) is not None
