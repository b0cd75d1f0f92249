"""The entry point of the command, which imports all others."""

from __future__ import annotations

from mercury.cli.collector import uncollected


def run() -> None:
    """Run the command that the arguments name."""
    with uncollected():
        from mercury.cli.main import run as run_command
    run_command()
