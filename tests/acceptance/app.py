"""The application that the tests serve: ``mercury serve tests.acceptance.app:app``."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from mercury import ApplicationFault, Mercury, MessageContext, Service

mercury = Mercury()
service = Service("desk")
noted: list[str] = []
begun: list[float] = []

#: A file with a line for each note, which remains after the process.
JOURNAL = os.environ.get("JOURNAL")
#: The duration of the handler of a note, in seconds.
PAUSE = float(os.environ.get("PAUSE", "0"))


@dataclass(frozen=True)
class Note:
    text: str


@dataclass(frozen=True)
class Ask:
    text: str


@dataclass(frozen=True)
class Said:
    text: str


@dataclass(frozen=True)
class Slow:
    """A request whose handler is slow; the response has its text."""

    text: str
    seconds: float


def keep(text: str) -> None:
    noted.append(text)
    if JOURNAL is not None:
        with open(JOURNAL, "a") as journal:
            journal.write(text + "\n")


@service.operation
def note(what: Note, context: MessageContext) -> None:
    time.sleep(PAUSE)
    context.transaction.after_commit(lambda: keep(what.text))


@service.operation
def ask(question: Ask) -> Said:
    if question.text == "[/nonsense]":
        raise ApplicationFault("that is [/nonsense]", code="Nonsense", detail=b"<why>because</why>")
    return Said(f"you said {question.text}")


@service.operation
def slow(what: Slow, context: MessageContext) -> Said:
    begun.append(what.seconds)
    time.sleep(what.seconds)
    context.transaction.after_commit(lambda: keep(what.text))
    return Said(what.text)


app = mercury.app(service)


@app.get("/noted")
def noted_so_far() -> list[str]:
    return noted


@app.get("/begun")
def begun_so_far() -> list[float]:
    return begun
