"""`mercury completion`."""

from __future__ import annotations

import enum
import importlib
from typing import Annotated, Any

import typer


class Shell(enum.Enum):
    """The shells that commands are completed in."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell.")]) -> None:
    """Print the script that completes commands and options in a shell.

    For example, in ~/.bashrc: eval "$(mercury completion bash)"
    """
    # typer has the scripts, for its option --show-completion, which asks for the shell by itself.
    scripts: Any = importlib.import_module("typer.completion")
    made = scripts.get_completion_script(prog_name="mercury", complete_var="_MERCURY_COMPLETE", shell=shell.value)
    typer.echo(made)
