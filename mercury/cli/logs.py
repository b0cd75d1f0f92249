"""Formats of log lines, with fields such as the sequence, the number and the MessageID."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from mercury.texts import printable

if TYPE_CHECKING:
    from mercury.engine.log_settings import LogSettings

#: The fields that Mercury's log calls pass in ``extra``, in the order in which they are printed.
FIELDS = ("service", "endpoint", "key", "sequence", "number", "message_id", "attempt", "record", "fault")


def set_up_logs(settings: LogSettings) -> None:
    """Send the log to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if settings.format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.level.upper())
    # At INFO, alembic logs each step of creating a schema.
    logging.getLogger("alembic").setLevel(max(root.level, logging.WARNING) if root.level > logging.DEBUG else 0)


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """The fields of a log call, without those that are not set."""
    found = ((name, getattr(record, name, None)) for name in FIELDS)
    return {name: value for name, value in found if value not in (None, "")}


class TextFormatter(logging.Formatter):
    """``time level logger: text (field=value ...)``, the time with its zone.

    An entry is one line, followed by its traceback. Texts and fields may come from peers, so line breaks and control
    characters are escaped: a peer can neither forge an entry nor control the terminal.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S%z")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802, ARG002
        seconds, zone = super().formatTime(record, "%Y-%m-%dT%H:%M:%S"), super().formatTime(record, "%z")
        return f"{seconds}.{int(record.msecs):03d}{zone}"

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  the base class's name
        fields = " ".join(f"{name}={value}" for name, value in fields_of(record).items())
        return printable(super().formatMessage(record) + (f" ({fields})" if fields else ""))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return printable(super().formatException(ei), lines=True)


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
