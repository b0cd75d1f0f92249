"""Settings: environment variables over a TOML file over defaults.

Every setting is a field of a frozen dataclass below `Settings`. A field's name in a TOML file is its path
(``[source] window = 8``), in the environment the same path in capitals (``MERCURY_SOURCE_WINDOW=8``).
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import os
import re
import tomllib
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mercury.console.settings import ConsoleSettings, check_tokens
from mercury.engine.address_book import FailoverSettings
from mercury.engine.addresses import split_url
from mercury.engine.discovery_settings import DiscoverySettings
from mercury.engine.lateness import WatchSettings
from mercury.engine.log_settings import LogSettings
from mercury.engine.membership import MemberRole
from mercury.engine.metrics_settings import MetricsSettings
from mercury.engine.runtime.credentials import CredentialSettings
from mercury.engine.runtime.peers import TlsSettings
from mercury.engine.runtime.retention import RetentionSettings
from mercury.engine.runtime.security_settings import SecuritySettings
from mercury.engine.runtime.threads import RuntimeSettings
from mercury.engine.setting_values import from_text, from_toml
from mercury.engine.settings import EngineSettings
from mercury.engine.stage_room import StageSettings
from mercury.engine.traces_settings import TracesSettings
from mercury.errors import ConfigurationError
from mercury.masking import masked
from mercury.statemachine.bounds import above, at_least
from mercury.statemachine.policy import DestinationPolicy, SourcePolicy
from mercury.statemachine.protocol import RmVersion

#: The file that is read when it exists and none is named.
DEFAULT_FILE = "mercury.toml"

#: A file in the folder that the process is started in.
DEFAULT_STORE = "sqlite:///mercury.db"
MAX_PORT = 65535
#: What Kubernetes and Docker add to the environment of a container for each Service beside it.
_LINKS = re.compile(r"\w+_SERVICE_(HOST|PORT(_\w+)?)|\w+_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?")
_LINKED = re.compile(r"(tcp|udp|sctp)://")
_NO_SETTING = (
    "{}: {!r} is the address of a Service or container of this name and not the setting: set the setting, or keep such "
    "variables out of the container (Kubernetes: enableServiceLinks: false)"
)
#: Settings whose values are never shown.
SECRETS = frozenset(
    {
        "console.token",
        "console.reader_token",
        "http.status_token",
        "credentials.basic",
        "credentials.bearer",
        "security.user",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """The HTTP side. Times are seconds.

    :raises ConfigurationError: a number is out of range; the text begins with its name.
    """

    #: Where `mercury serve` listens.
    host: str = "127.0.0.1"
    port: int = 8000
    #: How long an exchange with a peer may take.
    timeout: float = 30.0
    #: How long the body of a request may take to arrive.
    receive_timeout: float = 30.0
    #: Bytes per second that must come of a body meanwhile, on average over the window.
    min_body_rate: int = 240
    body_rate_window: float = 5.0
    #: How long a new connection may be silent, how long the header of a request may take to arrive, and how long a
    #: connection is kept between two requests.
    first_byte_timeout: float = 10.0
    header_timeout: float = 10.0
    idle_timeout: float = 5.0
    #: Bytes of a request's URL, and of its header in all.
    max_request_line: int = 8 * 1024
    max_header_bytes: int = 64 * 1024
    #: Fields of the header of a request: each costs many times its bytes.
    max_header_fields: int = 100
    #: Connections that are taken at once, and of them from one address: an IPv4 address or an IPv6 /64 network.
    max_connections: int = 512
    max_connections_per_address: int = 320
    #: Bytes of the bodies of all requests that are being received or wait for their answer; the first 64 KiB of each
    #: do not count, so that large messages do not keep small ones out.
    max_receiving_bytes: int = 64 * 1024 * 1024
    #: Bytes of the answers above 64 KiB that have not been read yet; above it a request is answered with 202 alone.
    max_sending_bytes: int = 64 * 1024 * 1024
    #: How long an exchange is held open for its response when the client does not listen and fetches a late response:
    #: it is Mercury, or it uses MakeConnection.
    back_channel_wait: float = 2.0
    #: The same for other clients without a listener, which may take a response on its request's connection only.
    response_wait: float = 300.0
    #: The token that a request for the status of sequences must show, as ``Authorization: Bearer TOKEN``: then every
    #: address gets it, whole. Without it, only this machine gets it, with masked identifiers. A proxy on this
    #: machine that adds no header is taken for it: behind a proxy, set the token.
    status_token: str | None = None
    #: How long an orderly stop may take.
    shutdown_deadline: float = 10.0

    def __post_init__(self) -> None:
        check_tokens(status_token=self.status_token)
        if not self.host.strip():
            raise ConfigurationError("host: it is empty; 0.0.0.0 stands for every interface")
        if not 0 <= self.port <= MAX_PORT:
            raise ConfigurationError(f"port: {self.port} is not between 0 and {MAX_PORT}")
        above(0, timeout=self.timeout, receive_timeout=self.receive_timeout, idle_timeout=self.idle_timeout)
        above(0, first_byte_timeout=self.first_byte_timeout, header_timeout=self.header_timeout)
        above(0, body_rate_window=self.body_rate_window)
        at_least(0, min_body_rate=self.min_body_rate)
        at_least(64, max_request_line=self.max_request_line, max_header_bytes=self.max_header_bytes)
        at_least(8, max_header_fields=self.max_header_fields)
        at_least(1, max_connections=self.max_connections, max_receiving_bytes=self.max_receiving_bytes)
        at_least(1, max_connections_per_address=self.max_connections_per_address)
        at_least(1, max_sending_bytes=self.max_sending_bytes)
        at_least(0, back_channel_wait=self.back_channel_wait, response_wait=self.response_wait)
        at_least(0, shutdown_deadline=self.shutdown_deadline)


@dataclass(frozen=True, slots=True, kw_only=True)
class XaSettings:
    """Two-phase commit with the databases that are named in ``Mercury(..., resources={...})``. Times are seconds.

    :raises ConfigurationError: a number is out of range; the text begins with its name.
    """

    #: The URL of a database that keeps the decisions: then the store is prepared like the others. Without it, the
    #: store keeps them, and commits in one phase after the others are prepared.
    decision_log: str | None = None
    #: The databases that take part, each as ``NAME=URL``, where ``Mercury(..., resources={...})`` is left out; the
    #: commands of an operator know them by this.
    resources: tuple[str, ...] = ()
    #: How long a process is believed to live without a sign of it: then what it had not decided is rolled back.
    lease: float = 5.0
    #: Seconds between two runs of recovery.
    interval: float = 1.0

    def __post_init__(self) -> None:
        above(0, lease=self.lease, interval=self.interval)
        if len(self.named()) < len(self.resources):
            raise ConfigurationError("resources: a name stands there twice")

    def named(self) -> dict[str, str]:
        """The URLs of the databases that take part, by their names.

        :raises ConfigurationError: one is not of the form NAME=URL.
        """
        named = {}
        for each in self.resources:
            name, _, url = each.partition("=")
            if not name.strip() or not url.strip():
                raise ConfigurationError(f"resources: {masked(each)!r} is not of the form NAME=URL")
            named[name.strip()] = url.strip()
        return named


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set, with its default."""

    #: The store's URL: ``sqlite:///FILE``, ``postgresql+psycopg://...``, or ``memory:``, which ends with the process.
    store: str = DEFAULT_STORE
    #: Seconds that `Mercury()` waits for a database that does not answer, as while it starts; 0 = it does not.
    store_wait: float = 30.0
    #: Where peers reach this process, as ``http://host:port``; without it, nothing is ever posted here, and
    #: acknowledgements and responses come back on the connections of requests.
    address: str | None = None
    #: Whether every process on the store serves (``active-active``), or one of them while the others wait to take over
    #: (``active-standby``). All processes on a store have the same role.
    role: MemberRole = MemberRole.ACTIVE_ACTIVE
    #: Seconds for which the active member counts as running without a sign of life; then a standby takes over.
    role_lease: float = 5.0
    stage: StageSettings = field(default_factory=StageSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)
    runtime: RuntimeSettings = field(default_factory=RuntimeSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    tls: TlsSettings = field(default_factory=TlsSettings)
    credentials: CredentialSettings = field(default_factory=CredentialSettings)
    security: SecuritySettings = field(default_factory=SecuritySettings)
    #: For sequences to other endpoints, unless the application says otherwise.
    source: SourcePolicy = field(default_factory=SourcePolicy)
    #: For sequences at services that have no policy of their own.
    destination: DestinationPolicy = field(default_factory=DestinationPolicy)
    failover: FailoverSettings = field(default_factory=FailoverSettings)
    discovery: DiscoverySettings = field(default_factory=DiscoverySettings)
    xa: XaSettings = field(default_factory=XaSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    watch: WatchSettings = field(default_factory=WatchSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    traces: TracesSettings = field(default_factory=TracesSettings)
    log: LogSettings = field(default_factory=LogSettings)
    console: ConsoleSettings = field(default_factory=ConsoleSettings)

    def __post_init__(self) -> None:
        at_least(0, store_wait=self.store_wait)
        above(0, role_lease=self.role_lease)
        if self.discovery.announces is not None and self.failover.public_address is None:
            raise ConfigurationError(f"discovery.{self.discovery.announces}: it needs failover.public_address")
        if self.discovery.announces is not None and self.stage.store is not None:
            raise ConfigurationError(f"discovery.{self.discovery.announces}: sequences behind a stage have one process")


@dataclass(frozen=True, slots=True)
class Setting:
    """One effective setting."""

    path: str
    value: object
    #: ``default``, the file's name, or the variable's name.
    origin: str

    @property
    def shown(self) -> str:
        """The value for people: passwords in URLs, and secrets, are masked."""
        if self.value in (None, ()):
            return ""
        if self.path in SECRETS:
            return "***"
        if isinstance(self.value, enum.Enum):
            return str(self.value.value)
        if isinstance(self.value, tuple):
            return ", ".join(masked(str(item)) for item in self.value)
        return masked(str(self.value))


def store_name(url: str) -> str:
    """A store's URL for people: without passwords, and a file with its whole path."""
    scheme, found, path = url.partition("///")
    return f"{scheme}///{Path(path).absolute()}" if found and scheme.startswith("sqlite") else masked(url)


def store_in_use(asked: object, setting: str) -> str:
    """Which store a process uses: it may be another one than the settings say, or a file in some folder.

    :param asked: the URL that the program gives, or an open store; ``None`` = it gives none.
    """
    name = store_name(setting if asked is None else asked) if isinstance(asked, str | None) else "of the program"
    if asked is None or setting in (asked, DEFAULT_STORE):
        return name
    return f"{name}, as the program says; the setting store = {masked(setting)} is not used"


def variable(path: str) -> str:
    """The environment variable of a setting."""
    return "MERCURY_" + path.upper().replace(".", "_")


def load(file: Path | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """The effective settings. See `explain` for the parameters and errors."""
    settings: Settings = _build(Settings, {each.path: each.value for each in explain(file, environment)}, "")
    return settings


def explain(file: Path | None = None, environment: Mapping[str, str] | None = None) -> list[Setting]:
    """The effective settings one by one, each with where it comes from.

    :param file: a TOML file; left out, the one that ``MERCURY_CONFIG`` names, or ``mercury.toml`` if it is there.
    :param environment: left out, the process's.
    :raises ConfigurationError: the file or a variable cannot be read, is of the wrong type, or sets what there is
        not; the text names it and says what is wanted.
    """
    environment = os.environ if environment is None else environment
    read_from, values = _read_file(file, environment)
    leaves = dict(_leaves(Settings(), ""))
    unknown = sorted(set(values) - set(leaves))
    if unknown:
        raise ConfigurationError(f"{read_from}: there is no setting {unknown[0]!r}{_nearest(unknown[0], leaves)}")
    known = {variable(path) for path in leaves} | {"MERCURY_CONFIG"}
    strange = sorted(name for name in environment if name.startswith("MERCURY_") and name not in known)
    for name in strange:
        if _is_link(name, environment[name]):
            continue
        # Other variables of this prefix belong to other tools of ours, or are mistakes: only the latter resemble.
        guess = _nearest(name, dict.fromkeys(sorted(known)))
        if guess:
            raise ConfigurationError(f"there is no setting {name}{guess}")
    settings = []
    for path, (kind, default) in leaves.items():
        value, origin = default, "default"
        name = variable(path)
        if name in environment and _is_link(name, environment[name]):
            raise ConfigurationError(_NO_SETTING.format(name, environment[name]))
        if name in environment:
            value, origin = from_text(environment[name], kind, name), name
        elif path in values:
            where = f"{read_from}: {path}"
            value, origin = from_toml(values[path], kind, where, secret=path in SECRETS), read_from
        if path in (*SECRETS, "store") and isinstance(value, str):  # a store's URL may have a password
            value = value.strip()  # `echo TOKEN | base64`, as secrets are often made, has a line break
        if path == "address" and isinstance(value, str):
            value = check_address(value, origin)
        settings.append(Setting(path, value, origin))
    _check(settings)
    return settings


def _is_link(name: str, value: str) -> bool:
    """Whether a variable tells where a Service named ``mercury...`` is, and sets nothing."""
    return bool(_LINKS.fullmatch(name) or (name.endswith("_PORT") and _LINKED.match(value)))


# --- the fields ----------------------------------------------------------------------------------------------------


def _leaves(defaults: Any, prefix: str) -> Iterator[tuple[str, tuple[Any, object]]]:
    """Every field below a dataclass object that is not one itself: its path, type and default."""
    hints = typing.get_type_hints(type(defaults))
    for each in dataclasses.fields(defaults):
        value, path = getattr(defaults, each.name), prefix + each.name
        if dataclasses.is_dataclass(value):
            yield from _leaves(value, path + ".")
        else:
            yield path, (hints[each.name], value)


def _check(settings: list[Setting]) -> None:
    """Whether everything that is set can be used together.

    :raises ConfigurationError: it cannot; the text names the setting, and where it was set.
    """
    try:
        built: Settings = _build(Settings, {each.path: each.value for each in settings}, "")
        if not built.source.protocol.legal:
            raise ConfigurationError(f"source.protocol: these versions cannot be combined: {built.source.protocol}")
        if built.source.make_connection and built.source.protocol.rm is not RmVersion.RM11:
            raise ConfigurationError("source.make_connection: it needs WS-RM 1.1")
    except ConfigurationError as error:
        path = str(error).partition(":")[0]
        origins = {each.origin for each in settings if each.path == path} - {"default"}
        raise ConfigurationError(f"{error} (set by {origins.pop()})" if origins else str(error)) from error


def _build(cls: type[Any], values: Mapping[str, object], prefix: str) -> Any:
    hints = typing.get_type_hints(cls)
    arguments: dict[str, object] = {}
    for each in dataclasses.fields(cls):
        kind, path = hints[each.name], prefix + each.name
        nested = dataclasses.is_dataclass(kind) and isinstance(kind, type)
        arguments[each.name] = _build(kind, values, path + ".") if nested else values[path]
    try:
        return cls(**arguments)
    except ConfigurationError as error:
        raise ConfigurationError(f"{prefix}{error}") from error


def _nearest(name: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, list(known), 1, 0.8)
    return f" (did you mean {near[0]!r}?)" if near else ""


# --- the file ------------------------------------------------------------------------------------------------------


def _read_file(file: Path | None, environment: Mapping[str, str]) -> tuple[str, dict[str, object]]:
    if file is None:
        named = environment.get("MERCURY_CONFIG")
        file = Path(named) if named else Path(DEFAULT_FILE)
        if not named and not file.exists():
            return "", {}
    try:
        with file.open("rb") as stream:
            return str(file), dict(_flat(tomllib.load(stream), ""))
    except OSError as error:
        raise ConfigurationError(f"the settings file {file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} is not TOML: {error}") from error


def _flat(table: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def check_address(address: str, where: str = "address") -> str:
    """A settings' ``address`` without a trailing slash.

    :param where: where it was set, for the text of the error.
    :raises ConfigurationError: it is not ``http://host:port``.
    """
    try:
        parts = split_url(address)
    except ConfigurationError:
        parts = None
    if parts is None or parts.username is not None or parts.query or parts.fragment:
        name = "address" if where == "address" else f"{where}: address"
        raise ConfigurationError(f"{name}: {masked(address)!r} is not of the form http://host:port")
    return address.rstrip("/")
