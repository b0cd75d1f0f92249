"""What commands that see and change a store have in common: where it is, who acts, why, and how it is shown."""

from __future__ import annotations

import contextlib
import getpass
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mercury.cli.config import ConfigFile
from mercury.cli.output import FAILED, UNUSABLE, Format, Output, console, fail, show
from mercury.cli.stores import StoreUrl, used_store
from mercury.errors import MercuryError

if TYPE_CHECKING:
    from mercury.storage.audit import Actor

By = Annotated[
    str | None, typer.Option("--by", metavar="NAME", help="Who acts, for the audit; default: the user of this shell.")
]
Note = Annotated[str, typer.Option("--note", metavar="TEXT", help="Why, for the audit.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="The largest number to show.")]
After = Annotated[
    str | None, typer.Option("--after", metavar="PLACE", help="Go on behind the page before, which named the place.")
]
Process = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="URL",
        help="Ask a running process instead, at http://host:port, with the token of the settings console.*.",
    ),
]
#: The calls of `mercury.operations.calls` by name: takes the arguments that are not None, and returns the result.
Call = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Options of commands that see a store, by itself or by a running process."""

    store: StoreUrl = None
    at: Process = None
    config: ConfigFile = None
    output: Output = Format.TEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class Acting(Target):
    """Options of commands that change a store."""

    by: By = None
    note: Note = ""


def actor(by: str | None) -> Actor:
    """The operator of this command."""
    from mercury.storage.audit import Actor, Via

    if by is None:
        try:
            by = getpass.getuser()
        except (OSError, KeyError):
            fail(UNUSABLE, "this user has no name: give one for the audit, --by NAME")
    return Actor(by, Via.CLI)


@contextlib.contextmanager
def calling(target: Target) -> Iterator[Call]:
    """The calls on the store that the options name, until the end of the block. What is not possible, and an argument
    that is not valid, ends the command."""
    from mercury.operations.acting import NotPossible
    from mercury.storage.searching import UnknownPlace

    try:
        if target.at is None:
            with _calls_here(target) as call:
                yield call
        else:
            yield _calls_there(target, target.at)
    except NotPossible as error:
        fail(FAILED, str(error))
    except MercuryError:
        raise
    except UnknownPlace as error:
        fail(UNUSABLE, f"--after: {error}")
    except ValueError as error:
        fail(UNUSABLE, str(error))


@contextlib.contextmanager
def _calls_here(target: Target) -> Iterator[Call]:
    from mercury.operations.calls.database import calls_of
    from mercury.operations.operator import Operations
    from mercury.settings import load
    from mercury.storage.audit import Actor

    watch = load(target.config).watch
    acting = actor(target.by) if isinstance(target, Acting) else Actor("reader")
    with used_store(target.store, target.config) as opened:
        calls = calls_of(Operations(opened, time.time, watch))
        yield lambda name, **given: calls.run(name, _given(target, given), acting, most=2**31)


def _calls_there(target: Target, at: str) -> Call:
    from mercury.cli.process_calls import call
    from mercury.settings import load

    if target.store is not None:
        fail(UNUSABLE, "--store and --at exclude each other: the process knows its store")
    settings = load(target.config).console
    token = settings.token or settings.reader_token
    if token is None:
        fail(UNUSABLE, "--at: set MERCURY_CONSOLE_TOKEN to the token of the process (its setting console.token)")
    by = actor(target.by).name if isinstance(target, Acting) else ""
    return lambda name, **given: call(at, token, by, name, _given(target, given))


def _given(target: Target, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments that were given, with the reason of an action."""
    note = given.pop("acts", False) and isinstance(target, Acting) and target.note
    return {name: value for name, value in given.items() if value is not None} | ({"note": note} if note else {})


def all_of_page(call: Call, name: str, after: str | None, **given: Any) -> tuple[list[dict[str, Any]], str | None]:
    """The first page of a list that is not empty, and the place after it; a page may have read only other rows."""
    page = call(name, after=after, **given)
    while not page["items"] and page["after"] is not None:
        page = call(name, after=page["after"], **given)
    return page["items"], page["after"]


def act(target: Acting, name: str, text: Callable[[dict[str, Any]], str], **given: Any) -> None:
    """Make the call of an action and print what was done: the result as JSON, or the text that is made from it."""
    shown = given.pop("shown", {})
    with calling(target) as call:
        value = call(name, acts=True, **given) | shown
    show(target.output, value, lambda: console().print(text(value), markup=False))
