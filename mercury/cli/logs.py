"""Log lines that carry the sequence, the number and the MessageID."""

from __future__ import annotations

import json
import logging

from mercury.errors import ConfigurationError
from mercury.settings import LogSettings

#: What Mercury's own log calls give in ``extra``, in the order in which it is shown.
FIELDS = ("service", "endpoint", "key", "sequence", "number", "message_id", "attempt", "record", "fault")


def set_up_logs(settings: LogSettings) -> None:
    """Send the log to stderr.

    :raises ConfigurationError: the level or the format is none.
    """
    levels = logging.getLevelNamesMapping()
    if settings.level.upper() not in levels:
        raise ConfigurationError(f"log.level: {settings.level!r} is none of DEBUG, INFO, WARNING, ERROR")
    formatters = {"text": TextFormatter, "json": JsonFormatter}
    if settings.format not in formatters:
        raise ConfigurationError(f"log.format: {settings.format!r} is neither text nor json")
    handler = logging.StreamHandler()
    handler.setFormatter(formatters[settings.format]())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(levels[settings.level.upper()])


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """What a log call said beside its text."""
    found = ((name, getattr(record, name, None)) for name in FIELDS)
    return {name: value for name, value in found if value not in (None, "")}


class TextFormatter(logging.Formatter):
    """``time level logger: text (field=value ...)``"""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  the base class's name
        fields = " ".join(f"{name}={value}" for name, value in fields_of(record).items())
        return super().formatMessage(record) + (f" ({fields})" if fields else "")


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= fields_of(record)
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
