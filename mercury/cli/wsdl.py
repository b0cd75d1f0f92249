"""`mercury wsdl`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from mercury.cli.config import ConfigFile
from mercury.cli.output import FAILED, UNUSABLE, Format, Output, console, fail, notes, show, show_table
from mercury.texts import printable

if TYPE_CHECKING:
    from mercury.service.publishing import Documents
    from mercury.settings import Settings
    from mercury.statemachine.policy import SourcePolicy
    from mercury.wsdl.policy import Alternative, Reliability, Requirements

app = typer.Typer(help="Show the requirements of a WSDL, or print the WSDL of a service.", no_args_is_help=True)


@app.command("show")
def show_wsdl(
    source: Annotated[str, typer.Argument(metavar="URL_OR_FILE", help="A WSDL 1.1, or a policy alone.")],
    allow: Annotated[
        list[str] | None, typer.Option(help="A URL or folder that imports may be read from too (repeatable).")
    ] = None,
    config: ConfigFile = None,
    output: Output = Format.TEXT,
) -> None:
    """Show the requirements of each port of a WSDL, and the settings for sending to it.

    Imports are read from the same server, or from the same folder and below, and from what --allow names. Exit code 1:
    every port requires a feature that Mercury does not support.
    """
    from mercury.cli.documents import fetch_all
    from mercury.settings import load
    from mercury.wsdl.policy import imports, read

    settings = load(config)
    unread: list[str] = []
    first, *others = fetch_all(source, settings, imports, allow or (), unread.append)
    ports = read(first, others)
    if not ports:
        reason = f"{source} has no port, which would give the address and the binding of its operations"
        fail(UNUSABLE, "; ".join([reason, *unread]))
    for each in unread:
        notes().print(escape(printable(each)))
    value = {name: _as_value(each, settings.source) for name, each in ports.items()}

    def text() -> None:
        requirements = [(name, *row) for name, each in ports.items() for row in _rows(each, settings.source)]
        show_table(("port", "property", "requires"), requirements, nothing="")
        console().print()
        settings_used = [(name, *row) for name, each in ports.items() for row in _used(each, settings.source).items()]
        written = [(name, setting, _written(to)) for name, setting, to in settings_used]
        show_table(("port", "setting", "to send with"), written, nothing="")

    show(output, value, text)
    if not any(_usable(each) for each in ports.values()):
        raise typer.Exit(FAILED)


def _written(value: str | float | bool | None) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "none" if value is None else str(value)


def _usable(port: Requirements) -> bool:
    chosen = port.choose()
    return chosen is not None and not chosen.unsupported


def _used(port: Requirements, base: SourcePolicy) -> dict[str, str | float | bool | None]:
    """The settings that the requirements imply, by name."""
    policy = port.source_policy(base)
    return {
        "source.protocol.soap": policy.protocol.soap.value,
        "source.protocol.addressing": policy.protocol.addressing.value,
        "source.protocol.rm": policy.protocol.rm.value,
        "source.retransmission.base": policy.retransmission.base,
        "source.idle_timeout": policy.idle_timeout,
        "source.mtom": policy.mtom,
    }


def _as_value(port: Requirements, base: SourcePolicy) -> dict[str, Any]:
    chosen = port.choose(base.protocol)
    return {
        "binding": port.binding,
        "address": port.address,
        "soap": port.soap.value if port.soap is not None else None,
        "alternatives": [
            {
                "chosen": each == chosen,
                "addressing": each.addressing.value if each.addressing is not None else None,
                "anonymous_responses": each.anonymous,
                "reliability": _reliability_as_value(each.reliability),
                "make_connection": each.make_connection,
                "mtom": each.mtom,
                "security": list(each.security),
                "unsupported": list(each.unsupported),
                "unknown": list(each.unknown),
            }
            for each in port.alternatives
        ],
        "missing": list(port.missing),
        "usable": _usable(port),
        "settings": _used(port, base),
    }


def _reliability_as_value(reliability: Reliability | None) -> dict[str, Any] | None:
    if reliability is None:
        return None
    return {
        "rm": reliability.rm.value,
        "optional": reliability.optional,
        "assurance": reliability.assurance.value if reliability.assurance is not None else None,
        "in_order": reliability.in_order,
        "inactivity_timeout": reliability.inactivity_timeout,
        "retransmission_interval": reliability.retransmission_interval,
        "exponential_backoff": reliability.exponential_backoff,
        "acknowledgement_interval": reliability.acknowledgement_interval,
    }


def _rows(port: Requirements, base: SourcePolicy) -> list[tuple[str, str]]:
    chosen = port.choose(base.protocol)
    rows = [
        ("address", port.address or "none"),
        ("SOAP", port.soap.value if port.soap is not None else "not specified"),
    ]
    for number, each in enumerate(port.alternatives, 1):
        if len(port.alternatives) > 1:
            rows.append((f"alternative {number}", "used" if each == chosen else ""))
        rows += _alternative(each)
    if chosen is None:
        rows.append(("policy", "an empty choice, which no client can fulfil"))
    return [*rows, *(("not in the document", each) for each in port.missing)]


def _alternative(each: Alternative) -> list[tuple[str, str]]:
    responses = {None: "", True: ", responses on the connection only", False: ", responses to an address only"}
    addressing = "not specified" if each.addressing is None else each.addressing.value + responses[each.anonymous]
    return [
        ("WS-Addressing", addressing),
        *_timers(each.reliability),
        ("MakeConnection", "yes" if each.make_connection else "no"),
        ("MTOM", "yes" if each.mtom else "no"),
        *(("WS-Security", f"needs security.{name}") for name in each.security),
        *(("not supported", name) for name in each.unsupported),
        *(("not known", name) for name in each.unknown),
    ]


def _timers(reliability: Reliability | None) -> list[tuple[str, str]]:
    if reliability is None:
        return [("WS-RM", "not specified")]
    order = {None: None, True: "InOrder", False: "in any order"}[reliability.in_order]
    values = [reliability.rm.value, reliability.assurance.value if reliability.assurance is not None else None, order]
    if reliability.optional:
        values.append("optional")
    timers = (
        ("InactivityTimeout", reliability.inactivity_timeout),
        ("BaseRetransmissionInterval", reliability.retransmission_interval),
        ("AcknowledgementInterval", reliability.acknowledgement_interval),
    )
    rows = [("WS-RM", ", ".join(each for each in values if each is not None))]
    rows += [(name, f"{seconds:g} s") for name, seconds in timers if seconds is not None]
    return [*rows, ("ExponentialBackoff", "yes")] if reliability.exponential_backoff else rows


@app.command("print")
def print_wsdl(
    target: Annotated[str, typer.Argument(metavar="MODULE:APP", help="The argument of mercury serve, or a Service.")],
    service: Annotated[str | None, typer.Option(help="The name of the service, if there are several.")] = None,
    address: Annotated[
        str | None, typer.Option(help="The URL of the endpoint; default: below the setting address, or http.host.")
    ] = None,
    config: ConfigFile = None,
    output: Output = Format.TEXT,
) -> None:
    """Print the WSDL that a service publishes, without serving it."""
    from mercury.service import paths
    from mercury.settings import load

    settings = load(config)
    documents = _documents(target, settings)
    if service is None and len(documents) == 1:
        (service,) = documents
    if service is None or service not in documents:
        named = ", ".join(sorted(documents)) or "none"
        fail(UNUSABLE, f"{target} has these services: {named}; choose one with --service")
    base = settings.address or f"http://{settings.http.host}:{settings.http.port}"
    text = documents[service].wsdl(address or f"{base}{paths.SERVICES}/{service}").decode()
    show(output, {"service": service, "wsdl": text}, lambda: _write(text))


def _write(text: str) -> None:
    sys.stdout.write(text)


def _documents(target: str, settings: Settings) -> dict[str, Documents]:
    """The documents of a target's services, by service name."""
    from mercury.cli.serve import load_application, load_object
    from mercury.service.definition import Service

    found = load_object(target)
    if isinstance(found, Service):
        from mercury.service.publishing import documents_of

        security = found.security or settings.security.services().get(found.name)
        return {found.name: documents_of(found, settings, security)}
    application = load_application(target, found)
    from mercury.service.host import soap_endpoints

    endpoints = soap_endpoints(application.routes)
    return {each.service: each.documents() for each in endpoints if each.service is not None}
