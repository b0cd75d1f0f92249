"""``python -m tests.storage.outage URL``: a process that sends notes until it is ended, also while its store fails."""

from __future__ import annotations

import contextlib
import itertools
import sys
import time

from mercury import Mercury, StorageError
from mercury.cli.logs import set_up_logs
from mercury.errors import OutcomeUnknown
from tests.acceptance.app import Note


def main(url: str) -> None:
    client = Mercury()
    set_up_logs(client.settings.log)
    with client:
        sender = client.to(f"{url}/services/desk")
        for number in itertools.count(1):
            with contextlib.suppress(StorageError, OutcomeUnknown):  # the application tells its own users
                sender.send(Note(str(number)))
            sys.stdout.write(f"sent {number}\n")
            sys.stdout.flush()
            time.sleep(0.02)


if __name__ == "__main__":
    main(sys.argv[1])
