"""Dead letters in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mercury.errors import Conflict
from mercury.storage.letters import DeadLetter, LetterCount, LetterFilter
from mercury.storage.memory.committed import Committed


class MemoryDeadLetters:
    """`DeadLetterManager` of one transaction."""

    def __init__(self, committed: Committed) -> None:
        self._mutex = committed.mutex
        self._committed, self._counted = committed.dead_letters, committed.letter_bytes
        self.added: list[DeadLetter] = []
        self.deleted: list[str] = []
        #: The letters that the commit has removed.
        self.removed: list[DeadLetter] = []

    def add(self, letters: Sequence[DeadLetter]) -> None:
        self.added.extend(letters)

    def all(self) -> list[DeadLetter]:
        with self._mutex:
            return list(self._committed.values())

    def find(self, which: LetterFilter, limit: int | None = None) -> list[DeadLetter]:
        return [letter for letter in self.all() if which.takes(letter)][:limit]

    def count(self, which: LetterFilter) -> list[LetterCount]:
        alike = Counter(
            (letter.direction, letter.endpoint, letter.key, letter.reason, letter.certainty)
            for letter in self.find(which)
        )
        found = [
            LetterCount(
                count=count, direction=direction, endpoint=endpoint, key=key, reason=reason, certainty=certainty
            )
            for (direction, endpoint, key, reason, certainty), count in alike.items()
        ]
        return sorted(found, key=LetterCount.order)

    def delete(self, identifier: str) -> DeadLetter | None:
        if identifier in self.deleted:
            return None
        with self._mutex:
            letter = self._committed.get(identifier)
        if letter is not None:
            self.deleted.append(identifier)
        return letter

    def discard(self, which: LetterFilter, limit: int) -> int | None:
        found = self.find(which, limit)
        return sum(self.delete(letter.id) is not None for letter in found) if found else None

    def bytes(self, owner: str | None = None) -> int:
        with self._mutex:
            return self._counted.every if owner is None else self._counted.owners[owner]

    def bytes_of(self, sequence: str) -> int:
        with self._mutex:
            return self._counted.sequences[sequence]

    def check(self) -> None:
        for identifier in self.deleted:
            if identifier not in self._committed:
                raise Conflict(f"another transaction has taken dead letter {identifier}")

    def install(self) -> None:
        for letter in self.added:
            self._committed[letter.id] = letter
            self._counted.add(letter, 1)
        for identifier in self.deleted:
            gone = self._committed.pop(identifier, None)
            if gone is not None:
                self._counted.add(gone, -1)
                self.removed.append(gone)
