"""The round trip to a destination, and the pause before a retransmission, which follows it (RFC 6298). Pure.

A pause that is shorter than the round trip sends every message twice. So one message at a time is timed, from the
transaction that transmits it to the acknowledgement; the time that it waits for a free exchange counts too. An
acknowledgement of a message that was sent again does not say which transmission it answers, and measures nothing
(Karn's rule). Instead the pause of new messages doubles until one is measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

#: The weight of a new measurement in the smoothed round trip, and in its variation.
GAIN, VARIATION_GAIN = 1 / 8, 1 / 4
#: The pause is longer than the smoothed round trip by this many variations.
VARIATIONS = 4
#: And by so many seconds at least: threads of a busy machine wait for each other.
SLACK = 0.2
#: How often the pause of new messages doubles at most: then a message that is lost does not wait for too long.
DOUBLED = 3


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """What is known of the round trip of one sequence. Times are seconds."""

    #: The smoothed round trip; ``None`` = none was measured yet.
    smoothed: float | None = None
    variation: float = 0.0
    #: The number that is timed; 0 = none.
    number: int = 0
    #: When it was sent, seconds since the epoch; ``None`` = it was sent again.
    since: float | None = None
    #: How often a timed number was sent again since the last measurement, at most `DOUBLED`.
    repeated: int = 0

    @property
    def measured(self) -> float:
        """Seconds in which an acknowledgement should come; 0 = no round trip was measured."""
        return 0.0 if self.smoothed is None else self.smoothed + max(SLACK, VARIATIONS * self.variation)

    @property
    def pause(self) -> float:
        """The least number of seconds without an acknowledgement after which a message is sent again."""
        return self.measured * float(2**self.repeated)

    def sent(self, number: int, now: float) -> RoundTrip:
        """New numbers up to this one leave. The last of them requests an acknowledgement, so it is timed."""
        return self if self.number else replace(self, number=number, since=now)

    def sent_again(self) -> RoundTrip:
        """The timed number is sent again."""
        return replace(self, since=None, repeated=min(DOUBLED, self.repeated + 1))

    def lost(self) -> RoundTrip:
        """What was sent again was dropped, and not slow."""
        return replace(self, repeated=0)

    def acknowledged(self, now: float) -> RoundTrip:
        """The timed number is acknowledged."""
        if self.since is None:
            return replace(self, number=0)
        measured = max(0.0, now - self.since)  # the clock may have been set back
        if self.smoothed is None:
            return RoundTrip(measured, measured / 2)
        variation = self.variation + VARIATION_GAIN * (abs(self.smoothed - measured) - self.variation)
        return RoundTrip(self.smoothed + GAIN * (measured - self.smoothed), variation)
