"""Logins by a token or by a ticket that is accepted once, and the limit on attempts."""

from __future__ import annotations

import hmac
from collections import deque

from mercury.bounded import BoundedDict
from mercury.console.users import ConsoleRole, ConsoleUser, clean_name

#: Failed attempts of one network within `WINDOW` seconds, after which further ones are not checked.
ATTEMPTS, WINDOW = 5, 60.0
#: The number of networks whose attempts are remembered.
NETWORKS = 1000
#: Seconds that a ticket is accepted.
TICKET_LIFETIME = 600.0


class TooManyAttempts(Exception):
    """The network has failed too often; nothing was checked."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        #: Seconds until the next attempt is checked.
        self.seconds = seconds


class Logins:
    """Checks tokens and tickets. Not thread-safe: used in the event loop's thread.

    :param token: the token of operators; ``None`` = there is none.
    :param reader_token: the token of readers; ``None`` = there is none.
    """

    def __init__(self, token: str | None, reader_token: str | None) -> None:
        self._tokens = ((token, ConsoleRole.OPERATOR), (reader_token, ConsoleRole.READER))
        #: The time until which each ticket is accepted, and the name of its user.
        self._tickets: dict[str, tuple[float, str]] = {}
        self._failed: BoundedDict[str, deque[float]] = BoundedDict(NETWORKS)

    def add_ticket(self, ticket: str, name: str, now: float) -> None:
        """Accept a ticket once, within `TICKET_LIFETIME`, as an operator's token.

        :param name: the name of the user who logs in with it.
        """
        self._tickets[ticket] = (now + TICKET_LIFETIME, name)

    def check(self, given: str, name: str, network: str, now: float) -> ConsoleUser | None:
        """The user of a token or a ticket; ``None`` = it is none. Takes the same time for every wrong text.

        :param name: what the user says to be called.
        :param network: where the attempt comes from.
        :raises TooManyAttempts: the network has failed `ATTEMPTS` times within `WINDOW`.
        """
        failed = self._failed.get(network, deque())
        while failed and failed[0] <= now - WINDOW:
            failed.popleft()
        if len(failed) >= ATTEMPTS:
            raise TooManyAttempts(failed[0] + WINDOW - now)
        user = self._user(given, clean_name(name), now)
        if user is None:
            failed.append(now)
            self._failed[network] = failed
        else:
            self._failed.pop(network, None)
        return user

    def _user(self, given: str, name: str, now: float) -> ConsoleUser | None:
        found = None
        for token, role in self._tokens:
            if token is not None and _same(token, given):
                found = ConsoleUser(name or role.value, role)
        for ticket, (until, owner) in list(self._tickets.items()):
            same = _same(ticket, given)
            if same or until <= now:
                del self._tickets[ticket]
            if same and until > now:
                found = ConsoleUser(clean_name(owner) or ConsoleRole.OPERATOR.value, ConsoleRole.OPERATOR)
        return found


def _same(known: str, given: str) -> bool:
    return hmac.compare_digest(known.encode(), given.encode("utf-8", "surrogatepass"))
