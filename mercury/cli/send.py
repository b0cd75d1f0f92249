"""`mercury send`."""

from __future__ import annotations

import dataclasses
import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from mercury.cli.config import ConfigFile
from mercury.cli.output import FAILED, UNUSABLE, Format, Output, console, fail, notes, show, show_body, show_json
from mercury.errors import ApplicationFault, MercuryError
from mercury.statemachine.protocol import AddressingVersion, Protocol, RmVersion, SoapVersion
from mercury.texts import printable

if TYPE_CHECKING:
    from concurrent.futures import Future

    from mercury.client.results import Receipt
    from mercury.client.sender import Sender
    from mercury.facade import Mercury


def _rm(text: str) -> RmVersion:
    try:
        return RmVersion(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not one of 1.0, 1.1, 1.2") from None


MEMORY = "memory:"
#: Seconds between two checks whether the message is acknowledged.
POLL_INTERVAL = 0.02


def send(
    url: Annotated[str, typer.Argument(help="The endpoint, as http://host:port/services/name.")],
    body: Annotated[str, typer.Option(help="XML of one element; @FILE reads a file, - reads standard input.")],
    action: Annotated[str, typer.Option(help="wsa:Action of the message.")],
    request: Annotated[bool, typer.Option("--request", help="Wait for the response and print it.")] = False,
    wait: Annotated[bool, typer.Option(help="Wait until the message is acknowledged.")] = True,
    timeout: Annotated[float, typer.Option(min=0.1, help="How long to wait, in seconds.")] = 30.0,
    key: Annotated[str, typer.Option(help="Messages with the same URL and key share a sequence.")] = "cli",
    correlation: Annotated[str | None, typer.Option(help="A name for the message, stored with it.")] = None,
    rm: Annotated[
        RmVersion | None,
        typer.Option(parser=_rm, metavar="[1.0|1.1|1.2]", help="The version of WS-ReliableMessaging (1.2 means 1.1)."),
    ] = None,
    addressing: Annotated[AddressingVersion | None, typer.Option(help="The version of WS-Addressing.")] = None,
    soap: Annotated[SoapVersion | None, typer.Option(help="The version of SOAP.")] = None,
    config: ConfigFile = None,
    output: Output = Format.TEXT,
) -> None:
    """Send one message reliably, and wait until it is acknowledged.

    Acknowledged means that the other side has stored the message, not that its handler has succeeded. A response shows
    that: --request waits for it and prints it to standard output. Exit code 1: the message was not acknowledged (or
    answered) in time, or the answer is a fault; 2: it could not be sent.

    Without a configured store the message is in memory only: if it is not acknowledged when the command ends, it is
    lost.
    """
    from mercury.facade import Mercury
    from mercury.settings import explain, load

    # This command prints the errors of its one message; the library's log would repeat them.
    logging.getLogger("mercury").setLevel(logging.CRITICAL)
    settings = load(config)
    chosen = settings.source.protocol
    protocol = Protocol(soap or chosen.soap, addressing or chosen.addressing, rm or chosen.rm)
    if any(each.path == "store" and each.origin == "default" for each in explain(config)):
        # No store is configured: the default store would leave a file behind.
        settings = dataclasses.replace(settings, store=MEMORY)
    if not wait and settings.store == MEMORY:
        fail(UNUSABLE, "--no-wait needs a durable store that a running process works on: set MERCURY_STORE to its URL")
    payload = _read(body)
    with Mercury(settings=settings) as mercury:
        policy = dataclasses.replace(settings.source, protocol=protocol)
        sender = mercury.to(url, key=key, policy=policy, listen=False)
        deadline = time.monotonic() + timeout
        if request:
            future = sender.request(payload, action=action, correlation=correlation)
            _answered(mercury, sender, future, deadline, output)
            return
        receipt = sender.send(payload, action=action, correlation=correlation)
        if wait:
            _acknowledged(mercury, sender, receipt, deadline)
        value = {"message_id": receipt.message_id, "endpoint": url, "key": key, "acknowledged": wait}
        show(output, value, lambda: console().print(f"{'acknowledged' if wait else 'stored'}: {receipt.message_id}"))
        if wait:
            _end(sender, deadline)


def _read(body: str) -> bytes:
    if body == "-":
        return sys.stdin.buffer.read()
    if not body.startswith("@"):
        return body.encode()
    try:
        return Path(body[1:]).read_bytes()
    except OSError as error:
        fail(UNUSABLE, f"the file of the body, {body[1:]!r}, cannot be read: {error.strerror}")


def _acknowledged(mercury: Mercury, sender: Sender, receipt: Receipt, deadline: float) -> None:
    """Wait until no message of the key is pending, and print errors meanwhile."""
    from mercury.storage.letters import LetterFilter

    printed = ""
    while sender.pending:
        printed = _print_error(mercury, sender, printed)
        if time.monotonic() >= deadline:
            fail(FAILED, f"not acknowledged in time{_why(mercury, sender)}")
        time.sleep(POLL_INTERVAL)
    # Another dead letter would be an unsolicited response, or of another command: a store may have many.
    for letter in mercury.dead_letters(LetterFilter(message_id=receipt.message_id)):
        fail(FAILED, f"not delivered: {letter.reason}{_why(mercury, sender)}")


def _answered(mercury: Mercury, sender: Sender, future: Future[bytes], deadline: float, output: Format) -> None:
    printed = ""
    while not future.done():
        printed = _print_error(mercury, sender, printed)
        if time.monotonic() >= deadline:
            fail(FAILED, f"not answered in time{_why(mercury, sender) or _no_answer(sender)}")
        time.sleep(POLL_INTERVAL)
    try:
        response = future.result()
    except ApplicationFault as fault:
        if output is Format.JSON:
            show_json({"fault": {"code": fault.code, "reason": fault.reason, "detail": fault.detail.decode()}})
        _end(sender, deadline)
        fail(FAILED, f"the answer is a fault: {fault.reason}" + (f" ({fault.code})" if fault.code else ""))
    except MercuryError as error:
        fail(FAILED, f"{error}{_why(mercury, sender)}")
    show(output, {"response": response.decode()}, lambda: show_body(response))
    _end(sender, deadline)


def _end(sender: Sender, deadline: float) -> None:
    """Terminate the sequence, and wait for that until the deadline."""
    sender.close()
    sender.wait(max(0.0, deadline - time.monotonic()))


def _no_answer(sender: Sender) -> str:
    """Possible reasons for a message that is acknowledged and not answered; empty = it is not acknowledged."""
    if not any(status.ranges for status in sender.status()):
        return ""
    return (
        ": it is acknowledged, so the other side has it; its handler may still be busy or failing, "
        "or the operation is one-way and never answers (then send without --request)"
    )


def _print_error(mercury: Mercury, sender: Sender, printed: str) -> str:
    """Print a new error once, while the message is retried."""
    error = _why(mercury, sender)
    if error and error != printed:
        notes().print(f"not done yet{escape(printable(error))}; trying again")
    return error or printed


def _why(mercury: Mercury, sender: Sender) -> str:
    last = mercury.last_error(sender.endpoint)
    errors = [status.last_error for status in sender.status() if status.last_error]
    why = last or (errors[-1] if errors else "")
    return f": {why}" if why else ""
