"""Messages both ways through a network that loses, repeats, delays and cuts: ``python -m samples.lossy_network``.

Three processes: a client, a server, and between them (here) a proxy for each direction.
"""

from __future__ import annotations

import asyncio
import enum
import http.client
import json
import os
import random
import signal
import sys
import sysconfig
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
from rich.console import Console
from rich.live import Live

from mercury import AddressingVersion, Protocol, RmVersion, SoapVersion
from samples.lossy_network.proxy import NetworkFaults, Proxy
from samples.lossy_network.report import Run

MERCURY = str(Path(sysconfig.get_path("scripts")) / "mercury")

#: Settings for such a network: short timeouts, short retry times, and many exchanges at once.
TUNING = {
    "MERCURY_HTTP_TIMEOUT": "1",
    "MERCURY_HTTP_BACK_CHANNEL_WAIT": "0.2",
    "MERCURY_RUNTIME_SENDERS": "64",
    "MERCURY_SOURCE_WINDOW": "64",
    "MERCURY_DESTINATION_BATCHES": "false",  # an exchange for each message, so that the network has many to lose
    "MERCURY_SOURCE_RETRANSMISSION_BASE": "0.3",
    "MERCURY_SOURCE_RETRANSMISSION_CAP": "1",
    "MERCURY_LOG_LEVEL": "ERROR",  # failed exchanges are normal here, and are retried
    "MERCURY_STORE": "memory:",
}


class Output(enum.Enum):
    TEXT = "text"
    JSON = "json"


class Broken(Exception):
    """The run could not be finished."""


def versions(text: str) -> Protocol:
    """The protocol that ``RM/WSA/SOAP`` names; WS-Addressing 2004/08 has a slash of its own."""
    rm, _, rest = text.partition("/")
    addressing, _, soap = rest.rpartition("/")
    try:
        protocol = Protocol(SoapVersion(soap), AddressingVersion(addressing), RmVersion(rm))
    except ValueError:
        known = (("RM", "1.0, 1.1 or 1.2"), ("WSA", "2004/08 or 1.0"), ("SOAP", "1.1 or 1.2"))
        wanted = "; ".join(f"{name} = {versions}" for name, versions in known)
        raise typer.BadParameter(f"{text!r} is not RM/WSA/SOAP ({wanted}), for example 1.0/2004/08/1.1") from None
    if not protocol.legal:
        raise typer.BadParameter(f"these versions cannot be combined: {protocol}")
    return protocol


def main(
    messages: Annotated[int, typer.Option(min=1, help="Number of questions to send; each is answered.")] = 1000,
    loss: Annotated[float, typer.Option(min=0, max=1, help="Share of HTTP exchanges that are lost.")] = 0.2,
    duplicate: Annotated[
        float, typer.Option(min=0, max=1, help="Share of HTTP requests that are delivered twice.")
    ] = 0.1,
    reset: Annotated[float, typer.Option(min=0, max=1, help="Share of connections that are reset.")] = 0.1,
    delay: Annotated[float, typer.Option(min=0, max=10, help="The longest delay, in seconds.")] = 0.02,
    seed: Annotated[int, typer.Option(help="Seed of the network's random choices.")] = 1,
    protocol: Annotated[
        Protocol, typer.Option(parser=versions, metavar="RM/WSA/SOAP", help="For example 1.0/2004/08/1.1.")
    ] = "1.1/1.0/1.2",  # type: ignore[assignment]  # the parser reads it
    anonymous: Annotated[bool, typer.Option("--anonymous", help="The client does not listen.")] = False,
    deadline: Annotated[float, typer.Option(min=1, help="Seconds after which the run is given up.")] = 300,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="Text for people, or JSON for programs.")
    ] = Output.TEXT,
) -> None:
    """Send questions through a faulty network and receive the answers.

    Exit code 0: in both directions nothing was lost or duplicated, and everything arrived in order.
    """
    if loss + duplicate + reset >= 1:
        raise typer.BadParameter("--loss, --duplicate and --reset together must be less than 1")
    faults = NetworkFaults(loss, duplicate, reset, delay)
    run = Run(messages, tuple(Proxy(faults, random.Random(f"{seed} {way}")) for way in ("there", "back")))
    console = Console(quiet=output is Output.JSON, highlight=False)
    try:
        with Live(run, console=console, transient=True):
            asyncio.run(play(run, protocol, anonymous, deadline))
    except Broken as broken:
        Console(stderr=True).print(f"[red]error:[/red] {broken}")
    if output is Output.JSON:
        print(json.dumps(run.as_value()))
    console.print(run, run.verdict_table())
    raise typer.Exit(0 if run.perfect else 1)


async def play(run: Run, protocol: Protocol, anonymous: bool, deadline: float) -> None:
    """Run everything until the client ends.

    :raises Broken: a process failed, or the client did not end in time.
    """
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, signal.raise_signal, signal.SIGINT)
    async with AsyncExitStack() as stack:
        for proxy in run.proxies:
            stack.push_async_callback(proxy.stop)
        front, back = [await proxy.start() for proxy in run.proxies]
        await converse(run, protocol, anonymous, deadline, front, back)


async def converse(run: Run, protocol: Protocol, anonymous: bool, deadline: float, front: str, back: str) -> None:
    """Run client and server. ``front`` and ``back`` are the URLs of the proxies to the server and to the client."""
    to_server, to_client = run.proxies
    settings = TUNING | {
        "MERCURY_SOURCE_PROTOCOL_RM": protocol.rm.value,
        "MERCURY_SOURCE_PROTOCOL_ADDRESSING": protocol.addressing.value,
        "MERCURY_SOURCE_PROTOCOL_SOAP": protocol.soap.value,
        # The server connects to an address that a client names only if it is on this list.
        "MERCURY_ENGINE_ADDRESSES_ALLOWED": back,
    }
    serve = [MERCURY, "serve", "samples.lossy_network.server:app", "--port", "0", "--output", "json"]
    ask_command = [sys.executable, "-m", "samples.lossy_network.client", f"{front}/services/questions"]
    ask_command += ["--messages", str(run.messages), *([] if anonymous else ["--address", back])]
    try:
        async with asyncio.timeout(deadline), process(serve, settings) as server:
            to_server.target = (await next_line(server))["url"]
            async with process(ask_command, settings) as client:
                while report := await next_line(client):
                    to_client.target = report.get("listening", to_client.target)
                    run.sent = report.get("sent", run.sent)
                    run.acknowledged = report.get("acknowledged", run.acknowledged)
                    run.answers += report.get("answers", [])
                    run.questions += await asyncio.to_thread(delivered, to_server.target, len(run.questions))
    except TimeoutError:
        raise Broken(f"not finished within {deadline:.0f} s") from None
    except OSError as error:
        raise Broken(str(error)) from error


@asynccontextmanager
async def process(command: list[str], settings: dict[str, str]) -> AsyncIterator[Process]:
    """A child process, which is terminated at the end of the block."""
    # In a session of its own, so that Ctrl-C reaches only this process, which then terminates the others.
    started = await asyncio.create_subprocess_exec(
        *command, stdout=PIPE, env=os.environ | settings, limit=2**24, start_new_session=True
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.terminate()
        await started.wait()


async def next_line(process: Process) -> dict[str, Any]:
    """The next line of JSON that a process prints; empty = it has ended.

    :raises Broken: it has failed; the reason is on stderr.
    """
    assert process.stdout is not None
    news: dict[str, Any] = json.loads(await process.stdout.readline() or b"{}")
    if not news and await process.wait():
        raise Broken("a process has failed")
    return news


def delivered(url: str, after: int) -> list[int]:
    """The numbers that the server's application received after the first ``after``, read without the proxy."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    try:
        connection.request("GET", f"/delivered?after={after}")
        numbers: list[int] = json.load(connection.getresponse())
        return numbers
    finally:
        connection.close()


if __name__ == "__main__":
    typer.run(main)
