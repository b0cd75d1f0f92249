"""The values of attributes, with a limit on their number: a peer or an application could cause any number of them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from mercury.telemetry.instruments import OTHER

#: Characters of a destination's name.
MOST_LENGTH = 200


class Limited:
    """Names, the first ones that were seen; the rest is `OTHER`. Thread-safe.

    :param most: the limit on the number of names.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._mutex = threading.Lock()
        self._shown: dict[str, str] = {}
        self._names: set[str] = set()

    def of(self, raw: str) -> str:
        """The name that is shown for a destination or a class: see `shown`."""
        found = self._shown.get(raw)
        return found if found is not None else self._add(raw)

    def _add(self, raw: str) -> str:
        name = shown(raw)
        with self._mutex:
            if name not in self._names and len(self._names) >= self._most:
                return OTHER  # not remembered: the number of raw names has no limit
            self._names.add(name)
            if len(self._shown) < 2 * self._most:
                self._shown[raw] = name
        return name


def shown(raw: str) -> str:
    """A destination for people: a URL without credentials, query and fragment, and no longer than `MOST_LENGTH`."""
    if "://" in raw:
        try:
            parts = urlsplit(raw)
            host = parts.netloc.rpartition("@")[2]
            raw = f"{parts.scheme}://{host}{parts.path}"
        except ValueError:
            raw = OTHER
    return raw[:MOST_LENGTH]


def largest(counts: Iterable[tuple[str, int]], most: int) -> Mapping[str, int]:
    """The sums of these counts by name, for the names with the highest sums; the rest as `OTHER`.

    :param most: the limit on the number of names, `OTHER` not counted.
    """
    sums: Counter[str] = Counter()
    for name, count in counts:
        sums[shown(name)] += count
    found = dict(sums.most_common(most))
    rest = sum(sums.values()) - sum(found.values())
    if rest:
        found[OTHER] = found.get(OTHER, 0) + rest
    return found
