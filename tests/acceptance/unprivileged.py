"""``python -m tests.acceptance.unprivileged USER ARGUMENT...``: the command `mercury`, run by an ordinary user.

Run it as root. Root's interpreter may lie where nobody else can go, so everything is imported before.
"""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path

import psycopg
import typer.rich_utils  # noqa: F401  imported late otherwise

from mercury.cli import pg  # noqa: F401
from mercury.cli.main import run
from mercury.storage.postgres import embedded


def main(user: str, *arguments: str) -> None:
    # What is only imported when it is first used.
    assert embedded.EmbeddedPostgres(Path("/nowhere")).pid is None
    try:
        psycopg.connect("host=/nowhere")
    except psycopg.OperationalError as error:
        str(error)
    who = pwd.getpwnam(user)
    os.setgroups([])
    os.setresgid(who.pw_gid, who.pw_gid, who.pw_gid)
    os.setresuid(who.pw_uid, who.pw_uid, who.pw_uid)
    sys.argv = ["mercury", *arguments]
    run()


if __name__ == "__main__":
    main(*sys.argv[1:])
