"""`mercury config`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mercury.cli.output import Format, Output, show, show_table
from mercury.errors import ConfigurationError

if TYPE_CHECKING:
    from mercury.settings import Setting

app = typer.Typer(
    help="Settings: environment variables override a TOML file, which overrides defaults.", no_args_is_help=True
)

ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", help="A TOML file; default: MERCURY_CONFIG or ./mercury.toml.")
]


def check_store(setting: Setting) -> None:
    """Check that the URL in the setting ``store`` is valid; nothing is opened.

    :raises ConfigurationError: it is not the URL of a store.
    """
    from mercury.storage.opening import MEMORY, read_url

    if setting.value == MEMORY:
        return
    try:
        read_url(str(setting.value))
    except ConfigurationError as error:
        where = "" if setting.origin == "default" else f" (set by {setting.origin})"
        raise ConfigurationError(f"store: {error}{where}") from error


@app.command("show")
def show_settings(config: ConfigFile = None, output: Output = Format.TEXT) -> None:
    """Print every setting with its value, and where the value comes from. Passwords in URLs are masked.

    Exit code 2: a setting has an invalid value. No store is opened, and no connection is made.
    """
    from mercury.settings import explain, variable

    settings = explain(config)
    for each in settings:
        if each.path == "store":
            check_store(each)
    value = [
        {"setting": each.path, "value": each.shown, "from": each.origin, "variable": variable(each.path)}
        for each in settings
    ]
    rows = [(each.path, each.shown, each.origin) for each in settings]
    show(output, value, lambda: show_table(("setting", "value", "from"), rows, nothing="no settings"))
