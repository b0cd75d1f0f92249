"""The settings ``console.*``."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mercury.errors import ConfigurationError
from mercury.statemachine.bounds import above

#: Characters of a token.
MIN_TOKEN = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """The web console. Times are seconds.

    :raises ConfigurationError: a value is out of range; the text begins with its name.
    """

    #: Whether `Mercury.app` serves the console, at ``/console``. `Mercury.console_router` and `mercury console` do not
    #: need it.
    enabled: bool = False
    #: Whether `Mercury.app` answers the command line (``--at``), at ``/mercury/operate``, with the same tokens and
    #: hosts. `Mercury.operator_router` does not need it. The store may be in memory.
    api: bool = False
    #: The token of operators, who see everything and change the store, and that of readers, who only see it.
    token: str | None = None
    reader_token: str | None = None
    #: The host names, without a port, that browsers on other machines reach the console by. Without one, only this
    #: machine reaches it.
    hosts: tuple[str, ...] = ()
    #: How long a login lasts, and how long it lasts without a request.
    session_lifetime: float = 8 * 3600.0
    session_idle: float = 1800.0
    #: The time zone of all times on the pages, by its IANA name.
    time_zone: str = "UTC"
    #: Seconds between two readings of the store for a page that is open in a browser.
    refresh: float = 2.0
    #: How long a page waits for the store.
    timeout: float = 10.0
    #: A folder with reports of ``mercury reconcile``, each in a folder of its own; the console shows them, and begins
    #: comparisons there that a ``*.toml`` file in it describes.
    reports: str | None = None

    def __post_init__(self) -> None:
        check_tokens(token=self.token, reader_token=self.reader_token)
        if self.token is not None and self.token == self.reader_token:
            raise ConfigurationError("reader_token: it is the same as console.token")
        above(0, session_lifetime=self.session_lifetime, session_idle=self.session_idle)
        above(0, refresh=self.refresh, timeout=self.timeout)
        try:
            ZoneInfo(self.time_zone)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ConfigurationError(f"time_zone: there is no time zone {self.time_zone!r}") from error


def check_tokens(**tokens: str | None) -> None:
    """Check tokens by the names of their settings.

    :raises ConfigurationError: one could be guessed, or cannot be shown in a header; the text does not have it.
    """
    for name, token in tokens.items():
        if token is not None and len(token) < MIN_TOKEN:
            raise ConfigurationError(f"{name}: it is shorter than {MIN_TOKEN} characters")
        # What shows it may not have them: headers have no line breaks, and blanks at the ends are cut off.
        if token is not None and (token != token.strip() or not token.isprintable()):
            raise ConfigurationError(f"{name}: it has a blank at an end, or a line break or control character")
