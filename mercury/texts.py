"""Makes texts from peers safe for a terminal, a log and a page: one line, without control characters. Formats times
and numbers."""

from __future__ import annotations

import datetime
import unicodedata

#: Characters that change the text's direction or break the line, besides the control characters (UTR 36, UAX 9).
_UNSAFE = frozenset("\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")


def printable(text: str, *, lines: bool = False) -> str:
    """``text`` with line breaks, ESC, C0, C1 and bidirectional controls and lone surrogates escaped, as ``\\x1b``.

    :param lines: keep line breaks and tabs.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(character, lines) for character in text)


def _escaped(character: str, lines: bool) -> str:
    if lines and character in "\n\t":
        return character
    if character in _UNSAFE or unicodedata.category(character) in ("Cc", "Cs"):
        return character.encode("unicode_escape", "backslashreplace").decode("ascii")
    return character


# --- times -----------------------------------------------------------------------------------------------------------


def moment(at: float) -> str:
    """A time, in seconds since the epoch, as UTC text."""
    return datetime.datetime.fromtimestamp(at, datetime.UTC).isoformat(" ", "seconds")


def span(seconds: float) -> str:
    """A length of time, in seconds, as text in its two largest units."""
    left = max(0, round(seconds))
    for unit, size, name, smaller in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if left >= size:
            return f"{left // size} {unit} {left % size // smaller} {name}"
    return f"{left} s"


def ago(at: float, now: float) -> str:
    """The time since ``at``, as text."""
    return f"{span(now - at)} ago"


def ahead(at: float, now: float) -> str:
    """The time until ``at``, as text."""
    return "now" if at <= now else f"in {span(at - now)}"


# --- addresses -------------------------------------------------------------------------------------------------------


def shortened(text: str, most: int = 60) -> str:
    """A text that is longer than ``most`` characters without its middle, for example
    ``failover:(http://a:80/s…2:80/services/shop)``."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[-(most - most // 2 - 1) :]}"


# --- numbers ---------------------------------------------------------------------------------------------------------


def counted(count: int, one: str, many: str, *, more: bool = False) -> str:
    """A number with the words for it, for example ``1 message waits`` or ``1,200 messages wait``.

    :param one: the words for one.
    :param many: the words for any other number.
    :param more: there are more than the number; the text says so.
    """
    return f"{'more than ' if more else ''}{count:,} {one if count == 1 and not more else many}"


def times(count: int) -> str:
    """How often, as text."""
    return "once" if count == 1 else f"{count:,} times"
