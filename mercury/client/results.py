"""What an application gets back from a `Sender`."""

from __future__ import annotations

from dataclasses import dataclass

from mercury.storage.letters import LetterCount


@dataclass(frozen=True, slots=True)
class Receipt:
    """A message is stored: from the commit on it will arrive, whatever happens."""

    #: wsa:MessageID, the same at every transmission.
    message_id: str
    endpoint: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitResult:
    """What came of `Sender.wait`: true when everything has arrived."""

    #: Nothing waits any more: what was sent is acknowledged (requests: answered), or a dead letter.
    settled: bool
    #: Messages that still wait.
    left: int = 0
    #: What keeps them from arriving, as far as is known.
    last_error: str = ""
    #: Messages that became dead letters since the sender was made, alike ones together.
    letters: tuple[LetterCount, ...] = ()

    @property
    def dead(self) -> int:
        """How many messages became dead letters since the sender was made."""
        return sum(each.count for each in self.letters)

    def __bool__(self) -> bool:
        return self.settled and not self.letters

    def __str__(self) -> str:
        said = []
        if not self.settled:
            waits = f"{self.left} still wait" if self.left else "the end of the sequence is not acknowledged yet"
            said.append(waits + (f" ({self.last_error})" if self.last_error else ""))
        said += [f"{each.count} dead: {each.reason} ({each.certainty.value})" for each in self.letters]
        return "; ".join(said) or "everything has arrived"
