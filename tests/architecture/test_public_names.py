"""The public names are sorted and loadable, and the three places that list them agree."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import mercury
import mercury.testing


def disagreements(module: ModuleType, path: Path) -> list[str]:
    """What ``__all__``, ``_WHERE``, ``__dir__`` and the imports for type checkers do not agree about."""
    names: list[str] = module.__all__
    where: dict[str, str] = vars(module)["_WHERE"]
    hinted = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for statement in node.body:
                assert isinstance(statement, ast.ImportFrom)
                hinted.update({alias.asname or alias.name: statement.module for alias in statement.names})
    found = []
    if names != sorted(set(names)):
        found.append("__all__ is not sorted, or says something twice")
    found += [f"{name}: in __all__ and not in _WHERE" for name in names if name not in where]
    found += [f"{name}: in _WHERE and not in __all__" for name in where if name not in names]
    found += [f"{name}: not imported for type checkers" for name in names if name not in hinted]
    found += [f"{name}: imported for type checkers and not public" for name in hinted if name not in names]
    for name in names:
        if where.get(name) != hinted.get(name):
            found.append(f"{name}: loaded from {where.get(name)}, for type checkers from {hinted.get(name)}")
        try:
            getattr(module, name)
        except (AttributeError, ImportError) as error:
            found.append(f"{name}: {error}")
    if dir(module) != names:
        found.append("__dir__ is not __all__")
    return found


@pytest.mark.parametrize("module", [mercury, mercury.testing], ids=lambda module: module.__name__)
def test_the_public_names_agree(module: ModuleType) -> None:
    assert module.__file__ is not None
    assert disagreements(module, Path(module.__file__)) == []


def test_a_star_import_brings_the_public_names() -> None:
    brought: dict[str, object] = {}
    exec("from mercury import *", brought)
    assert set(brought) - {"__builtins__"} == set(mercury.__all__)


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'mercury' has no attribute 'Merkury'"):
        mercury.Merkury  # noqa: B018
    assert not hasattr(mercury, "storage3")


GOOD = """
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from decimal import Decimal
    from fractions import Fraction

_WHERE = {"Decimal": "decimal", "Fraction": "fractions"}
__all__ = ["Decimal", "Fraction"]

def __getattr__(name):
    if name not in _WHERE:
        raise AttributeError(name)
    return getattr(import_module(_WHERE[name]), name)

def __dir__():
    return sorted(__all__)
"""


def planted(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "planted.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("planted", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return disagreements(module, file)


def test_names_that_agree_are_not_found(tmp_path: Path) -> None:
    assert planted(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ('["Decimal", "Fraction"]', '["Fraction", "Decimal"]', "__all__ is not sorted"),
        ('["Decimal", "Fraction"]', '["Decimal", "Decimal", "Fraction"]', "or says something twice"),
        ('["Decimal", "Fraction"]', '["Decimal"]', "Fraction: in _WHERE and not in __all__"),
        (', "Fraction": "fractions"', "", "Fraction: in __all__ and not in _WHERE"),
        ("    from fractions import Fraction\n", "", "Fraction: not imported for type checkers"),
        ("import Fraction\n", "import Fraction, gcd\n", "gcd: imported for type checkers and not public"),
        ('"Fraction": "fractions"', '"Fraction": "decimal"', "Fraction: loaded from decimal, for type checkers from"),
        ('"Fraction": "fractions"', '"Fraction": "nowhere"', "Fraction: No module named 'nowhere'"),
        ("from fractions import Fraction", "from decimal import Fraction", "for type checkers from decimal"),
        ("return sorted(__all__)", "return ['a']", "__dir__ is not __all__"),
    ],
)  # fmt: skip
def test_names_that_do_not_agree_are_found(tmp_path: Path, before: str, after: str, found: str) -> None:
    assert GOOD.count(before) == 1
    told = "\n".join(planted(tmp_path, GOOD.replace(before, after)))
    assert re.search(re.escape(found), told)
