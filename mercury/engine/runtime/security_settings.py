"""WS-Security in the settings, for endpoints and for services, and the parties of a process."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mercury.engine.addresses import split_url
from mercury.engine.message_security import SecurityParties
from mercury.engine.registry import is_service_name
from mercury.engine.runtime.peers import Peer, Peers, is_below, key_of, place_of
from mercury.errors import ConfigurationError
from mercury.security.party import Party
from mercury.security.settings import MessageSecurity
from mercury.statemachine.bounds import above, at_least

#: The settings whose entries are ``WHERE=VALUE``, and those whose entries are ``WHERE``.
_VALUES = ("user", "users", "certificate", "key", "trusted", "encrypt_for")
_FLAGS = ("plain_password", "bind_sequences", "require_encryption")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings:
    """WS-Security of messages. Each entry begins with the URL prefix of endpoints, as for `Peers`, or with the name of
    a service of this process. Times are seconds.

    :raises ConfigurationError: an entry has not the form, or there are two of one kind for one place. The text has no
        secret.
    """

    #: The UsernameToken of requests, each entry ``URL=USER:PASSWORD``.
    user: tuple[str, ...] = field(default=(), repr=False)
    #: Files with the users of a service, a line ``USER:PASSWORD`` each; each entry ``SERVICE=FILE``.
    users: tuple[str, ...] = ()
    #: Where the password itself is sent or taken, instead of its digest; each entry ``URL`` or ``SERVICE``.
    plain_password: tuple[str, ...] = ()
    #: PEM files with the certificate of this side, and with its key if that is in another file; each entry
    #: ``URL=FILE`` or ``SERVICE=FILE``.
    certificate: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    #: PEM files with certificates of peers or of authorities: messages of the peer must be signed.
    trusted: tuple[str, ...] = ()
    #: Where CreateSequence binds its sequence to the token; each entry ``URL``.
    bind_sequences: tuple[str, ...] = ()
    #: PEM files with the certificate that the Body is encrypted for; each entry ``URL=FILE``.
    encrypt_for: tuple[str, ...] = ()
    #: Where messages of the peer must be encrypted; each entry ``URL`` or ``SERVICE``.
    require_encryption: tuple[str, ...] = ()
    #: How old a message may be, and how far the clock of the peer may be ahead.
    max_age: float = 300.0
    clock_skew: float = 60.0

    def __post_init__(self) -> None:
        above(0, max_age=self.max_age)
        at_least(0, clock_skew=self.clock_skew)
        self._by_place()

    def services(self) -> dict[str, MessageSecurity]:
        """The settings of services, by name.

        :raises ConfigurationError: they do not fit together, or a file with users cannot be read.
        """
        return {where: self._made(where, given) for where, given in self._by_place().items() if "://" not in where}

    def added_to(
        self, peers: Mapping[str, Peer], others: Peer, program: Mapping[str, Peer] | None = None
    ) -> dict[str, Peer]:
        """``peers`` with these settings. They apply to all entries at and below their URLs, because only the entry
        with the longest path counts for a message; those of a program that have their own keep them.

        :param others: applies where ``peers`` has no entry.
        :param program: the entries of the program, without those that other settings have added; by default all.
        :raises ConfigurationError: they do not fit together.
        """
        before, found = Peers(peers, others), dict(peers)
        of_program = before if program is None else Peers(program, others)
        made = {where: self._made(where, given) for where, given in self._by_place().items() if "://" in where}
        found |= {where: before.as_entry(where) for where in made if key_of(where, peers) not in peers}
        for url, peer in found.items():
            lengths = {len(place_of(where)[1]): where for where in made if is_below(url, where)}
            if not lengths:
                continue
            longest, own = max(lengths), of_program.find(url)
            # An entry of other settings has the security of the program's entry above it, which may be further away.
            if own.peer.security is None or len(own.path) < longest:
                found[url] = dataclasses.replace(peer, security=made[lengths[longest]])
        return found

    def _by_place(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        written: dict[object, str] = {}  # the first spelling of each place
        for name in (*_VALUES, *_FLAGS):
            for number, entry in enumerate(getattr(self, name), 1):
                where, separated, value = (part.strip() for part in entry.partition("="))
                if not where or bool(separated) is not (name in _VALUES) or (separated and not value):
                    form = "WHERE=VALUE" if name in _VALUES else "WHERE"
                    raise ConfigurationError(f"{name}: entry {number} is not of the form {form}")
                _check_place(name, number, where)
                where = written.setdefault(place_of(where) if "://" in where else where, where)
                of_place = found.setdefault(where, {})
                if name in of_place:
                    raise ConfigurationError(f"{name}: there are two entries for {where}")
                of_place[name] = value if name in _VALUES else True
        return found

    def _made(self, where: str, given: Mapping[str, Any]) -> MessageSecurity:
        options = dict(given)
        if "user" in options:
            user, found, password = options["user"].partition(":")
            if not found:
                raise ConfigurationError(f"user: the entry for {where} is not of the form URL=USER:PASSWORD")
            options |= {"user": user, "password": password}
        if "users" in options:
            options["users"] = read_users(options["users"])
        try:
            return MessageSecurity(**options, max_age=self.max_age, clock_skew=self.clock_skew)
        except ConfigurationError as error:
            raise ConfigurationError(f"security of {where}: {error}") from error


def _check_place(name: str, number: int, where: str) -> None:
    try:
        fits = split_url(where).username is None if "://" in where else is_service_name(where)
    except ConfigurationError:  # its text shows the URL, which may have a secret
        fits = False
    if not fits:
        raise ConfigurationError(f"{name}: entry {number} does not begin with a URL or the name of a service")


def read_users(name: str) -> dict[str, str]:
    """The passwords in a file, by user. Empty lines and lines that begin with ``#`` are ignored.

    :raises ConfigurationError: the file cannot be read, or a line has not the form ``USER:PASSWORD``.
    """
    try:
        with open(name, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(f"users: {name} cannot be read: {error}") from error
    users: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        user, found, password = line.partition(":")
        if not found or not user.strip() or not password or user in users:
            raise ConfigurationError(f"users: line {number} of {name} is not of the form USER:PASSWORD, or repeats one")
        users[user] = password
    return users


def parties_of(
    peers: Peers,
    settings: SecuritySettings,
    clock: Callable[[], float],
    new_id: Callable[[], str],
    responses: str | None,
) -> SecurityParties:
    """The parties of all peers that have WS-Security, and the settings of services.

    :param responses: the address of this side for responses; ``None`` = it has none.
    :raises ConfigurationError: a file cannot be used, or the extra ``security`` is not installed.
    """
    # One for all entries with the same settings: a message to the address for responses is checked by each party.
    secured = {each: each.peer.security for each in peers.all if each.peer.security is not None}
    parties = {each: Party(each, new_id) for each in dict.fromkeys(secured.values())}
    made = {each: parties[security] for each, security in secured.items()}
    return SecurityParties(
        clock,
        new_id,
        lambda url: made.get(peers.find(url)) if made else None,
        parties.values(),
        settings.services(),
        responses,
    )
