"""An active member that is killed in its first commit: ``python -m tests.xa.active_member STEP STORE APP [LOG]``.

It prints a line when it is active, and begins when it reads one.
"""

from __future__ import annotations

import os
import signal
import sys

from sqlalchemy import text

from mercury import MemberRole, Mercury, Settings
from mercury.settings import XaSettings

LEASE = 1.0


def member(store: str, app: str, log: str | None = None) -> Mercury:
    """A member of a pair, with another database beside its store."""
    xa = XaSettings(lease=LEASE, interval=0.2)
    settings = Settings(role=MemberRole.ACTIVE_STANDBY, role_lease=LEASE, xa=xa)
    return Mercury(store, resources={"app": app}, decision_log=log, settings=settings)


def order(mercury: Mercury, number: int) -> None:
    """One order: a row of the application, and a message about it."""
    with mercury.transaction() as tx:
        tx.connection("app").execute(text("insert into placed values (:number)"), {"number": number})
        nowhere = mercury.to("http://127.0.0.1:1/services/shop")
        nowhere.send(b"<order/>", action="urn:order", correlation=str(number), tx=tx)


def main(step: str, *databases: str) -> None:
    with member(*databases) as mercury:
        real = getattr(mercury.coordinator, step)

        def dying(*arguments: object) -> None:
            real(*arguments)
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(mercury.coordinator, step, dying)
        print("active", flush=True)  # noqa: T201
        sys.stdin.readline()
        order(mercury, 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
