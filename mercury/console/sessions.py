"""Sessions in signed cookies, and the CSRF tokens of their forms.

A cookie holds the session itself and a signature by a key that only the console's processes have. So several processes
behind one address share sessions without a table for them, if they have the same key (`key_of`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from dataclasses import dataclass, replace

from mercury.console.users import ConsoleRole, ConsoleUser

#: Seconds after which a used session is written anew, so that its idle time begins again.
RENEWAL = 60.0
#: Characters of a cookie that are read.
MAX_COOKIE = 2048
#: The cost of deriving the key from the tokens (scrypt): a stolen cookie is no cheap way to guess a token.
COST, BLOCK, PARALLEL = 2**14, 8, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A browser's session. Times are seconds since the epoch."""

    #: Random; the CSRF token of the session's forms is derived from it.
    id: str
    #: ``None`` = not logged in by a token.
    user: ConsoleUser | None = None
    started: float
    seen: float


def key_of(token: str | None, reader_token: str | None, random: bytes) -> bytes:
    """The key of sessions, derived from the console's tokens if operators have one.

    Processes with the same tokens share sessions, and a new token ends all of them. From the token of readers alone a
    reader could derive the key too, and write the session of an operator: each process then has a key of its own.

    :param random: the process's own key.
    """
    if token is None:
        return hashlib.sha256(random).digest()
    known = f"{token}\0{reader_token or ''}"
    return hashlib.scrypt(known.encode(), salt=b"mercury console", n=COST, r=BLOCK, p=PARALLEL, dklen=32)


class Sessions:
    """Reads and writes session cookies.

    :param key: the secret key.
    :param lifetime: seconds that a session lasts at most.
    :param idle: seconds that a session lasts without a request.
    """

    def __init__(self, key: bytes, lifetime: float, idle: float) -> None:
        self._key = key
        self._lifetime = lifetime
        self._idle = idle
        #: Sessions that were logged out here, with the end of their lifetime; cookies of them are not accepted.
        self._ended: dict[str, float] = {}
        #: The name of the cookie: browsers send the cookies of one port to all ports of a host.
        self.cookie = f"mercury_console_{self._sign(b'name', b'')[:8]}"

    def write(self, session: Session) -> str:
        """The value of a session's cookie."""
        user = session.user
        shown = {"id": session.id, "started": session.started, "seen": session.seen}
        if user is not None:
            shown |= {"name": user.name, "role": user.role.value}
        body = base64.urlsafe_b64encode(json.dumps(shown).encode())
        return f"{body.decode()}.{self._sign(b'session', body)}"

    def read(self, cookie: str, now: float) -> Session | None:
        """The session of a cookie; ``None`` = it is not one of these sessions, has expired, or has ended."""
        body, _, signature = cookie.partition(".")
        if len(cookie) > MAX_COOKIE or not self._matches(self._sign(b"session", body.encode()), signature):
            return None
        try:
            shown = json.loads(base64.urlsafe_b64decode(body))
            user = ConsoleUser(shown["name"], ConsoleRole(shown["role"])) if "role" in shown else None
            session = Session(id=shown["id"], user=user, started=shown["started"], seen=shown["seen"])
        except (binascii.Error, ValueError, LookupError, TypeError):
            return None
        expired = now >= session.started + self._lifetime or now >= session.seen + self._idle
        return None if expired or session.id in self._ended else session

    def renewed(self, session: Session, now: float) -> Session | None:
        """The session as it is to be written after a request; ``None`` = its cookie is recent enough."""
        return replace(session, seen=now) if now >= session.seen + min(RENEWAL, self._idle / 4) else None

    def end(self, session: Session, now: float) -> None:
        """Log out: this process accepts the session's cookies no more.

        A session without a user is not remembered: its cookies let no client in, and every visitor can make many.
        """
        if session.user is None:
            return
        self._ended = {each: until for each, until in self._ended.items() if until > now}
        self._ended[session.id] = session.started + self._lifetime

    def form_token(self, session: Session) -> str:
        """The CSRF token of the session's forms."""
        return self._sign(b"form", session.id.encode())

    def owns_form(self, session: Session, token: str) -> bool:
        """Whether a form was made for the session."""
        return self._matches(self.form_token(session), token)

    def sign_note(self, session: Session, text: str) -> str:
        """The signature of a text that the browser shows once after an action."""
        return self._sign(b"note", f"{session.id}\0{text}".encode())

    def owns_note(self, session: Session, text: str, signature: str) -> bool:
        """Whether a text to show was signed for the session."""
        return self._matches(self.sign_note(session, text), signature)

    def _sign(self, purpose: bytes, data: bytes) -> str:
        return hmac.new(self._key, purpose + b"\0" + data, hashlib.sha256).hexdigest()

    @staticmethod
    def _matches(known: str, given: str) -> bool:
        return hmac.compare_digest(known.encode(), given.encode("utf-8", "surrogatepass"))
