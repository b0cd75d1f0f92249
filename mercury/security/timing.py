"""Times in a Security header: xsd:dateTime in UTC (WS-Security 1.1, section 10)."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from mercury.security.message import Rejected
from mercury.security.settings import MessageSecurity

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")


def written_time(seconds: float) -> str:
    """A time, in seconds since the epoch, with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read_time(text: str | None) -> float:
    """Seconds since the epoch.

    :raises Rejected: it is not an xsd:dateTime with a time zone.
    """
    text = (text or "").strip()
    if _TIME.fullmatch(text) is None:
        raise Rejected("a time in the Security header is not an xsd:dateTime with a time zone")
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError) as error:
        raise Rejected("a time in the Security header is not a date") from error


def check_age(settings: MessageSecurity, created: float, now: float) -> float:
    """Check when a message was made. Returns the time after which it is refused as too old.

    :raises Rejected: the message is too old already, or from the future.
    """
    if created > now + settings.clock_skew:
        raise Rejected(f"the message was made {created - now:.0f} s in the future: its sender's clock is ahead")
    last = created + settings.max_age + settings.clock_skew
    if now > last:
        raise Rejected(f"the message was made {now - created:.0f} s ago, which is too old")
    return last
