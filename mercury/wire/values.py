"""Lexical forms of XML Schema as the protocols use them: URIs, whole numbers, booleans, durations; and escaping.

Reading is tolerant where the schema is (blanks around a URI or a number, ACT-11), and never costs more than the text
is long. Writing is strict.
"""

from __future__ import annotations

import re

#: What XML calls white space; ``str.strip()`` alone would take more.
BLANKS = " \t\r\n"

#: Any whole number above what fits 20 digits: it is too large for every use here, whatever it is.
TOO_LARGE = 10**20

#: Seconds. What lasts longer than a century lasts for ever; it also keeps clocks and databases from overflowing.
_CENTURY = 100 * 365 * 86400.0

_INNER_BLANKS = re.compile(r"[ \t\r\n]+")
_DURATION = re.compile(
    r"P(?=[0-9T])(?:([0-9]{1,15})Y)?(?:([0-9]{1,15})M)?(?:([0-9]{1,15})D)?"
    r"(?:T(?=[0-9])(?:([0-9]{1,15})H)?(?:([0-9]{1,15})M)?(?:([0-9]{1,15}(?:\.[0-9]{1,15})?)S)?)?"
)
#: Seconds in a year, month, day, hour, minute, second; years and months have no fixed length, so an agreed one.
_UNITS = (365 * 86400.0, 30 * 86400.0, 86400.0, 3600.0, 60.0, 1.0)

#: What cannot stand in character data: markup, what a parser would turn into another character, what XML 1.0 forbids.
_IN_TEXT = re.compile("[&<>\r\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_IN_ATTRIBUTE = re.compile('[&<>"\t\n\r\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]')
_REFERENCES = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "\t": "&#9;",
    "\n": "&#10;",
    "\r": "&#13;",
}


def collapse(text: str) -> str:
    """The value of an xs:anyURI or another collapsed type: no blanks around it, single ones inside (ACT-11)."""
    text = text.strip(BLANKS)
    if " " in text or "\n" in text or "\t" in text or "\r" in text:
        return _INNER_BLANKS.sub(" ", text)
    return text


def whole_number(text: str | None) -> int | None:
    """The value of an xs:unsignedLong with blanks around it allowed, or ``None`` when it is not one.

    A number of more than 20 digits comes back as ``TOO_LARGE``.
    """
    if text is None:
        return None
    text = text.strip(BLANKS).removeprefix("+")
    if not (text.isascii() and text.isdigit()):
        return None
    if len(text) > 20:
        text = text.lstrip("0")
        if len(text) > 20:
            return TOO_LARGE
    return int(text or "0")


def boolean(text: str | None) -> bool | None:
    """The value of an xs:boolean, or ``None`` when it is not one."""
    if text is None:
        return None
    return {"1": True, "true": True, "0": False, "false": False}.get(text.strip(BLANKS))


def seconds(text: str) -> float | None:
    """Seconds of an xs:duration that says how long something lives; ``None`` = for ever.

    Zero means for ever (RM-CS-11), and so does more than a century. A year counts 365 days, a month 30.

    :raises ValueError: not a duration, or a negative one.
    """
    match = _DURATION.fullmatch(text.strip(BLANKS))
    if match is None:
        raise ValueError(f"not a positive xs:duration: {text[:40]!r}")
    total = sum(float(part) * unit for part, unit in zip(match.groups(), _UNITS, strict=True) if part)
    return total if 0 < total <= _CENTURY else None


def duration(value: float) -> str:
    """``value`` seconds as an xs:duration, to the millisecond, never zero, for zero would mean for ever."""
    return f"PT{max(value, 0.001):.3f}".rstrip("0").rstrip(".") + "S"


def escape(text: str) -> str:
    """``text`` as character data. What XML cannot carry becomes U+FFFD."""
    return _IN_TEXT.sub(_reference, text)


def escape_attribute(text: str) -> str:
    """``text`` as an attribute value between double quotes. What XML cannot carry becomes U+FFFD."""
    return _IN_ATTRIBUTE.sub(_reference, text)


def _reference(match: re.Match[str]) -> str:
    return _REFERENCES.get(match[0], "\N{REPLACEMENT CHARACTER}")
