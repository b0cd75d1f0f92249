"""Lexical forms of XML Schema as the protocols use them: URIs, whole numbers, booleans, durations; and escaping.

Reading is tolerant where the schema is (blanks around a URI or a number, ACT-11), and takes time linear in the length
of the text. Writing is strict.
"""

from __future__ import annotations

import re

#: The white space of XML; ``str.strip()`` without an argument would remove more characters.
BLANKS = " \t\r\n"

#: Stands for any whole number of more than 20 digits, which is too large for every use.
TOO_LARGE = 10**20

#: A century in seconds. A longer duration counts as unlimited, so times computed from it do not overflow.
_CENTURY = 100 * 365 * 86400.0

#: The id of a store, as a peer states it.
_STORE_ID = re.compile(r"[0-9A-Za-z._:-]{1,64}")
_INNER_BLANKS = re.compile(r"[ \t\r\n]+")
_DURATION = re.compile(
    r"P(?=[0-9T])(?:([0-9]{1,15})Y)?(?:([0-9]{1,15})M)?(?:([0-9]{1,15})D)?"
    r"(?:T(?=[0-9])(?:([0-9]{1,15})H)?(?:([0-9]{1,15})M)?(?:([0-9]{1,15}(?:\.[0-9]{1,15})?)S)?)?"
)
#: Seconds in a year, month, day, hour, minute, second. A year counts as 365 days and a month as 30.
_UNITS = (365 * 86400.0, 30 * 86400.0, 86400.0, 3600.0, 60.0, 1.0)

#: The characters that are replaced in character data: markup, a carriage return, and what XML 1.0 forbids.
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
    """The value of an xs:anyURI or another collapsed type: no blanks around it, single blanks inside (ACT-11)."""
    text = text.strip(BLANKS)
    if " " in text or "\n" in text or "\t" in text or "\r" in text:
        return _INNER_BLANKS.sub(" ", text)
    return text


def whole_number(text: str | None) -> int | None:
    """The value of an xs:unsignedLong, which may have blanks around it; ``None`` = the text is not a whole number.

    A number of more than 20 digits is returned as ``TOO_LARGE``.
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
    """The value of an xs:boolean; ``None`` = the text is not one."""
    if text is None:
        return None
    return {"1": True, "true": True, "0": False, "false": False}.get(text.strip(BLANKS))


def seconds(text: str) -> float | None:
    """The seconds of an xs:duration; ``None`` = unlimited.

    Zero means unlimited (RM-CS-11), and so does more than a century. A year counts as 365 days, a month as 30.

    :raises ValueError: the text is not a duration, or a negative one.
    """
    match = _DURATION.fullmatch(text.strip(BLANKS))
    if match is None:
        raise ValueError(f"not a positive xs:duration: {text[:40]!r}")
    total = sum(float(part) * unit for part, unit in zip(match.groups(), _UNITS, strict=True) if part)
    return total if 0 < total <= _CENTURY else None


def duration(value: float) -> str:
    """``value`` seconds as an xs:duration, to the millisecond, and at least one, because zero means unlimited."""
    return f"PT{max(value, 0.001):.3f}".rstrip("0").rstrip(".") + "S"


def exact_duration(value: float) -> str:
    """``value`` seconds as an xs:duration, to the millisecond; zero is zero."""
    return f"PT{value:.3f}".rstrip("0").rstrip(".") + "S"


def exact_seconds(text: str) -> float | None:
    """The reverse of `exact_duration`; ``None`` = more than a century.

    :raises ValueError: the text is not a duration, or a negative one.
    """
    found = seconds(text)
    return 0.0 if found is None and not any(each in text for each in "123456789") else found


def escape(text: str) -> str:
    """``text`` as character data. A character that XML cannot carry becomes U+FFFD."""
    return _IN_TEXT.sub(_reference, text)


def escape_attribute(text: str) -> str:
    """``text`` as an attribute value in double quotes. A character that XML cannot carry becomes U+FFFD."""
    return _IN_ATTRIBUTE.sub(_reference, text)


def _reference(match: re.Match[str]) -> str:
    return _REFERENCES.get(match[0], "\N{REPLACEMENT CHARACTER}")


def store_id(text: str) -> str | None:
    """The id of a store in the text of a peer; ``None`` = it is none: too long, or with other characters."""
    return text if _STORE_ID.fullmatch(text) else None
