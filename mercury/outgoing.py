"""The part of `Mercury` that sends: senders, typed calls and transactions."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast, overload

from mercury.client import asynchronous
from mercury.client.asynchronous import AsyncTransaction
from mercury.client.channels import channel_to
from mercury.client.current import CurrentTransaction
from mercury.client.sender import Sender
from mercury.client.sender_port import SenderPort
from mercury.client.zeep.calls import Calls
from mercury.contract import C, at
from mercury.engine.failover_uri import is_failover
from mercury.engine.runtime.peers import Peers
from mercury.errors import ConfigurationError
from mercury.security.settings import MessageSecurity
from mercury.service.definition import DEFAULT_NAMESPACE
from mercury.service.paths import responses_url
from mercury.settings import Settings
from mercury.statemachine.policy import SourcePolicy
from mercury.storage import api
from mercury.storage.application import Transaction
from mercury.storage.joining import AsyncWork, Work

if TYPE_CHECKING:
    from mercury.client.zeep.public import AsyncZeepTransport, ZeepTransport

#: Seconds that a call of zeep's waits for its response.
OPERATION_TIMEOUT = 60.0


class Outgoing:
    """The part of `Mercury` that sends."""

    settings: Settings
    store: api.StorageManager
    peers: Peers
    current: CurrentTransaction

    def surroundings(self) -> SenderPort:
        """What senders need of the process."""
        raise NotImplementedError

    def send_in(self, tx: api.Transaction) -> None:
        """Send in a transaction of the application, about to be committed, what can leave at once."""
        raise NotImplementedError

    def security_of(self, url: str) -> MessageSecurity | None:
        """WS-Security of the messages to an endpoint; ``None`` = they have none."""
        return self.peers.find(url).peer.security

    @overload
    def to(
        self,
        url: str,
        *,
        key: str = "default",
        namespace: str = DEFAULT_NAMESPACE,
        policy: SourcePolicy | None = None,
        listen: bool | None = None,
        wsa_to: str | None = None,
        priority: int = 0,
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
        wsa_to: str | None = None,
        priority: int = 0,
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
        wsa_to: str | None = None,
        priority: int = 0,
    ) -> Sender | C:
        """A sender for an endpoint, or the typed calls of the service that is there.

        :param url: the endpoint's ``http(s)`` URL; or several that lead to one store, as
            ``failover:(http://a/path,http://b/path)?option=value``; or ``failover:NAME`` of the settings; or
            ``discovery:(registry:URL)``, whose addresses are looked up.
        :param service: the `Contract` of the service: its operations are called on what is returned.
        :param key: the internal key: messages with the same URL and key share a sequence. 512 bytes of UTF-8 at most.
        :param namespace: of bodies and actions that are made from dataclasses; with ``service`` it is the service's.
        :param policy: protocol versions, retransmission, window and so on; left out, the settings'.
        :param listen: whether acknowledgements and responses are posted to this process's ``address``; left out,
            they are if it has one. Where they are not, and the policy says ``make_connection``, they are fetched.
        :param wsa_to: wsa:To of all messages, where it differs from the URL: behind a gateway, for example. A sequence
            has one: what goes elsewhere by the same URL needs another key. Left out, the URL.
        :param priority: 0 to 9. Among keys that are due, those with a higher one are worked on first; one step counts
            like 10 seconds of waiting, so that none waits for ever. A sequence keeps the one that it began with.
        :raises ConfigurationError: the URL or the key is none or too long, the versions do not agree, or no address.
        """
        surroundings = self.surroundings()
        if is_failover(url):
            url = self.peers.add(url)
        channel = channel_to(
            url,
            key,
            policy or self.settings.source,
            listen=listen,
            responses=responses_url(self.settings.address),
            identity=self.peers.find(url).peer.identity,
            wsa_to=wsa_to,
            priority=priority,
            new_id=surroundings.ids.new,
        )
        sender = Sender(surroundings, channel, namespace if service is None else service.namespace)
        return sender if service is None else at(service, sender)

    def zeep_transport(
        self,
        *,
        key: str = "default",
        policy: SourcePolicy | None = None,
        listen: bool | None = None,
        reliable: bool | None = None,
        operation_timeout: float | None = OPERATION_TIMEOUT,
        **options: Any,
    ) -> ZeepTransport:
        """What makes a zeep client reliable: ``zeep.Client(wsdl, transport=mercury.zeep_transport())``.

        The SOAP version is that of the client's binding. Parameters that are not here are those of `to`.

        :param reliable: whether calls are made reliable; left out, they are where the WSDL's policy asks for it, and
            where it has no policy.
        :param operation_timeout: seconds that a call waits for its response; ``None`` = as long as it takes.
        :param options: of ``zeep.Transport``, for loading documents and for calls that are not made reliable:
            ``cache``, ``timeout``, ``session``.
        :raises ConfigurationError: zeep is not installed.
        """
        transports = _zeep("zeep")
        made = self._calls(key, policy, listen, reliable)
        return cast("ZeepTransport", transports.ReliableTransport(made, operation_timeout, **options))

    def azeep_transport(
        self,
        *,
        key: str = "default",
        policy: SourcePolicy | None = None,
        listen: bool | None = None,
        reliable: bool | None = None,
        operation_timeout: float | None = OPERATION_TIMEOUT,
        **options: Any,
    ) -> AsyncZeepTransport:
        """The same for an event loop: ``zeep.AsyncClient(wsdl, transport=mercury.azeep_transport())``.

        Other parameters and errors are those of `zeep_transport`.

        :param options: of ``zeep.transports.AsyncTransport``: ``client``, ``wsdl_client``, ``cache``, ``timeout``,
            ``verify_ssl``, ``proxy``.
        """
        transports = _zeep("zeep", "httpx")
        made = self._calls(key, policy, listen, reliable)
        return cast("AsyncZeepTransport", transports.ReliableAsyncTransport(made, operation_timeout, **options))

    def _calls(self, key: str, policy: SourcePolicy | None, listen: bool | None, reliable: bool | None) -> Calls:
        return Calls(
            self.surroundings(),
            self.current,
            self.to,
            key=key,
            policy=policy or self.settings.source,
            listen=listen,
            reliable=reliable,
        )

    def transaction(self, work: Work | None = None) -> AbstractContextManager[Transaction]:
        """One unit of work: everything sent with it is stored together when it is left normally, else nothing.

        :param work: a SQLAlchemy ``Session`` or ``Connection`` on the store's own database, in a transaction of the
            application's: then that one commits both, and leaving the block does nothing.
        :raises CapabilityError: ``work`` cannot be joined; nothing was written.
        """
        return self.current.block(self.store.transaction(self.send_in) if work is None else self.store.join(work))

    def atransaction(self, work: AsyncWork | None = None) -> AsyncTransaction:
        """One unit of work of an event loop: ``async with mercury.atransaction() as tx``. Its steps run in a thread.

        :param work: an ``AsyncSession`` or ``AsyncConnection`` of SQLAlchemy's on the store's own database, in a
            transaction of the application's: its commit commits both, and leaving the block does nothing.
        :raises CapabilityError: ``work`` cannot be joined; nothing was written.
        """
        return asynchronous.begin(self.store, work, self.current, self.send_in)


def _zeep(*needed: str) -> Any:
    """The module with the transports.

    :raises ConfigurationError: something that it needs is not installed.
    """
    try:
        for name in needed:
            import_module(name)
        return import_module("mercury.client.zeep.transport")
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"{error.name} is missing: pip install 'mercury-rm[zeep]'") from error
