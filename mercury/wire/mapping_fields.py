"""The fields of a mapped class, which is a dataclass or a pydantic model.

Pydantic is installed with FastAPI, and only a server imports it. So a model is recognized by its attributes, not by its
base class.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Field:
    """One field that the constructor takes."""

    #: The name in Python.
    name: str
    #: The name of its element or attribute in XML.
    xml: object
    #: The keyword of the constructor.
    keyword: str
    #: The default or its factory; `MISSING` = the field has no default.
    default: Any


def is_model(cls: object) -> bool:
    """Whether ``cls`` is a pydantic model."""
    return isinstance(cls, type) and hasattr(cls, "model_fields") and hasattr(cls, "model_validate")


def is_mapped(cls: object) -> bool:
    """Whether ``cls`` is a dataclass or a pydantic model, and not an object of one."""
    return isinstance(cls, type) and (dataclasses.is_dataclass(cls) or is_model(cls))


def fields_of(cls: type[Any]) -> list[Field]:
    """The fields of a mapped class that its constructor takes, in their order.

    The XML name is that of ``field(metadata={"name": ...})``, or the alias of pydantic, or else the name of the field.
    """
    if not is_model(cls):
        return [_of_dataclass(field) for field in dataclasses.fields(cls) if field.init]
    return [_of_model(name, info) for name, info in cls.model_fields.items()]


def _of_dataclass(field: dataclasses.Field[Any]) -> Field:
    default = field.default if field.default_factory is MISSING else field.default_factory
    return Field(field.name, field.metadata.get("name", field.name), field.name, default)


def _of_model(name: str, info: Any) -> Field:
    factory = info.default_factory
    default = MISSING if info.is_required() else info.default if factory is None else factory
    alias = info.validation_alias if isinstance(info.validation_alias, str) else info.alias
    return Field(name, info.alias or name, alias or name, default)
