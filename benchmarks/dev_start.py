"""How long `mercury dev` takes until a message is seen in its console: from the command, in a new folder and again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from httpx import Client

from benchmarks.child import ROOT
from benchmarks.costs import MERCURY
from benchmarks.rounds import GivenUp, Record, progress

TARGET = "samples.hello.server:app"
#: Seconds after which a start is given up.
PATIENCE = 120.0


def all_starts(folder: Path) -> Iterator[Record]:
    """A first start, which creates the embedded PostgreSQL, and a second one."""
    for start in ("first", "again"):
        record = one_start(folder)
        progress(f"mercury dev, {start}: a message in the console after {record['message_seconds']:.1f} s")
        yield {"part": "dev", "start": start, **record}


def one_start(folder: Path) -> Record:
    """Start the command in a folder, and ask for the console's page until it shows a sequence with a message.

    :raises GivenUp: it shows none in time.
    """
    command = (*MERCURY, "dev", TARGET, "--port", "0", "--console-port", "0")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MERCURY_")}
    environment |= {"PYTHONPATH": str(ROOT), "MERCURY_LOG_LEVEL": "WARNING"}
    begun = time.monotonic()
    process = subprocess.Popen(
        [*command, "--output", "json"], stdout=subprocess.PIPE, cwd=folder, env=environment, text=True
    )
    try:
        assert process.stdout is not None
        said = next((line for line in process.stdout if line.startswith("{")), None)
        if said is None:
            raise GivenUp("mercury dev has ended")
        started = time.monotonic() - begun
        found = json.loads(said)
        with Client(follow_redirects=True) as client:
            client.get(found["login"]).raise_for_status()
            while "receiving" not in client.get(f"{found['console']}/sequences").raise_for_status().text:
                if time.monotonic() - begun > PATIENCE:
                    raise GivenUp(f"the console shows no message within {PATIENCE:g} s")
                time.sleep(0.05)
        return {"start_seconds": round(started, 2), "message_seconds": round(time.monotonic() - begun, 2)}
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
