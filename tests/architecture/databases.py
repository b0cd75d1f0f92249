"""Checks that the differences between PostgreSQL and SQLite are in one place of the code.

The check finds code that depends on the database: its name as a value (``"postgresql"``, ``"sqlite"``, with or without
a driver), the class of a `Dialect`, the name or driver of SQLAlchemy's dialect, and errors of SQLite's driver. All
other code calls a method of the `Dialect` or reads one of its attributes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from types import MappingProxyType

from mercury.storage.sql.dialects import KINDS

from .imports import python_files

#: Where it may be asked, and why.
ALLOWED = MappingProxyType(
    {
        "mercury/storage/sql/*_dialect.py": "each is one of them: the one place of the stores",
        "mercury/storage/sql/sqlite_connections.py": "makes the connections of one driver, as `store_connections`",
        "mercury/storage/sql/dialect.py": "the type of a column that SQLAlchemy is told for one of them only",
        "mercury/storage/sql/errors.py": "an error of a driver says by its class which one has raised it",
        "mercury/storage/sql/schema.py": "what SQLAlchemy is told to write for one of them only",
        "mercury/storage/sql/migrations/versions/*.py": "the same",
        "mercury/settings.py": "shows where a file is, before SQLAlchemy is loaded",
        "mercury/postgres/databases.py": "makes databases on a PostgreSQL server, and refuses other URLs",
        "mercury/reconcile/source.py": "the one place of the reconciler, whose databases are the applications'",
    }
)

#: The databases that hold a store; add those that only the reconciler reads.
NAMES = frozenset(kind.name for kind in KINDS)
NAME = re.compile(rf"({'|'.join(NAMES)})(\+\w+)?", re.IGNORECASE)
CLASSES = frozenset(kind.__name__ for kind in KINDS)


def questions(root: Path) -> list[str]:
    """Every place below ``root/mercury`` that asks and may not: file, line and what is asked."""
    found = []
    for file in python_files(root, "mercury"):
        path = file.relative_to(root).as_posix()
        if not any(fnmatch(path, allowed) for allowed in ALLOWED):
            tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
            asked = sorted({(node.lineno, what) for node, what in _asked(tree)})
            found += [f"{path}:{line}: {what}: ask the Dialect what differs" for line, what in asked]
    return found


def _asked(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if NAME.fullmatch(text):
                yield node, repr(text)
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, classes]) if (
                _names(classes) & CLASSES
            ):
                yield node, ast.unparse(node)
            case ast.Attribute(value=ast.Attribute(attr="dialect"), attr="name" | "driver"):
                yield node, ast.unparse(node)
            case ast.Import(names=names) if any(alias.name == "sqlite3" for alias in names):
                yield node, "sqlite3"
            case ast.ImportFrom(module="sqlite3"):
                yield node, "sqlite3"
            case _:
                pass


def _names(node: ast.expr) -> set[str]:
    return {
        ast.unparse(each).rpartition(".")[2] for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute)
    }
