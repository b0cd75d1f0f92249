"""Each type in a public signature is public too, so that an application can use it in its own signatures."""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import importlib.util
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

import mercury
from mercury import events

#: What a name stands for: its module and its name there.
Origin = tuple[str, str]

#: Members that parts of Mercury call, not applications.
OF_THE_PARTS = frozenset(
    {
        "AddressPolicy.refusal",
        "DeadLetter.attachments",
        "DeadLetter.channel",
        "Mercury.documents",
        "Mercury.emit_in_doubt",
        "Mercury.running_runtime",
        "Mercury.runtime_for",
        "Mercury.send_in",
        "Mercury.sending",
        "Mercury.surroundings",
        "Sender.__init__",
        "Service.operations",
        "Contract.operations",
        "Service.register_with",
        "Contract.register_with",
        "AsyncTransaction.__init__",
        "OneWay.__init__",
        "TwoWay.__init__",
    }
)
#: Parameters of `Mercury` for who brings a part of their own (docs/testing.md).
PARTS = MappingProxyType(
    {"Mercury.__init__": {"StorageManager", "Transport", "ConcurrentTransport", "Ids", "Runtime", "MakeRuntime"}}
)


@functools.cache
def bound(module: str) -> Mapping[str, Origin | ast.expr]:
    """What the names of a module stand for: imports (also for type checkers), classes, and aliases of types."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    found: dict[str, Origin | ast.expr] = {}
    for node in ast.walk(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.ClassDef):
            found[node.name] = (module, node.name)
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
            assert isinstance(node.target, ast.Name)
            assert node.value is not None
            found[node.target.id] = node.value
    return MappingProxyType(found)


def mentioned(module: str, annotation: ast.expr) -> Iterator[Origin]:
    """The types of Mercury that an annotation in a module mentions, through aliases and quotes."""
    names = bound(module)
    for node in ast.walk(annotation):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                yield from mentioned(module, ast.parse(node.value, mode="eval").body)
            except SyntaxError:
                continue  # of a Literal
        elif isinstance(node, ast.Name):
            what = names.get(node.id)
            if isinstance(what, ast.expr):
                yield from mentioned(module, what)
            elif what is not None and what[0].startswith("mercury"):
                if what[0] != module and isinstance(alias := bound(what[0]).get(what[1]), ast.expr):
                    yield from mentioned(what[0], alias)
                else:
                    yield what


def annotations(owner: object, name: str) -> Iterator[tuple[str, str, str]]:
    """The annotations of a function, or of a class's public members: where, in which module, what."""
    if not isinstance(owner, type):
        if inspect.isfunction(owner):
            yield from ((name, owner.__module__, str(text)) for text in owner.__annotations__.values())
        return
    for base in owner.__mro__:
        if not base.__module__.startswith("mercury"):
            continue
        for member, value in vars(base).items():
            if member.startswith("_") and member not in ("__init__", "__call__"):
                continue
            function = inspect.unwrap(getattr(value, "__func__", getattr(value, "fget", value)))
            if inspect.isfunction(function) and (member != "__init__" or not dataclasses.is_dataclass(base)):
                for text in function.__annotations__.values():
                    yield f"{name}.{member}", base.__module__, str(text)
        if dataclasses.is_dataclass(base):
            for field in dataclasses.fields(base):
                if field.name in vars(base).get("__annotations__", {}) and not field.name.startswith("_"):
                    yield f"{name}.{field.name}", base.__module__, str(field.type)


def hidden(public: dict[str, object]) -> list[str]:
    """Types in public signatures that cannot be imported from `mercury` or `mercury.events`."""
    known = {(getattr(value, "__module__", ""), getattr(value, "__qualname__", "")) for value in public.values()}
    found = set()
    for name, value in public.items():
        for where, module, text in annotations(value, name):
            if where in OF_THE_PARTS:
                continue
            for origin in mentioned(module, ast.parse(text, mode="eval").body):
                if origin in known or origin[1].startswith("_") or origin[1] in PARTS.get(where, ()):
                    continue
                if origin[0] == events.__name__ and hasattr(events, origin[1]):
                    continue
                if isinstance(getattr(importlib.import_module(origin[0]), origin[1], None), type):
                    found.add(f"{where}: {origin[1]} (of {origin[0]}) is not public")
    return sorted(found)


def test_every_type_that_a_public_signature_mentions_is_public() -> None:
    assert hidden({name: getattr(mercury, name) for name in mercury.__all__}) == []


def test_every_error_is_public() -> None:
    from mercury import errors  # noqa: PLC0415  beside its use

    mine = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert mine - set(mercury.__all__) == set()


@pytest.mark.parametrize("name", ["Outcome", "SequenceStatus", "SourcePolicy"])
def test_a_type_that_is_not_public_is_found(name: str) -> None:
    public = {each: getattr(mercury, each) for each in mercury.__all__ if each != name}
    assert any(f": {name} (of mercury." in line for line in hidden(public))
