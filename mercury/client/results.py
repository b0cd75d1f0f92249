"""Results of a `Sender`'s methods."""

from __future__ import annotations

from dataclasses import dataclass

from mercury.storage.letters import LetterCount


@dataclass(frozen=True, slots=True)
class Receipt:
    """A stored message: after the commit it is sent until it is acknowledged or becomes a dead letter."""

    #: wsa:MessageID, the same at every transmission.
    message_id: str
    endpoint: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitResult:
    """The result of `Sender.wait`: true if all messages have arrived."""

    #: No message waits any more: each is acknowledged (requests: answered) or a dead letter.
    settled: bool
    #: The number of messages that still wait.
    left: int = 0
    #: The last known error that keeps them from arriving.
    last_error: str = ""
    #: Numbers of messages that became dead letters since the sender was made, grouped.
    letters: tuple[LetterCount, ...] = ()

    @property
    def dead(self) -> int:
        """The number of messages that became dead letters since the sender was made."""
        return sum(each.count for each in self.letters)

    def __bool__(self) -> bool:
        return self.settled and not self.letters

    def __str__(self) -> str:
        parts = []
        if not self.settled:
            waits = f"{self.left} still wait" if self.left else "the end of the sequence is not acknowledged yet"
            parts.append(waits + (f" ({self.last_error})" if self.last_error else ""))
        parts += [f"{each.count} dead: {each.reason} ({each.certainty.value})" for each in self.letters]
        return "; ".join(parts) or "everything has arrived"
