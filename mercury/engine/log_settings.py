"""What of the log can be set."""

from __future__ import annotations

from dataclasses import dataclass

from mercury.errors import ConfigurationError

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
FORMATS = ("text", "json")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Where the log goes is the application's business; this is what `mercury serve` does with it.

    :raises ConfigurationError: the level or the format is none; the text begins with its name.
    """

    #: DEBUG, INFO, WARNING, ERROR or CRITICAL; small letters will do.
    level: str = "INFO"
    #: ``text`` or ``json``.
    format: str = "text"

    def __post_init__(self) -> None:
        for name, value, known in (("level", self.level.upper(), LEVELS), ("format", self.format, FORMATS)):
            if value not in known:
                raise ConfigurationError(f"{name}: {getattr(self, name)!r} is none of {', '.join(known)}")
