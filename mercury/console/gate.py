"""Who is let in: the session of a request, its user, and the cookies of the answer."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from starlette.requests import Request
from starlette.responses import Response

from mercury.console.blocking import BlockingCalls
from mercury.console.logins import Logins
from mercury.console.requests import Refused, check_host, check_origin, described, read_form
from mercury.console.sessions import Session, Sessions, key_of
from mercury.console.settings import ConsoleSettings
from mercury.console.users import ConsoleAccess, ConsoleRole, ConsoleUser, user_of
from mercury.errors import ConfigurationError
from mercury.storage.callers import network_of

#: Characters of a note that an action leaves for the next page, and seconds that the browser keeps it.
MAX_NOTE, NOTE_SECONDS = 1000, 60


@dataclass(slots=True)
class Caller:
    """The browser behind one request."""

    session: Session
    #: ``None`` = no user is logged in.
    user: ConsoleUser | None
    #: The cookie must be written with the answer.
    write: bool = False
    #: The note that the page before has left.
    note: str = ""
    #: A note for the next page; ``None`` = as it is.
    next_note: str | None = None
    form: dict[str, list[str]] = field(default_factory=dict)


class Gate:
    """Lets users in.

    :param access: the application's own check; ``None`` = tokens.
    :param clock: seconds since the epoch.
    :param secret: returns a random text that cannot be guessed, a new one for each call.
    :raises ConfigurationError: there is neither a token nor a check.
    """

    def __init__(
        self,
        settings: ConsoleSettings,
        access: ConsoleAccess | None,
        blocking: BlockingCalls,
        clock: Callable[[], float],
        secret: Callable[[], str],
    ) -> None:
        if access is None and settings.token is None and settings.reader_token is None:
            raise ConfigurationError(
                "console.token: no user could log in: set it, or console.reader_token, or pass access= to the router"
            )
        tokens = (settings.token, settings.reader_token)
        self._settings = settings
        self._access = access
        self._blocking = blocking
        self._clock = clock
        self._secret = secret
        self.logins = Logins(*tokens)
        key = key_of(*tokens, secret().encode())
        self.sessions = Sessions(key, settings.session_lifetime, settings.session_idle)

    @property
    def by_token(self) -> bool:
        """Whether users log in by a token."""
        return self._access is None

    async def enter(self, request: Request) -> Caller:
        """The caller of a request.

        :raises Refused: the request did not mean this console, or comes from elsewhere.
        """
        headers = dict(reversed(request.headers.items()))
        check_host(headers, request.client.host if request.client is not None else None, self._settings.hosts)
        now = self._clock()
        session = self.sessions.read(request.cookies.get(self.sessions.cookie, ""), now)
        caller = Caller(session or Session(id=self._secret(), started=now, seen=now), None, write=session is None)
        access = self._access
        if access is None:
            caller.user = caller.session.user
        else:
            asked = described(request)
            caller.user = user_of(await self._blocking.run(lambda: access(asked)))
        caller.note = self._note(request, caller.session)
        return caller

    async def enter_with_form(self, request: Request) -> Caller:
        """The caller of a request that sends a form of this console.

        :raises Refused: see `enter`; or the form was made by another site, or for another session.
        """
        caller = await self.enter(request)
        check_origin(dict(reversed(request.headers.items())))
        caller.form = await read_form(request)
        if not self.sessions.owns_form(caller.session, (caller.form.get("form_token") or [""])[0]):
            raise Refused(
                403, "This form is too old, or was not made by this console; nothing was done. Load the page again."
            )
        return caller

    def log_in(self, request: Request, caller: Caller, given: str, name: str) -> bool:
        """Log in by a token or ticket, with a new session; ``False`` = it is none.

        :raises TooManyAttempts: see `Logins.check`.
        """
        now = self._clock()
        network = network_of(request.client.host if request.client is not None else "")
        user = self.logins.check(given, name, network, now)
        if user is None:
            return False
        caller.session = Session(id=self._secret(), user=user, started=now, seen=now)
        caller.user, caller.write = user, True
        return True

    def log_out(self, caller: Caller) -> None:
        """End the session."""
        now = self._clock()
        self.sessions.end(caller.session, now)
        caller.session = Session(id=self._secret(), started=now, seen=now)
        caller.user, caller.write = None, True

    def still_in(self, caller: Caller, request: Request) -> bool:
        """Whether a caller whose page stays open may go on. Blocks while the application's own check does."""
        if self._access is not None:
            return user_of(self._access(described(request))) is not None
        written = self.sessions.write(caller.session)
        return self.sessions.read(written, self._clock()) is not None

    def finish(self, request: Request, caller: Caller, response: Response) -> None:
        """Write the cookies of an answer."""
        now = self._clock()
        renewed = self.sessions.renewed(caller.session, now)
        if renewed is not None or caller.write:
            session = replace(caller.session, seen=now)
            self._set(request, response, self.sessions.cookie, self.sessions.write(session), None)
        if caller.next_note is not None:
            text = caller.next_note[:MAX_NOTE]
            body = base64.urlsafe_b64encode(text.encode("utf-8", "replace")).decode()
            sealed = f"{body}.{self.sessions.sign_note(caller.session, text)}"
            self._set(request, response, f"{self.sessions.cookie}_note", sealed, NOTE_SECONDS)
        elif caller.note:
            self._set(request, response, f"{self.sessions.cookie}_note", "", 0)

    def _set(self, request: Request, response: Response, name: str, value: str, seconds: int | None) -> None:
        """Set a cookie for the folder of the console's pages, which is the default path."""
        encrypted = "https" in (request.url.scheme, request.headers.get("x-forwarded-proto", ""))
        parts = [f"{name}={value}", "HttpOnly", "SameSite=Strict"]
        parts += [f"Max-Age={seconds}"] if seconds is not None else []
        parts += ["Secure"] if encrypted else []
        response.headers.append("set-cookie", "; ".join(parts))

    def _note(self, request: Request, session: Session) -> str:
        body, _, signature = request.cookies.get(f"{self.sessions.cookie}_note", "").partition(".")
        try:
            text = base64.urlsafe_b64decode(body).decode()
        except (binascii.Error, ValueError):
            return ""
        return text if self.sessions.owns_note(session, text, signature) else ""


def may_act(user: ConsoleUser) -> bool:
    """Whether a user may use actions."""
    return user.role is ConsoleRole.OPERATOR
