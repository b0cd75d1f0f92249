"""Reads the TOML file of a reconciliation."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

from mercury.choices import member
from mercury.errors import ConfigurationError
from mercury.reconcile.config import Column, Config, Response, SparkSettings, Table
from mercury.reconcile.kinds import Kind

#: Section -> setting -> type.
_SETTINGS: Mapping[str, Mapping[str, type]] = MappingProxyType(
    {
        "client": MappingProxyType(
            {
                "url": str,
                "table": str,
                "where": str,
                "order": str,
                "within": list,
                "time": str,
                "time_zone": str,
                "handed_over": str,
                "correlation": str,
            }
        ),
        "server": MappingProxyType(
            {"url": str, "table": str, "where": str, "arrival": str, "time": str, "time_zone": str}
        ),
        "compare": MappingProxyType({"key": list, "columns": list}),
        "stores": MappingProxyType(
            {
                "client": str,
                "relays": list,
                "stages": list,
                "server": str,
                "client_log": str,
                "server_log": str,
            }
        ),
        "response": MappingProxyType(
            {"url": str, "table": str, "where": str, "key": list, "time": str, "time_zone": str, "columns": dict}
        ),
        "report": MappingProxyType({"out": str, "rows": int, "complete": bool}),
        "spark": MappingProxyType({"master": str, "memory": str, "slices": int, "ranges": int}),
    }
)
_COLUMN: Mapping[str, type] = MappingProxyType(
    {"server": str, "type": str, "scale": int, "client_zone": str, "server_zone": str, "trim": bool}
)
_NAMES = MappingProxyType(
    {str: "a text", list: "a list of names", dict: "a table", int: "a number", bool: "true or false"}
)


def read_file(file: Path, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The sections of a file, with ``${NAME}`` in URLs replaced from the environment.

    :raises ConfigurationError: the file cannot be read, or has an unknown setting or a setting of a wrong type.
    """
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} is not TOML: {error}") from error
    environment = os.environ if environment is None else environment
    for section, given in values.items():
        where = f"{file.name}: "
        _known(file.name, section, [*_SETTINGS, "columns"])
        _check_table(f"{where}{section}", given)
        if section == "columns":
            for name, column in given.items():
                _check(f"{where}columns.{name}", column, _COLUMN)
            continue
        _check(f"{where}{section}", given, _SETTINGS[section])
        for name in ("url", "client", "server", "client_log", "server_log"):
            if isinstance(given.get(name), str):
                given[name] = _expand(f"{where}{section}.{name}", given[name], environment)
        for name in ("relays", "stages"):
            if name in given:
                given[name] = [_expand(f"{where}{section}.{name}", url, environment) for url in given[name]]
    return values


def make_config(values: Mapping[str, Any]) -> Config:
    """The config from the sections of a file.

    :raises ConfigurationError: a setting is missing or wrong; the text names it.
    """
    client, server = values.get("client", {}), values.get("server", {})
    compare, pairs = values.get("compare", {}), values.get("columns", {})
    stores, report, spark = values.get("stores", {}), values.get("report", {}), values.get("spark", {})
    key = tuple(_column(name, pairs) for name in compare.get("key", ()))
    columns = tuple(_column(name, pairs) for name in compare.get("columns", ()))
    unused = set(pairs) - {column.client for column in (*key, *columns)}
    if unused:
        raise ConfigurationError(f"columns.{min(unused)} is neither in compare.key nor in compare.columns")
    return Config(
        client=_table("client", client, "order"),
        server=_table("server", server, "arrival"),
        key=key,
        compare=columns,
        within=tuple(client.get("within", ())),
        handed_over=client.get("handed_over"),
        correlation=client.get("correlation"),
        client_store=stores.get("client"),
        server_store=stores.get("server"),
        relay_stores=tuple(stores.get("relays", ())),
        server_stages=tuple(stores.get("stages", ())),
        client_log=stores.get("client_log"),
        server_log=stores.get("server_log"),
        response=_response(values["response"], client, key) if "response" in values else None,
        out=Path(report["out"]) if "out" in report else None,
        listed=report.get("rows", 200),
        complete=report.get("complete", False),
        spark=SparkSettings(**spark),
    )


def _table(section: str, given: Mapping[str, Any], order: str | None = None) -> Table:
    for name in ("url", "table"):
        if not given.get(name):
            raise ConfigurationError(f"{section}.{name} is missing")
    return Table(
        url=given["url"],
        name=given["table"],
        where=given.get("where"),
        order=given.get(order) if order else None,
        time=given.get("time"),
        time_zone=_zone(f"{section}.time_zone", given.get("time_zone", "UTC")),
    )


def _response(given: Mapping[str, Any], client: Mapping[str, Any], key: tuple[Column, ...]) -> Response:
    compare = tuple(Column(client=ours, server=theirs) for ours, theirs in given.get("columns", {}).items())
    names = tuple(given.get("key", ())) or tuple(column.client for column in key)
    return Response(table=_table("response", {"url": client.get("url"), **given}), key=names, compare=compare)


def _column(name: str, pairs: Mapping[str, Mapping[str, Any]]) -> Column:
    given = pairs.get(name, {})
    return Column(
        client=name,
        server=given.get("server", name),
        kind=member(Kind, given["type"], f"columns.{name}.type") if "type" in given else None,
        scale=given.get("scale"),
        client_zone=_zone(f"columns.{name}.client_zone", given.get("client_zone", "UTC")),
        server_zone=_zone(f"columns.{name}.server_zone", given.get("server_zone", "UTC")),
        trim=given.get("trim", False),
    )


def _zone(where: str, name: str) -> str:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, LookupError) as error:
        raise ConfigurationError(f"{where}: there is no time zone {name!r}") from error
    return name


def _check(where: str, given: Any, settings: Mapping[str, type]) -> None:
    _check_table(where, given)
    for name, value in given.items():
        _known(where, name, settings)
        kind = settings[name]
        fits = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
        if not fits or (kind is list and not all(isinstance(each, str) for each in value)):
            raise ConfigurationError(f"{where}.{name} is not {_NAMES[kind]}")


def _check_table(where: str, given: Any) -> None:
    if not isinstance(given, dict):
        raise ConfigurationError(f"{where} is not a table")


def _known(where: str, name: str, names: Iterable[str]) -> None:
    known = list(names)
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        raise ConfigurationError(f"{where} has no {name!r}" + (f" (did you mean {near[0]!r}?)" if near else ""))


def _expand(where: str, text: str, environment: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        if found[1] not in environment:
            raise ConfigurationError(f"{where}: the environment has no {found[1]}")
        return environment[found[1]]

    return re.sub(r"\$\{(\w+)\}", value, text)
