"""Checks that only `mercury.statemachine` changes the counters of a machine.

A machine is recognized by its name: the attribute ``machine`` of a record, or a name that is bound to one or to a new
machine. The check finds assignments to its attributes, deletions, `setattr`, `dataclasses.replace`, and the methods
that change a set of numbers in place.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from .imports import python_files

MACHINES = ("RMSSequence", "RMDSequence", "InvokerBuffer")
#: The machines themselves, and the code that builds records for tests of stores.
MAY_WRITE = ("mercury/statemachine/", "mercury/testing/")
IN_PLACE = ("add", "update", "discard", "clear")


def written_counters(root: Path) -> list[str]:
    """Every place below ``root/mercury`` that writes a counter of a machine it does not own: file, line and text."""
    found = []
    for file in python_files(root, "mercury"):
        path = file.relative_to(root).as_posix()
        if not path.startswith(MAY_WRITE):
            tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
            found += [f"{path}:{node.lineno}: {ast.unparse(node)}" for node in _writes(tree)]
    return found


def _writes(tree: ast.AST) -> Iterator[ast.expr]:
    names = {"machine", *_bound(tree)}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=value, ctx=ast.Store() | ast.Del()) if _is_machine(value, names):
                yield node
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[value, *_]) if _is_machine(value, names):
                yield node
            case ast.Call(func=function, args=[value, *_]) if _called(function) == "replace":
                if _is_machine(value, names):
                    yield node
            case ast.Call(func=ast.Attribute(value=ast.Attribute(value=value), attr=attr)) if attr in IN_PLACE:
                if _is_machine(value, names):
                    yield node
            case _:
                pass


def _bound(tree: ast.AST) -> Iterator[str]:
    """The names that are bound to a machine."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from _pairs(target, value)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation) if ast.unparse(annotation) in MACHINES:
                yield name
            case ast.NamedExpr(target=target, value=value):
                yield from _pairs(target, value)
            case ast.arg(arg=name, annotation=ast.expr() as annotation) if ast.unparse(annotation) in MACHINES:
                yield name
            case _:
                pass


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[str]:
    match target, value:
        case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
            for each, bound in zip(targets, values, strict=True):
                yield from _pairs(each, bound)
        case ast.Name(id=name), _ if _is_machine(value, {"machine"}) or _makes(value):
            yield name
        case _:
            pass


def _makes(value: ast.expr) -> bool:
    """A call of a machine's class, or of one of its class methods."""
    return isinstance(value, ast.Call) and ast.unparse(value.func).partition(".")[0] in MACHINES


def _is_machine(value: ast.expr, names: set[str]) -> bool:
    match value:
        case ast.Name(id=name):
            return name in names
        case ast.Attribute(attr=attr):
            return attr == "machine"
        case _:
            return False


def _called(function: ast.expr) -> str:
    return ast.unparse(function).rpartition(".")[2]
