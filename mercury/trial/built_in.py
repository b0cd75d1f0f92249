"""The built-in deployments: tables of programs that run Mercury, each with a database of its own on both sides."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from mercury.trial.databases import STANDBY
from mercury.trial.faults import Fault
from mercury.trial.scenario import EMBEDDED, Compared, Content, LinkTo, Members, Program, Scenario
from mercury.trial.steps import MERCURY_STEPS, PAIR_STEPS, RELAY_STEPS, STAGE_STEPS


class Deployment(enum.Enum):
    """The kind of a deployment; ``programs`` = the scenario's own."""

    #: One client, one server.
    PLAIN = "plain"
    #: Two members on each side with the role active-standby.
    PAIR = "pair"
    #: Two members on each side with the role active-active.
    FLEET = "fleet"
    #: One client, one server; their databases are on a PostgreSQL with a synchronous standby.
    STANDBY = "standby"
    #: One client, two relays with the role active-standby, one server.
    RELAY = "relay"
    #: One client, and one server with a stage in front of its store.
    STAGE = "stage"
    PROGRAMS = "programs"


CONTENTS = (
    Content(name="text"),
    Content(name="unicode", kind="unicode", size=2_000),
    Content(name="binary", kind="binary", size=5_000),
    Content(name="record", kind="record"),
    Content(name="text 60 kB", size=60_000),
    Content(name="expiry before the fault ends", expires_in=0.5),
    Content(name="expiry after the fault ends", expires_in=60.0),
    Content(name="answered", answered=True),
    Content(name="large text", size=400_000, large=True),
    Content(name="large attachment", kind="attachment", size=1_000_000, large=True),
)
#: What a relay or a stage takes: no answers; and a stage no content in pieces.
ONE_WAY = tuple(each for each in CONTENTS if not each.answered)
WHOLE = tuple(each for each in ONE_WAY if each.kind != "attachment")
#: Short times, because each branch waits for them.
_SETTINGS = {
    "MERCURY_RUNTIME_POLL": "0.5",
    "MERCURY_HTTP_SHUTDOWN_DEADLINE": "2",
    "MERCURY_SOURCE_RETRANSMISSION_BASE": "0.2",
    "MERCURY_SOURCE_RETRANSMISSION_CAP": "0.4",
    "MERCURY_DESTINATION_REDELIVERY_BASE": "0.1",
    "MERCURY_DESTINATION_REDELIVERY_CAP": "0.5",
    "MERCURY_ENGINE_LIMITS_MAX_BYTES_WITH_ATTACHMENTS": str(128 * 1024 * 1024),
    "MERCURY_LOG_LEVEL": "INFO",
}
#: What is tried on every deployment.
_FAULTS = tuple(fault for fault in Fault if fault not in {*STANDBY, Fault.DISK_FULL, Fault.COMMAND})


def scenario(kind: Deployment, lease: float = 1.0) -> Scenario:
    """The scenario of a built-in deployment.

    :param lease: seconds after which a member that is gone is replaced.
    """
    match kind:
        case Deployment.PLAIN:
            return _scenario(kind, lease, "a")
        case Deployment.PAIR:
            return replace(
                _scenario(kind, lease, "ab", role="active-standby"),
                single=True,
                members_table=Members(database="server", table="trial_members"),
                steps=PAIR_STEPS,
            )
        case Deployment.STANDBY:
            without = {Fault.DATABASE_STOP, Fault.DATABASE_KILL}
            faults = tuple(each for each in (*_FAULTS, *sorted(STANDBY, key=_place)) if each not in without)
            return replace(_scenario(kind, lease, "a"), standby=True, faults=faults)
        case Deployment.RELAY:
            return _relay(lease)
        case Deployment.STAGE:
            return _stage(lease)
        case _:
            return _scenario(kind, lease, "ab")


def _scenario(kind: Deployment, lease: float, names: Sequence[str], role: str = "active-active") -> Scenario:
    """Members of these names on both sides."""
    members = [_member(side, name, lease, role) for side in ("client", "server") for name in names]
    return Scenario(
        name=kind.value,
        programs=tuple(members),
        links=(
            LinkTo(name="there", side="server", sender="client"),
            LinkTo(name="back", side="client", sender="server"),
            LinkTo(name="client-db", sender="client"),
            LinkTo(name="server-db", sender="server"),
        ),
        sent=Compared(database="client", table="trial_outgoing", describes=True),
        arrived=Compared(database="server", table="trial_incoming", arrival="arrival", at="received_at"),
        answers=Compared(database="client", table="trial_answers", arrival="arrival", at="received_at"),
        databases=MappingProxyType({"client": EMBEDDED, "server": EMBEDDED}),
        steps=MERCURY_STEPS,
        faults=_FAULTS,
        contents=CONTENTS,
        lease=lease,
        limit=lease + 2,
    )


def _relay(lease: float) -> Scenario:
    plain = _scenario(Deployment.RELAY, lease, "a")
    command = ("relay", "--listen", "127.0.0.1:{port}", "--to", "{link.onward}/services/trial")
    relays = [
        Program(
            name=f"relay-{name}",
            side="relay",
            command=command,
            environment=MappingProxyType(relay_environment(lease)),
            probe="/readyz",
            forks=True,
        )
        for name in "ab"
    ]
    client, server = plain.programs
    return replace(
        plain,
        programs=(client, *relays, server),
        links=(
            LinkTo(name="there", side="relay", sender="client"),
            LinkTo(name="onward", side="server", sender="relay"),
            LinkTo(name="back", side="client", sender="server"),
            *(LinkTo(name=f"{side}-db", sender=side) for side in ("client", "relay", "server")),
        ),
        answers=None,
        databases=MappingProxyType({"client": EMBEDDED, "relay": EMBEDDED, "server": EMBEDDED}),
        emptied=("relay",),
        steps=RELAY_STEPS,
        contents=ONE_WAY,
        single=True,
    )


def relay_environment(lease: float) -> dict[str, str]:
    """The settings of a relay. Its database ends the transaction of a paused one within the lease."""
    idle = f"options=-c%20idle_in_transaction_session_timeout%3D{lease * 1000:.0f}"
    return {**_of_member("relay", lease, "active-standby"), "MERCURY_STORE": f"{{link.relay-db}}&{idle}"}


def _stage(lease: float) -> Scenario:
    plain = _scenario(Deployment.STAGE, lease, "a")
    client, server = plain.programs
    settings = {**server.environment, "MERCURY_STAGE_STORE": "sqlite:///{folder}/stage.db", "TRIAL_STAGED": "1"}
    return replace(
        plain,
        programs=(client, replace(server, environment=MappingProxyType(settings))),
        answers=None,
        faults=(*_FAULTS, Fault.DISK_FULL),
        steps=STAGE_STEPS,
        contents=WHOLE,
    )


def _member(side: str, name: str, lease: float, role: str) -> Program:
    environment = {
        **_of_member(side, lease, role),
        "MERCURY_ENGINE_ADDRESSES_ALLOWED": "{link.back}",
        "TRIAL_TARGET": "{link.there}/services/trial",
        "TRIAL_ADDRESS": "{link.back}",
        "TRIAL_IDLE_TIMEOUT": str(lease),
    }
    return Program(
        name=f"{side}-{name}",
        side=side,
        command=("serve", f"mercury.trial.programs.{side}:app", "--port", "{port}"),
        environment=MappingProxyType(environment),
        probe="/readyz",
        forks=True,
    )


def _of_member(side: str, lease: float, role: str) -> Mapping[str, str]:
    return {
        **_SETTINGS,
        # The longest time for one exchange: with a longer lease, also that of a message of 50 MB.
        "MERCURY_HTTP_TIMEOUT": str(3 * max(lease, 1.0)),
        "MERCURY_STORE": f"{{link.{side}-db}}",
        "MERCURY_ROLE": role,
        "MERCURY_ROLE_LEASE": str(lease),
        "MERCURY_ENGINE_LEASE": str(lease),
    }


def _place(fault: Fault) -> int:
    return list(Fault).index(fault)
