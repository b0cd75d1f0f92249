"""Checks that production code does not depend on whether it is tested.

A test that needs a different object passes it as an argument: a store, a transport, a clock, ids. The check finds
imports of test tools, names that mean "this is a test", and texts with an environment variable of a test tool or of our
tests.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from .imports import python_files

TOOLS = frozenset({"hypothesis", "mock", "pytest", "tests", "unittest"})

#: ``testing``, ``is_test``, ``TEST_MODE``, ``under_test``, ``for_tests``, ``running_tests``, ``in_test``...
NAME = re.compile(
    r"_*(?:(?:is|in|under|for|while|if|running|run_by|called_by)_)*(?:unit_?)?tests?(?:ing|ed)?"
    r"(?:_(?:mode|only|run|hook|flag|env|environment|switch|seam|running|case|double))*_*",
    re.IGNORECASE,
)

TEXT = re.compile(r"MERCURY_TEST|PYTEST_|UNITTEST|\bpytest\b|\bunittest\b", re.IGNORECASE)


#: These files are tests for authors of stores; production code may not import them (`imports.FOR_TESTS`).
SHIPPED_TESTS = "mercury/testing/contract/"


def switches(root: Path) -> list[str]:
    """Every place below ``root/mercury`` that knows of tests."""
    found = []
    for file in python_files(root, "mercury"):
        if file.relative_to(root).as_posix().startswith(SHIPPED_TESTS):
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
        prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if id(node) in prose:
                continue  # a docstring may speak of tests
            line = getattr(node, "lineno", 0)
            found += [f"{file.relative_to(root)}:{line}: {why}" for why in _why(node)]
    return found


def _why(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (f"imports {alias.name}" for alias in names if alias.name.partition(".")[0] in TOOLS)
        case ast.ImportFrom(module=str(module), level=0) if module.partition(".")[0] in TOOLS:
            yield f"imports {module}"
        case ast.Constant(value=str(text)) if TEXT.search(text):
            yield f"the text {text!r}"
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
            if NAME.fullmatch(name):
                yield f"the name {name}"
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            if NAME.fullmatch(name):
                yield f"the name {name}"
        case _:
            pass
