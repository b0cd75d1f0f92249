"""The built-in deployments: tables of programs that run Mercury, each with a database of its own on both sides."""

from __future__ import annotations

import enum
from types import MappingProxyType

from mercury.trial.faults import Fault
from mercury.trial.scenario import Compared, Content, LinkTo, Program, Scenario
from mercury.trial.steps import MERCURY_STEPS


class Deployment(enum.Enum):
    """The kind of a deployment; ``programs`` = the scenario's own."""

    #: One client, one server.
    PLAIN = "plain"
    #: Two members on each side with the role active-standby.
    PAIR = "pair"
    #: Two members on each side with the role active-active.
    FLEET = "fleet"
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
#: Seconds between two polls of a store by another process's work, and the longest time for one HTTP exchange.
_SETTINGS = {
    "MERCURY_RUNTIME_POLL": "0.5",
    "MERCURY_HTTP_TIMEOUT": "3",
    "MERCURY_HTTP_SHUTDOWN_DEADLINE": "2",
    "MERCURY_SOURCE_RETRANSMISSION_BASE": "0.2",
    "MERCURY_SOURCE_RETRANSMISSION_CAP": "0.4",
    "MERCURY_DESTINATION_REDELIVERY_BASE": "0.1",
    "MERCURY_DESTINATION_REDELIVERY_CAP": "0.5",
    "MERCURY_ENGINE_LIMITS_MAX_BYTES_WITH_ATTACHMENTS": str(128 * 1024 * 1024),
    "MERCURY_LOG_LEVEL": "INFO",
}


def scenario(kind: Deployment, lease: float = 1.0) -> Scenario:
    """The scenario of a built-in deployment.

    :param lease: seconds after which a member that is gone is replaced.
    """
    names = ("a",) if kind is Deployment.PLAIN else ("a", "b")
    members = [_member(kind, side, name, lease) for side in ("client", "server") for name in names]
    return Scenario(
        name=kind.value,
        programs=tuple(members),
        links=(
            LinkTo(name="there", side="server"),
            LinkTo(name="back", side="client"),
            LinkTo(name="client-db"),
            LinkTo(name="server-db"),
        ),
        sent=Compared(database="client", table="trial_outgoing", describes=True),
        arrived=Compared(database="server", table="trial_incoming", arrival="arrival", at="received_at"),
        answers=Compared(database="client", table="trial_answers", arrival="arrival", at="received_at"),
        databases=MappingProxyType({"client": "embedded", "server": "embedded"}),
        steps=MERCURY_STEPS,
        faults=tuple(fault for fault in Fault if fault is not Fault.COMMAND),
        contents=CONTENTS,
        single=kind is Deployment.PAIR,
        lease=lease,
        limit=None if kind is Deployment.PLAIN else lease + 2,
    )


def _member(kind: Deployment, side: str, name: str, lease: float) -> Program:
    role = "active-standby" if kind is Deployment.PAIR else "active-active"
    environment = {
        **_SETTINGS,
        "MERCURY_STORE": f"{{link.{side}-db}}",
        "MERCURY_ROLE": role,
        "MERCURY_ROLE_LEASE": str(lease),
        "MERCURY_ENGINE_LEASE": str(lease),
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
