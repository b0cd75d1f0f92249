"""What the client application catches: counted and shown, and wrong where it should never have seen it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from mercury.errors import MercuryError, OutcomeUnknown
from mercury.storage.application import Ending

#: How a line begins that the client prints for each error.
CAUGHT = "caught "
#: What makes one wrong.
COMMITTED, FOREIGN = "although it is committed", "raised by the commit, and not an error of Mercury's"


def described(error: Exception, ending: Ending, *, at_commit: bool) -> str:
    """The line about an error.

    :param ending: what the transaction says of itself.
    :param at_commit: the application's own statements were done: the commit raised it.
    """
    text = f"{CAUGHT}{type(error).__name__}"
    if ending is Ending.COMMITTED and not isinstance(error, OutcomeUnknown):
        return f"{text} {COMMITTED}"
    if at_commit and not isinstance(error, MercuryError):
        return f"{text} {FOREIGN}"
    return text


def counted(outputs: Iterable[str]) -> Counter[str]:
    """How often each was caught, of what processes have printed."""
    lines = (line for output in outputs for line in output.splitlines())
    return Counter(line.removeprefix(CAUGHT) for line in lines if line.startswith(CAUGHT))


def wrong(caught: Counter[str]) -> list[str]:
    """Those that no application should ever see."""
    return [f"caught {what}" for what in sorted(caught) if what.endswith((COMMITTED, FOREIGN))]
