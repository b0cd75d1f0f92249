"""One run: starts client, server and network, and kills the processes according to the plan."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from samples.queued_transaction.demo.databases import Pair, Urls
from samples.queued_transaction.demo.figures import Figures, Observer
from samples.queued_transaction.demo.kills import Kill, Victim, plan
from samples.queued_transaction.demo.network import Network
from samples.queued_transaction.demo.options import Options, Store
from samples.queued_transaction.demo.processes import Party, environment, mercury, python

#: Settings for such a network and such kills: short timeouts, short retry times.
TUNING = {
    "MERCURY_HTTP_TIMEOUT": "1",
    "MERCURY_RUNTIME_SENDERS": "32",
    "MERCURY_SOURCE_WINDOW": "32",
    "MERCURY_SOURCE_RETRANSMISSION_BASE": "0.2",
    "MERCURY_SOURCE_RETRANSMISSION_CAP": "1",
    # A killed process leaves claims, which another process takes over when the lease has expired.
    "MERCURY_ENGINE_LEASE": "2",
    # It also leaves transactions in doubt, which recovery finishes when this lease has expired.
    "MERCURY_XA_LEASE": "2",
    "MERCURY_XA_INTERVAL": "0.5",
    "MERCURY_LOG_LEVEL": "ERROR",
}
#: The folder from which the samples are imported.
SAMPLES = Path(__file__).resolve().parents[3]

#: Seconds between two updates of the figures.
POLL_INTERVAL = 0.05
#: Seconds without progress after which the run is given up.
STALLED = 60.0
#: Seconds that sending all orders takes without kills.
SENDING_TIME = 20.0
#: Seconds without progress after which messages that a killed process had in memory count as lost.
GIVEN_UP = 10.0
#: The longest pause between two orders, in seconds, and the most unacknowledged messages.
LONGEST_PAUSE, MOST_AHEAD = 0.1, 50


class Stalled(Exception):
    """The run makes no progress any more."""


async def play(figures: Figures, pair: Pair, folder: Path) -> str | None:
    """Carry out one run.

    :param folder: the folder of the logs.
    :returns: why the run was given up; ``None`` = it was finished.
    :raises Broken: a process failed without being killed.
    """
    network = figures.network
    front, back = await network.to_server.start(), await network.to_client.start()
    client, server = _parties(figures.options, network, pair, folder, front, back)
    observer = Observer(figures, pair, client, server)
    figures.doing = "client and server start"
    stopped = None
    try:
        await server.start()
        await client.start()
        await _work(figures, observer, {Victim.CLIENT: client, Victim.SERVER: server})
    except Stalled as stalled:
        stopped = str(stalled)
    finally:
        figures.ended = time.monotonic()
        await asyncio.gather(client.stop(), server.stop())
        await network.stop()
    await observer.update()  # the last figures count for the result
    observer.close()
    figures.doing = ""
    return stopped


async def _work(figures: Figures, observer: Observer, parties: dict[Victim, Party]) -> None:
    async def until(condition: Callable[[], bool], what: str, patience: float = STALLED) -> None:
        before, since = figures.progress, time.monotonic()
        while True:
            for party in parties.values():
                party.check()
            await observer.update()
            if condition():
                return
            if figures.progress != before:
                before, since = figures.progress, time.monotonic()
            if time.monotonic() - since > patience:
                raise Stalled(f"nothing has changed for {patience:.0f} s: {what}")
            await asyncio.sleep(POLL_INTERVAL)

    figures.doing = "orders are handed over, sent and received"
    for kill in plan(figures.options):
        await until(lambda kill=kill: figures.sent >= kill.after, f"{kill.after} orders are not sent yet")  # type: ignore[misc]
        await _kill(figures, kill, parties[kill.victim])
    client = parties[Victim.CLIENT]
    figures.doing = "the last orders arrive"
    await until(lambda: client.printed.get("done", False), "the client is not done")
    figures.doing = "what arrived is delivered"

    def delivered() -> bool:
        return not figures.waiting and not figures.in_doubt

    if figures.options.store is Store.MEMORY:
        # Messages that a killed client had in memory are a gap in the sequence: messages behind it are never delivered.
        with suppress(Stalled):
            await until(delivered, "messages wait", GIVEN_UP)
    else:
        await until(delivered, "messages wait, or transactions are in doubt")


async def _kill(figures: Figures, kill: Kill, party: Party) -> None:
    where = " between two commits" if kill.between_commits else ""
    figures.doing = f"{party.name} is killed{where}"
    there = await party.kill(between_commits=kill.between_commits)
    figures.kills += 1
    figures.killed.append((time.time(), f"{party.name} killed{where}"))
    figures.between_commits += kill.between_commits and there
    figures.doing = f"{party.name} killed{where}, starts again"
    await party.start()
    figures.doing = "orders are handed over, sent and received"


def _parties(
    options: Options, network: Network, pair: Pair, folder: Path, front: str, back: str
) -> tuple[Party, Party]:
    wrong = options.store.two_commits
    app = "two_commits_app" if wrong else "app"
    # The server connects to an address that a client names only if it is on this list.
    server = {**TUNING, **_places(pair.server), "MERCURY_ENGINE_ADDRESSES_ALLOWED": back}
    client = {**TUNING, **_places(pair.client)}
    serve = mercury("serve", f"samples.queued_transaction.server:{app}", "--port", "0", "--output", "json")
    hand_over = python("-m", "samples.queued_transaction.client", f"{front}/services/orders")
    hand_over += ["--address", back, "--mode", options.mode.value, *(["--two-commits"] if wrong else [])]
    # The pace is slow and the window small, so that orders are still being sent while a killed process restarts.
    hand_over += ["--pause", str(min(LONGEST_PAUSE, SENDING_TIME / options.orders))]
    hand_over += ["--ahead", str(max(2, min(MOST_AHEAD, options.orders // 10)))]
    return (
        Party("client", hand_over, environment(SAMPLES, client), network.to_client, folder / "client.log"),
        Party("server", serve, environment(SAMPLES, server), network.to_server, folder / "server.log"),
    )


def _places(urls: Urls) -> dict[str, str]:
    return {"MERCURY_STORE": urls.store, "ORDERS_DATABASE": urls.application}
