"""Finds the symbol of a guard, and the part of its module's file that is the symbol's source."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path


class MovedGuardError(Exception):
    """A symbol is not there, or the text of its guard is not in it exactly once."""


@dataclass(frozen=True, slots=True)
class Place:
    """The source of a symbol within its file, from character ``begin`` up to ``end``, which is excluded."""

    path: Path
    begin: int
    end: int


def place_of(symbol: str, root: Path) -> Place:
    """The source of ``package.module:Class.function``, or of a whole module, in a tree.

    A function, a class, and a name that a module or a class assigns are symbols.

    :raises MovedGuardError: there is no such symbol, or several.
    """
    module, _, name = symbol.partition(":")
    path = root.joinpath(*module.split(".")).with_suffix(".py")
    if not path.is_file():
        raise MovedGuardError(f"there is no module {module}")
    text = path.read_text()
    if not name:
        return Place(path, 0, len(text))
    node: ast.AST = ast.parse(text)
    for part in name.split("."):
        found = [each for each in getattr(node, "body", ()) if part in _names(each)]
        if len(found) != 1:
            raise MovedGuardError(f"{module} has {len(found)} symbols {name}, not one")
        node = found[0]
    assert isinstance(node, ast.stmt)
    assert node.end_lineno is not None
    lines = text.splitlines(keepends=True)
    return Place(path, sum(map(len, lines[: node.lineno - 1])), sum(map(len, lines[: node.end_lineno])))


def _names(node: ast.stmt) -> list[str]:
    """The symbols that a statement defines."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Assign():
            return [target.id for target in node.targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


def replaced(symbol: str, before: str, after: str, root: Path) -> tuple[Path, str]:
    """The file of a symbol, and its text with ``after`` instead of ``before`` in the source of the symbol.

    :raises MovedGuardError: the symbol is not there, or has the text not exactly once.
    """
    place = place_of(symbol, root)
    text = place.path.read_text()
    source = text[place.begin : place.end]
    if source.count(before) != 1:
        raise MovedGuardError(f"{symbol} has the guard {source.count(before)} times, not once")
    return place.path, text[: place.begin] + source.replace(before, after) + text[place.end :]
