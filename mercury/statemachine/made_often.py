"""Frozen dataclasses of which each message makes several objects."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, TypeVar

T = TypeVar("T")


def made_often(kind: type[T]) -> type[T]:
    """Let the ``__init__`` of a frozen dataclass with slots set many fields in a third of the time.

    That of `dataclasses` calls ``object.__setattr__`` for each field, because its class refuses to set them. Here an
    object is of a class with the same slots and without that refusal while its fields are set. For classes with at
    least four fields; what is made of them is as before.
    """
    given = [each for each in fields(kind) if each.init]  # type: ignore[arg-type]
    # No field has a name that begins like these. A class that refuses to set attributes refuses another class too.
    become = object.__dict__["__class__"].__set__
    names: dict[str, Any] = {"_0_become": become, "_0_absent": object(), "_0_frozen": kind}
    names["_0_open"] = type(kind.__name__, (), {"__slots__": kind.__dict__["__slots__"]})
    before = names["_0_before"] = kind.__dict__["__init__"]
    parameters, arguments, lines = ["self"], ["self"], ["_0_become(self, _0_open)"]
    for each in sorted(given, key=lambda field: bool(field.kw_only)):
        name, value = each.name, each.name
        if each.kw_only and "*" not in parameters:
            parameters.append("*")
        if each.default_factory is not MISSING:
            names[f"_0_new_{name}"] = each.default_factory
            value = f"_0_new_{name}() if {name} is _0_absent else {name}"
            parameters.append(f"{name}=_0_absent")
        elif each.default is not MISSING:
            names[f"_0_default_{name}"] = each.default
            parameters.append(f"{name}=_0_default_{name}")
        else:
            parameters.append(name)
        arguments.append(f"{name}={value}")
        lines.append(f"self.{name} = {value}")
    lines.append("self.__class__ = _0_frozen")
    if hasattr(kind, "__post_init__"):
        lines.append("self.__post_init__()")
    # A subclass may have other slots.
    lines = [f"if type(self) is not _0_frozen: return _0_before({', '.join(arguments)})", *lines]
    code = "\n    ".join([f"def __init__({', '.join(parameters)}):", *lines])
    exec(code, names)  # noqa: S102  only names of fields are in it
    made = names["__init__"]
    made.__qualname__, made.__annotations__ = before.__qualname__, before.__annotations__
    made.__module__ = kind.__module__
    setattr(kind, "__init__", made)  # noqa: B010
    return kind
