"""The values of settings, as texts in the environment and as values in a TOML file."""

from __future__ import annotations

import enum
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, cast

from mercury.choices import chosen, member
from mercury.errors import ConfigurationError


def from_text(text: str, kind: Any, where: str) -> object:
    """The value of a setting in an environment variable.

    :param kind: the type of the setting's field.
    :param where: the variable, for the text of an error.
    :raises ConfigurationError: the text is not such a value.
    """
    kind, optional = _optional(kind)
    if optional and text.strip().lower() in ("", "none"):
        return None
    if typing.get_origin(kind) is tuple:
        return tuple(item.strip() for item in text.split(",") if item.strip())
    if kind is bool:
        known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        return chosen(known, text.strip().lower(), where)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return member(kind, text.strip(), where)
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or _not_finite(value):
        raise ConfigurationError(f"{where}: {text!r} is not {_NAMES.get(kind, kind.__name__)}")
    return cast(object, value)


def from_toml(value: object, kind: Any, where: str, *, secret: bool = False) -> object:
    """The value of a setting in a TOML file; see `from_text`.

    :param secret: an error does not show the value.
    """
    kind, optional = _optional(kind)
    if optional and value in ("", "none"):
        return None
    if typing.get_origin(kind) is tuple:
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        raise ConfigurationError(f"{where}: a list of texts is wanted")
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return member(kind, str(value), where)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not kind or _not_finite(value):
        wanted = _NAMES.get(kind, kind.__name__)
        if secret:
            raise ConfigurationError(f"{where}: this is not {wanted}: write it in quotes")
        raise ConfigurationError(f"{where}: {value!r} is not {wanted}")
    return value


def _not_finite(value: object) -> bool:
    """NaN or infinity: nothing that is set by it could be relied on."""
    return isinstance(value, float) and not math.isfinite(value)


_NAMES: Mapping[type, str] = types.MappingProxyType(
    {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
)


def _optional(kind: Any) -> tuple[Any, bool]:
    members = typing.get_args(kind)
    if types.NoneType in members and typing.get_origin(kind) in (typing.Union, types.UnionType):
        (inner,) = (each for each in members if each is not types.NoneType)
        return inner, True
    return kind, False
