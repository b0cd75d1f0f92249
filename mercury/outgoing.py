"""The part of `Mercury` that sends: senders, typed calls and transactions."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import overload

from mercury.client import asynchronous
from mercury.client.asynchronous import AsyncTransaction
from mercury.client.channels import channel_to
from mercury.client.sender import Sender
from mercury.client.sender_port import SenderPort
from mercury.contract import C, at
from mercury.engine.runtime.peers import Peers
from mercury.service.definition import DEFAULT_NAMESPACE
from mercury.service.paths import RESPONSES
from mercury.settings import Settings
from mercury.statemachine.policy import SourcePolicy
from mercury.storage.api import StorageManager
from mercury.storage.application import Transaction
from mercury.storage.joining import AsyncWork, Work


class Outgoing:
    """The part of `Mercury` that sends."""

    settings: Settings
    store: StorageManager
    peers: Peers

    def surroundings(self) -> SenderPort:
        """What senders need of the process."""
        raise NotImplementedError

    @overload
    def to(
        self,
        url: str,
        *,
        key: str = "default",
        namespace: str = DEFAULT_NAMESPACE,
        policy: SourcePolicy | None = None,
        listen: bool | None = None,
    ) -> Sender: ...

    @overload
    def to(
        self,
        url: str,
        *,
        service: C,
        key: str = "default",
        policy: SourcePolicy | None = None,
        listen: bool | None = None,
    ) -> C: ...

    def to(
        self,
        url: str,
        *,
        service: C | None = None,
        key: str = "default",
        namespace: str = DEFAULT_NAMESPACE,
        policy: SourcePolicy | None = None,
        listen: bool | None = None,
    ) -> Sender | C:
        """A sender for an endpoint, or the typed calls of the service that is there.

        :param url: the endpoint's ``http(s)`` URL.
        :param service: the `Contract` of the service: its operations are called on what is returned.
        :param key: the internal key: messages with the same URL and key share a sequence. 512 bytes of UTF-8 at most.
        :param namespace: of bodies and actions that are made from dataclasses; with ``service`` it is the service's.
        :param policy: protocol versions, retransmission, window and so on; left out, the settings'.
        :param listen: whether acknowledgements and responses are posted to this process's ``address``; left out,
            they are if it has one.
        :raises ConfigurationError: the URL or the key is none or too long, the versions do not agree, or no address.
        """
        address = self.settings.address
        channel = channel_to(
            url,
            key,
            policy or self.settings.source,
            listen=listen,
            responses=None if address is None else f"{address}{RESPONSES}",
            identity=self.peers.find(url).peer.identity,
        )
        sender = Sender(self.surroundings(), channel, namespace if service is None else service.namespace)
        return sender if service is None else at(service, sender)

    def transaction(self, work: Work | None = None) -> AbstractContextManager[Transaction]:
        """One unit of work: everything sent with it is stored together when it is left normally, else nothing.

        :param work: a SQLAlchemy ``Session`` or ``Connection`` on the store's own database, in a transaction of the
            application's: then that one commits both, and leaving the block does nothing.
        :raises CapabilityError: ``work`` cannot be joined; nothing was written.
        """
        return self.store.transaction() if work is None else self.store.join(work)

    def atransaction(self, work: AsyncWork | None = None) -> AsyncTransaction:
        """One unit of work of an event loop: ``async with mercury.atransaction() as tx``. Its steps run in a thread.

        :param work: an ``AsyncSession`` or ``AsyncConnection`` of SQLAlchemy's on the store's own database, in a
            transaction of the application's: its commit commits both, and leaving the block does nothing.
        :raises CapabilityError: ``work`` cannot be joined; nothing was written.
        """
        return asynchronous.begin(self.store, work)
