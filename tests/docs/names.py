"""Writes docs/names.md, with all public names and calls, from the docstrings.

``python -m tests.docs.names`` writes the page. A test checks that it is current.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import mercury

from .pages import ROOT

PAGE = ROOT / "docs/names.md"
HEAD = """# The names and calls of `mercury`

Written from the docstrings by `python -m tests.docs.names`. [reference.md](reference.md) has the short form, settings,
commands and limits, and a table of the [events](reference.md#events).
"""


def markdown(docstring: str | None) -> str:
    """A docstring as Markdown: paragraphs, code blocks, and a list of parameters, results and errors."""
    text = inspect.cleandoc(docstring or "")
    text = re.sub(r"``([^`\n]+)``", r"`\1`", text).replace("cannot", "cannot")
    lines: list[str] = []
    for line in text.splitlines():
        field = re.match(r":(param|raises|returns)(?: ([\w.]+))?: (.*)", line)
        if field is None:
            lines.append(line)
            continue
        kind, name, rest = field.groups()
        label = {"param": f"`{name}`", "raises": f"raises `{name}`", "returns": "returns"}[kind]
        if lines and lines[-1] and not lines[-1].startswith(("- ", "  ")):
            lines.append("")
        lines.append(f"- {label}: {rest}")
    found = re.sub(r"^ {4}", "  ", "\n".join(lines), flags=re.MULTILINE) if "\n- " in "\n" + "\n".join(lines) else text
    return re.sub(r"::$", ":", found, flags=re.MULTILINE) if "::\n" not in found else _fenced(found)


def _fenced(text: str) -> str:
    """Blocks that follow ``::`` between fences."""
    head, _, rest = text.partition("::\n")
    indented = re.match(r"\n((?:(?: +[^\n]*)?\n?)+)", rest)
    if indented is None:
        return text
    block, after = textwrap.dedent(indented[1]).strip("\n"), rest[indented.end() :].strip("\n")
    return f"{head}:\n\n```\n{block}\n```" + (f"\n\n{after}" if after else "")


def shown(name: str, function: Any) -> str:
    """A call with its parameters, their types and defaults."""
    signature = inspect.signature(function)
    words, star = [], False
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            star = True
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            star = True
            words.append("*")
        mark = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        word = mark + parameter.name
        if parameter.annotation is not parameter.empty:
            word += f": {_type(parameter.annotation)}"
        if parameter.default is not parameter.empty:
            word += f" = {default(parameter.default)}"
        words.append(word)
    returns = "" if signature.return_annotation is signature.empty else f" -> {_type(signature.return_annotation)}"
    prefix = "async " if inspect.iscoroutinefunction(function) else ""
    return f"{prefix}{name}({', '.join(words)}){returns}"


def _type(annotation: Any) -> str:
    return annotation.strip("\"'") if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def default(value: object) -> str:
    """A default, without what differs from one process to the next."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if dataclasses.is_dataclass(value):
        return f"{type(value).__name__}()"
    return "..." if " at 0x" in repr(value) or repr(value).startswith("<") else repr(value)


def comments(cls: type) -> dict[str, str]:
    """What ``#:`` says above the fields of a class."""
    source = textwrap.dedent(inspect.getsource(cls))
    lines, found = source.splitlines(), {}
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef)
    for node in body.body:
        target = (
            node.target
            if isinstance(node, ast.AnnAssign)
            else node.targets[0]
            if isinstance(node, ast.Assign)
            else None
        )
        if isinstance(target, ast.Name):
            said: list[str] = []
            row = node.lineno - 2
            while row >= 0 and lines[row].strip().startswith("#:"):
                said.insert(0, lines[row].strip().removeprefix("#:").strip())
                row -= 1
            found[target.id] = markdown(" ".join(said))
    return found


def bases(cls: type) -> list[type]:
    return [base for base in reversed(cls.__mro__) if base.__module__.startswith("mercury")]


def of_class(name: str, cls: type) -> Iterator[str]:
    """A class: what it is, how it is made, what it has."""
    yield f"\n## `{name}`\n\n{markdown(cls.__doc__)}\n"
    said: dict[str, str] = {}
    for base in bases(cls):
        said |= comments(base)
    if issubclass(cls, enum.Enum):
        yield "\n" + "".join(_item(f"{member.name}", said.get(member.name, "")) for member in cls)
        return
    if dataclasses.is_dataclass(cls):
        fields = [field for field in dataclasses.fields(cls) if not field.name.startswith("_")]
        yield "\n" + "".join(_item(f"{each.name}: {_type(each.type)}", said.get(each.name, "")) for each in fields)
    elif "__init__" in vars(cls) and not issubclass(cls, BaseException) and name == "Mercury":
        yield f"\n```\n{shown(name, cls.__init__)}\n```\n"
    members: dict[str, Any] = {}
    for base in bases(cls):
        members |= {key: value for key, value in vars(base).items() if not key.startswith("_") or key == "__call__"}
    for key, value in members.items():
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if not inspect.isfunction(function) or not function.__doc__:
            continue
        call = f"{key}: {_type(function.__annotations__.get('return', ''))}"
        if not isinstance(value, property):
            call = shown(key, function)
        yield f"\n### `{name}.{key}`\n\n```\n{call}\n```\n\n{markdown(function.__doc__)}\n"


def _item(what: str, said: str) -> str:
    return f"- `{what}`" + (f": {said}" if said else "") + "\n"


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for name in sorted(mercury.__all__, key=str.lower):
        value = getattr(mercury, name)
        if isinstance(value, type):
            parts += of_class(name, value)
        elif inspect.isfunction(value):
            parts.append(f"\n## `{name}`\n\n```\n{shown(name, value)}\n```\n\n{markdown(value.__doc__)}\n")
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
