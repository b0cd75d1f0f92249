"""Checks that modules have no state: objects that can change are created by their user.

The values that a module or a class body binds must not be changeable. They are checked when the module is loaded, so
the way in which a value was made does not matter. Constants, patterns, enums, functions, classes and types are
unchangeable; so are tuples, frozensets, `MappingProxyType` and frozen dataclasses, if all their items are. Exceptions:

- ``__all__``, which must be a list;
- tables and expressions of SQLAlchemy, which are filled while their module is loaded and only read afterwards;
- fixtures of pytest in the class of the store contract, which describe how an object is made for each test;
- loggers, whose state belongs to the logging library, and Typer applications, which only decorators fill;
- caches of pure functions, if they are bounded: without a bound, peers would decide how large they get;
- a private dict in capitals that no statement of its own module changes: a constant written as a literal. It is private
  so that no other module can change it either.

No function may use ``global``. Two Mercurys in one process, and the tests, would share state in a module.
"""

from __future__ import annotations

import ast
import dataclasses
import datetime
import enum
import functools
import logging
import operator
import re
import types
import typing
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from sqlalchemy import MetaData
from sqlalchemy.schema import SchemaItem
from sqlalchemy.sql import ClauseElement
from sqlalchemy.types import TypeEngine

#: Methods that change a list, a dict or a set.
CHANGES = frozenset(
    {
        "add",
        "append",
        "clear",
        "discard",
        "extend",
        "insert",
        "pop",
        "popitem",
        "remove",
        "setdefault",
        "sort",
        "update",
    }
)

PLAIN = (
    *(str, bytes, int, float, complex, bool, types.NoneType, enum.Enum, re.Pattern, Path, type, ModuleType),
    *(types.FunctionType, types.BuiltinFunctionType, types.GenericAlias, types.UnionType, types.EllipsisType),
    *(typing.TypeVar, typing.ParamSpec, type(typing.Any), type(typing.Optional[int]), type(typing.Annotated[int, ""])),  # noqa: UP045
    *(type(typing.Callable[[], int]), type(typing.NamedTuple), typing.ForwardRef, type(typing.Protocol)),
    *(datetime.date, datetime.timedelta, Decimal, operator.attrgetter, operator.itemgetter),
    # A schema and its expressions: descriptions, filled while their module is loaded and only read afterwards.
    *(MetaData, SchemaItem, ClauseElement, TypeEngine),
)

#: In a class body: what the language puts there, and what computes.
DESCRIPTORS = (
    # A fixture, which is called for each test.
    type(pytest.fixture(lambda: None)),
    *(staticmethod, classmethod, property, functools.cached_property, functools.partialmethod),
    *(types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType),
)


def changeable(module: ModuleType, path: Path) -> Iterator[str]:
    """What of a loaded module can change, each with its place."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield f"{path}:{node.lineno}: global {', '.join(node.names)}: state belongs to an object"
    for name, line in _bound(tree.body):
        value = getattr(module, name, None)
        if name != "__all__" and not _constant_dict(name, value, tree) and (why := why_changeable(value)):
            yield f"{path}:{line}: {name} {why}"
    for cls in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        loaded = getattr(module, cls.name, None)
        for name, line in _bound(cls.body):
            value = vars(loaded).get(name) if isinstance(loaded, type) else None
            if not isinstance(value, DESCRIPTORS) and not name.startswith("__") and (why := why_changeable(value)):
                yield f"{path}:{line}: {cls.name}.{name} {why}"


def _bound(statements: list[ast.stmt]) -> Iterator[tuple[str, int]]:
    """The names that these statements bind, those under `if`, `try` and `with` too."""
    for node in statements:
        match node:
            case ast.Assign(targets=targets):
                found = [name for target in targets for name in ast.walk(target)]
            case ast.FunctionDef(name=name, decorator_list=[_, *_]):
                yield name, node.lineno
                continue
            case ast.AnnAssign(target=target, value=value) if value is not None:
                found = [target]
            case ast.If() | ast.Try() | ast.With() | ast.For() | ast.While():
                inner = [node.body, getattr(node, "orelse", []), getattr(node, "finalbody", [])]
                for body in inner:
                    yield from _bound(body)
                continue
            case _:
                continue
        yield from ((name.id, node.lineno) for name in found if isinstance(name, ast.Name))


def why_changeable(value: Any) -> str | None:
    """Why a value can change; ``None`` when it cannot, or its state belongs to another library."""
    if isinstance(value, (*PLAIN, logging.Logger)):
        return None
    if isinstance(value, functools._lru_cache_wrapper):
        return "is a cache without a bound" if value.cache_parameters()["maxsize"] is None else None
    if isinstance(value, tuple | frozenset):
        return _inside(value)
    if isinstance(value, types.MappingProxyType):
        return _inside([*value.keys(), *value.values()])
    if dataclasses.is_dataclass(value):
        if not getattr(type(value), "__dataclass_params__").frozen:  # noqa: B009 (type checkers do not know it)
            return f"is a {type(value).__name__}, a dataclass that is not frozen"
        return _inside([getattr(value, field.name) for field in dataclasses.fields(value)])
    if f"{type(value).__module__}.{type(value).__name__}" == "typer.main.Typer":
        return None
    return f"is a {type(value).__name__}: not known to be unchangeable"


def _inside(values: Any) -> str | None:
    found = next((why for each in values if (why := why_changeable(each))), None)
    return f"has something in it that {found}" if found else None


def _constant_dict(name: str, value: object, tree: ast.Module) -> bool:
    """A private dict in capitals that its module only reads."""
    if not isinstance(value, dict) or not re.fullmatch(r"_[A-Z][A-Z0-9_]*", name):
        return False
    if any(why_changeable(each) for each in [*value.keys(), *value.values()]):
        return False
    return not any(_changes(node, name) for node in ast.walk(tree))


def _changes(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=called), attr=method)):
            return called == name and method in CHANGES
        case ast.Subscript(value=ast.Name(id=called), ctx=ast.Store() | ast.Del()):
            return called == name
        case ast.AugAssign(target=ast.Name(id=called)) | ast.Delete(targets=[ast.Name(id=called)]):
            return called == name
        case _:
            return False
