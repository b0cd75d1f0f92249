"""Credentials for peers in the settings, which belong to an installation and not to a program."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from mercury.engine.addresses import split_url
from mercury.engine.runtime.peers import Peer, Peers, key_of, place_of
from mercury.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialSettings:
    """What requests to peers show in the header Authorization, by URL prefixes as for `Peers`.

    :raises ConfigurationError: an entry has not the form, cannot be sent, or has the URL of another one. The text has
        no secret.
    """

    #: HTTP Basic, each entry ``URL=USER:PASSWORD``.
    basic: tuple[str, ...] = field(default=(), repr=False)
    #: Bearer tokens, each entry ``URL=TOKEN``.
    bearer: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        seen: set[object] = set()
        for name, form, entries in (
            ("basic", "URL=USER:PASSWORD", self.basic),
            ("bearer", "URL=TOKEN", self.bearer),
        ):
            for number, entry in enumerate(entries, 1):
                try:
                    url, _ = _read(name, entry)
                except (ConfigurationError, ValueError) as error:
                    reason = f": {error}" if isinstance(error, ConfigurationError) else ""
                    raise ConfigurationError(f"{name}: entry {number} is not of the form {form}{reason}") from None
                place = place_of(url)
                if place in seen:
                    raise ConfigurationError(f"{name}: there are two entries for {url}")
                seen.add(place)

    def added_to(self, peers: Mapping[str, Peer], others: Peer) -> dict[str, Peer]:
        """``peers`` with these credentials. An entry of a program for the same URL that has its own ones keeps them.

        Beside its credentials, a new entry has what applied to its URL until now: certificates, headers, identity.

        :param others: applies where ``peers`` has no entry.
        """
        if not self.basic and not self.bearer:
            return dict(peers)
        before, found = Peers(peers, others), dict(peers)
        for name, entries in (("basic", self.basic), ("bearer", self.bearer)):
            for entry in entries:
                url, shown = _read(name, entry)
                peer, same = before.as_entry(url), key_of(url, peers)
                if not (same in peers and peer.authorization is not None):
                    headers = {name: value for name, value in peer.headers.items() if name.lower() != "authorization"}
                    found[same] = dataclasses.replace(
                        peer, headers=headers, user=shown.user, password=shown.password, token=shown.token
                    )
        return found


def _read(kind: str, entry: str) -> tuple[str, Peer]:
    """The URL of an entry, and a peer that has only its credentials.

    :raises ValueError: the entry has not the form.
    :raises ConfigurationError: its credentials are wrong; the text has no secret.
    """
    url, found, secret = (part.strip() for part in entry.partition("="))
    if not found or not secret:
        raise ValueError
    try:
        has_user = split_url(url).username is not None
    except ConfigurationError:  # its text shows the URL, which may be the secret
        raise ValueError from None
    if has_user:
        raise ValueError
    if kind == "bearer":
        return url, Peer(token=secret)
    user, found, password = secret.partition(":")
    if not found:
        raise ValueError
    return url, Peer(user=user, password=password)
