"""The templates' environment: every value is escaped, invisible characters are shown, times have their zone."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from zoneinfo import ZoneInfo

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from mercury.console.visits import link
from mercury.storage.searching import Count
from mercury.texts import counted, printable, span

#: The places in an address where a line may break.
_AFTER_SIGN = re.compile(r"(?<=[/.:?&=_-])(?=\w)")
#: The most characters that a cell of a table shows of a text.
SHOWN = 120


class Templates:
    """Renders the console's templates.

    :param time_zone: the IANA name of the zone of all times.
    """

    def __init__(self, time_zone: str) -> None:
        self._zone: datetime.tzinfo = datetime.UTC if time_zone == "UTC" else ZoneInfo(time_zone)
        self._environment = Environment(
            loader=PackageLoader("mercury.console"),
            autoescape=True,
            finalize=_finalize,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "moment": self.moment,
            "span": span,
            "thousands": thousands,
            "counted": with_words,
            "rate": rate,
            "milliseconds": milliseconds,
            "duration": duration,
            "breakable": breakable,
            "shortened": shortened,
            "size": size,
            "pretty": pretty,
            "unchanged": unchanged,
            "lines": lambda text: printable(str(text), lines=True),
        }
        self._environment.globals |= {"link": link, "version": static_version()}

    def render(self, template: str, values: Mapping[str, object]) -> str:
        """A page as HTML."""
        return self._environment.get_template(template).render(values)

    def moment(self, at: float | None) -> Markup:
        """A time, in seconds since the epoch, as HTML with its zone."""
        if at is None:
            return Markup('<span class="none">never</span>')
        try:
            shown = datetime.datetime.fromtimestamp(at, self._zone)
        except (OverflowError, OSError, ValueError):
            return Markup("{}").format(at)
        text = shown.strftime("%Y-%m-%d %H:%M:%S %Z")
        return Markup('<time datetime="{}">{}</time>').format(shown.isoformat(), text)


def _finalize(value: object) -> object:
    """Leave markup as it is; show invisible characters and direction marks of every other text, to be escaped then.

    The values of forms are markup: see `unchanged`.
    """
    return printable(value, lines=True) if isinstance(value, str) and not isinstance(value, Markup) else value


def unchanged(value: object) -> Markup:
    """The value of a field as HTML: the form sends it back as it is.

    What is invisible or changes the direction is a reference, which browsers read as the character. They read those of
    C1 controls as characters of Windows: these are themselves.
    """
    text = str(value)
    if printable(text, lines=True) == text:
        return escape(text)
    return Markup("").join(_referenced(each) for each in text)


def _referenced(character: str) -> str:
    if printable(character, lines=True) == character or "\x80" <= character <= "\x9f":
        return character
    return Markup("&#x{:X};").format(ord(character))


def thousands(value: object) -> str:
    """A number with its thousands apart; a bounded count with the words that say so."""
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, int):
        return f"{value:,}"
    number, more = getattr(value, "value", None), getattr(value, "more", False)
    return f"{'more than ' if more else ''}{number:,}" if isinstance(number, int) else str(value)


def with_words(value: int | Count, one: str, many: str) -> str:
    """A number, or a bounded count, with the words for it: see `counted`."""
    if isinstance(value, Count):
        return counted(value.value, one, many, more=value.more)
    return counted(value, one, many)


def rate(a_second: float) -> str:
    """A rate, with as many digits as say something."""
    if a_second == 0:
        return "0"
    return f"{a_second:,.0f}" if a_second >= 100 else f"{a_second:.1f}" if a_second >= 1 else f"{a_second:.2f}"


def milliseconds(seconds: float | None) -> str:
    """A short time, given in seconds; ``None`` = there is none."""
    if seconds is None:
        return "none"
    return f"{seconds * 1000:,.1f} ms" if seconds < 1 else f"{seconds:,.1f} s"


def duration(seconds: float) -> str:
    """The time between two moments, in seconds."""
    return milliseconds(max(0.0, seconds)) if seconds < 60 else span(seconds)


def breakable(text: object) -> Markup:
    """An address or a name as HTML, whose lines break behind its signs and not within its words."""
    return Markup("<wbr>").join(_AFTER_SIGN.split(printable(str(text), lines=True)))


def shortened(text: object, most: int = SHOWN) -> str:
    """A text that fits a cell; a longer one shows its beginning and its end."""
    whole = str(text)
    return whole if len(whole) <= most else f"{whole[: most // 2]}…{whole[-(most // 2) :]}"


def size(count: int) -> str:
    """A number of bytes."""
    if count < 10_000:
        return f"{count:,} B"
    return f"{count / 1024:,.0f} KiB" if count < 10 * 1024 * 1024 else f"{count / 1024 / 1024:,.0f} MiB"


def pretty(value: object) -> str:
    """A JSON value as indented text."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def static_version() -> str:
    """A text that changes with the content of the script and the style sheet, so that browsers may keep them."""
    digest = hashlib.sha256()
    for each in sorted(files("mercury.console").joinpath("static").iterdir(), key=lambda file: file.name):
        digest.update(each.read_bytes())
    return digest.hexdigest()[:12]
