"""A report: one HTML file that loads no other file, from a template and the style of all reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from mercury.errors import ConfigurationError


def environment(package: str, finalize: Callable[[object], object] | None = None) -> Environment:
    """The environment of a report's template: every value is escaped, and an undefined name is an error.

    :param package: the package of the template, which may include ``page.css``, the style of all reports.
    :param finalize: is applied to each value before it is escaped.
    """
    return Environment(
        loader=ChoiceLoader([PackageLoader(package, "."), PackageLoader("mercury.reports", ".")]),
        autoescape=True,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def write(html: str, file: Path) -> None:
    """Write a report.

    :raises ConfigurationError: the file cannot be written.
    """
    try:
        file.write_text(html, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}") from error
