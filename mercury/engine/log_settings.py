"""The settings of the log."""

from __future__ import annotations

from dataclasses import dataclass

from mercury.choices import chosen

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
FORMATS = ("text", "json")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """The log of `mercury serve`. An application that uses the library configures `logging` itself.

    :raises ConfigurationError: the level or the format is unknown; the text begins with the setting's name.
    """

    #: DEBUG, INFO, WARNING, ERROR or CRITICAL, in upper or lower case.
    level: str = "INFO"
    #: ``text`` or ``json``.
    format: str = "text"

    def __post_init__(self) -> None:
        upper = self.level.upper()
        chosen(dict.fromkeys(LEVELS), upper if upper in LEVELS else self.level, "level")
        chosen(dict.fromkeys(FORMATS), self.format, "format")
