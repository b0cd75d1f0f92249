"""``python -m tests.acceptance.unprivileged USER ARGUMENT...``: the command `mercury`, run by an ordinary user.

Run it as root. Other users may not be able to read root's interpreter, so all modules are imported before the change
of user.
"""

from __future__ import annotations

import contextlib
import io
import os
import pwd
import sys

import psycopg

from mercury.cli.main import app, run

#: Modules that import the rest.
BEFORE = (
    ("pg", "url", "--help"),
    ("pg", "url", "--folder", "/nowhere"),
    ("pg", "stop", "--folder", "/nowhere"),
    ("pg", "stop", "--folder", "/nowhere", "--output", "json"),
    ("pg", "nothing"),
)


def main(user: str, *arguments: str) -> None:
    for words in BEFORE:
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
            app(list(words))
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
