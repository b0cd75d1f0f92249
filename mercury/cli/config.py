"""`mercury config`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mercury.cli.output import Format, Output, show, show_table
from mercury.settings import explain, variable

app = typer.Typer(help="Settings: environment variables over a TOML file over defaults.", no_args_is_help=True)

ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="A TOML file; left out, MERCURY_CONFIG or ./mercury.toml.")
]


@app.command("show")
def show_settings(config: ConfigFile = None, output: Output = Format.TEXT) -> None:
    """Print every setting with its value, and where the value comes from. Passwords in URLs are masked."""
    settings = explain(config)
    value = [
        {"setting": each.path, "value": each.shown, "from": each.origin, "variable": variable(each.path)}
        for each in settings
    ]
    rows = [(each.path, each.shown, each.origin) for each in settings]
    show(output, value, lambda: show_table(("setting", "value", "from"), rows, nothing="no settings"))
