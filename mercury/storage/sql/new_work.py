"""What commits have made for the workers to do, and how it is written in a notification."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from mercury.storage.api import Topic

#: More keys are not named: to search the store for them costs less.
MOST_KEYS = 8
#: Before a key in the text of a notification. Versions that name no keys ignore it.
_KEY = "key="
_TOPICS = {topic.value: topic for topic in Topic}


@dataclass(frozen=True, slots=True)
class NewWork:
    """The kinds of work, and the only keys with work of `Topic.RMS`, if they are known."""

    topics: frozenset[Topic] = frozenset()
    #: Digests of keys; empty = not known.
    keys: frozenset[str] = frozenset()

    @classmethod
    def of(cls, topics: Collection[Topic], appended: Collection[str]) -> NewWork:
        """
        :param topics: without the work that appended messages make.
        :param appended: digests of the keys to which messages were appended.
        """
        if not appended:
            return cls(frozenset(topics))
        few = Topic.RMS not in topics and len(appended) <= MOST_KEYS
        return cls(frozenset((*topics, Topic.RMS)), frozenset(appended if few else ()))

    def __bool__(self) -> bool:
        return bool(self.topics)

    def __or__(self, other: NewWork) -> NewWork:
        if not other:
            return self
        keys = self.keys | other.keys
        unknown = any(Topic.RMS in each.topics and not each.keys for each in (self, other))
        return NewWork(self.topics | other.topics, frozenset() if unknown or len(keys) > MOST_KEYS else keys)

    def text(self) -> str:
        """As it is written in a notification."""
        return ",".join(sorted([topic.value for topic in self.topics] + [_KEY + key for key in self.keys]))

    @classmethod
    def read(cls, text: str) -> NewWork:
        """The work that a notification tells of; what it does not know is left out."""
        names = text.split(",")
        keys = frozenset(name.removeprefix(_KEY) for name in names if name.startswith(_KEY))
        return cls(frozenset(_TOPICS[name] for name in names if name in _TOPICS), keys)


NOTHING = NewWork()
