"""Options that several commands have in common, as dataclasses: a parameter of a command that is one stands for its
fields."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, get_type_hints


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command as typer reads it: parameters whose type is a dataclass are replaced by one for each field, at the end.

    The types are looked up in the module of the command, also those that it imports for type checkers only: so a
    dataclass of options is imported for real.
    """
    hints = get_type_hints(command, vars(sys.modules[command.__module__]), include_extras=True)
    groups: dict[str, Callable[..., Any]] = {
        name: kind for name, kind in hints.items() if isinstance(kind, type) and dataclasses.is_dataclass(kind)
    }
    own = [
        each.replace(annotation=hints[each.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for each in inspect.signature(command).parameters.values()
        if each.name not in groups
    ]
    fields = {name: _parameters(kind) for name, kind in groups.items()}
    every = [*own, *(each for group in fields.values() for each in group)]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        made = {
            name: kind(**{each.name: given.pop(each.name) for each in fields[name]}) for name, kind in groups.items()
        }
        command(**given, **made)

    run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in every}
    del run.__wrapped__
    return run


def _parameters(kind: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name])
        for each in dataclasses.fields(kind)
    ]
