"""Errors that the client's application catches: counted, and classified as expected or wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from mercury.errors import MercuryError, OutcomeUnknown
from mercury.storage.application import Ending

#: The beginning of the line that the client prints for each error.
CAUGHT = "caught "
#: The reasons why an error is wrong.
COMMITTED, FOREIGN = "although it is committed", "raised by the commit, and not an error of Mercury's"


def described(error: Exception, ending: Ending, *, at_commit: bool) -> str:
    """The line about an error.

    :param ending: the transaction's own report of its outcome.
    :param at_commit: whether the commit raised the error, not a statement of the application.
    """
    text = f"{CAUGHT}{type(error).__name__}"
    if ending is Ending.COMMITTED and not isinstance(error, OutcomeUnknown):
        return f"{text} {COMMITTED}"
    if at_commit and not isinstance(error, MercuryError):
        return f"{text} {FOREIGN}"
    return text


def counted(outputs: Iterable[str]) -> Counter[str]:
    """The number of each error in the processes' output."""
    lines = (line for output in outputs for line in output.splitlines())
    return Counter(line.removeprefix(CAUGHT) for line in lines if line.startswith(CAUGHT))


def wrong(caught: Counter[str]) -> list[str]:
    """The errors that an application must never see."""
    return [f"caught {what}" for what in sorted(caught) if what.endswith((COMMITTED, FOREIGN))]
