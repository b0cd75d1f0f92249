"""The members of a destination that has several: what a process says of them to clients, and what clients read."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from mercury.engine.address_book import FailoverSettings

#: The query of the document with the members, below the path of a service; and its media type.
QUERY = "members"
JSON_TYPE = "application/json"
#: The most addresses that are said and read, the most characters of one, and the most bytes of a document.
MOST, LONGEST, MOST_BYTES = 64, 2048, 256 * 1024
_SEPARATORS = re.compile(r"[\s,]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberList:
    """The members of a destination, as a document says."""

    urls: tuple[str, ...]
    #: Clients spread over the members anew when there is a new one.
    rebalance: bool = False


class Members:
    """The members of this process's store that clients may use. Thread-safe.

    :param settings: with ``public_address``.
    """

    def __init__(self, settings: FailoverSettings) -> None:
        #: Where clients reach this process.
        self.address = (settings.public_address or "").rstrip("/")
        self._rebalance = settings.rebalance
        self._filter = re.compile(settings.members_filter) if settings.members_filter else None
        self._mutex = threading.Lock()
        self._others: tuple[str, ...] = ()

    def update(self, addresses: Iterable[str]) -> None:
        """These processes serve now, as the store says."""
        with self._mutex:
            self._others = tuple(dict.fromkeys(addresses))

    def document(self, path: str) -> bytes:
        """The document of a service: all members, this process included unless the filter leaves it out.

        :param path: of the service, decoded.
        """
        with self._mutex:
            found = sorted({self.address, *self._others})
        urls = [f"{each}{quote(path)}" for each in found if self._filter is None or self._filter.fullmatch(each)]
        return json.dumps({"members": urls[:MOST], "rebalance": self._rebalance}).encode()


def read_members(document: bytes) -> MemberList:
    """Read a document: that of `Members`, or a text with addresses between blanks, line ends or commas.

    :raises ValueError: it is neither.
    """
    if len(document) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES} bytes")
    try:
        text = document.decode()
        if not text.lstrip().startswith("{"):
            return MemberList(urls=_bounded([each for each in _SEPARATORS.split(text) if each]))
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError("it is no list of members") from error
    urls = found.get("members")
    if not isinstance(urls, list) or not all(isinstance(each, str) for each in urls):
        raise ValueError("it is no list of members")
    return MemberList(urls=_bounded(urls), rebalance=found.get("rebalance") is True)


def _bounded(urls: Sequence[str]) -> tuple[str, ...]:
    if len(urls) > MOST:
        raise ValueError(f"it has more than {MOST} addresses")
    return tuple(dict.fromkeys(each for each in urls if len(each) <= LONGEST))
