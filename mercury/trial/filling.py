"""Fills in the names of a scenario's commands: ports, links, databases."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import overload

from mercury.errors import ConfigurationError

NAME = re.compile(r"\{(?:(link|database)\.)?([a-z][a-z0-9_-]*)\}")


@dataclass
class Names:
    """What the names stand for."""

    folder: str
    databases: Mapping[str, str]
    links: dict[str, str] = field(default_factory=dict)
    port: int = 0

    def value(self, kind: str | None, name: str) -> str:
        """
        :raises ConfigurationError: there is no such name.
        """
        plain = {"folder": self.folder, "port": str(self.port), "python": sys.executable}
        found = {"link": self.links, "database": self.databases, None: plain}[kind]
        if name not in found:
            known = ", ".join(sorted(found)) or "none"
            raise ConfigurationError(f"{{{kind + '.' if kind else ''}{name}}}: no such name; there are: {known}")
        return found[name]


@overload
def filled(given: str, names: Names) -> str: ...
@overload
def filled(given: Mapping[str, str], names: Names) -> dict[str, str]: ...
def filled(given: str | Mapping[str, str], names: Names) -> str | dict[str, str]:
    """A text, or the values of a mapping, with all names replaced.

    :raises ConfigurationError: there is no such name.
    """
    if isinstance(given, str):
        return NAME.sub(lambda found: names.value(found[1], found[2]), given)
    return {key: filled(value, names) for key, value in given.items()}
