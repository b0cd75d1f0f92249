"""No module of Mercury has state; see `state` for the rule."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

import pytest

from .imports import module_name, python_files
from .state import changeable

ROOT = Path(__file__).resolve().parents[2]

#: Dicts of the state machines that are not wrapped. The list may only become shorter.
STILL_PLAIN = (
    "mercury/statemachine/rms_table.py: RMS",
    "mercury/statemachine/rmd_table.py: RMD",
    "mercury/statemachine/invoker_table.py: INVOKER",
    "mercury/statemachine/tables.py: ALL",
    "mercury/statemachine/render.py: OTHER_NAMES",
    "mercury/statemachine/render.py: LEGEND",
)


def test_no_module_has_state() -> None:
    found = []
    for file in python_files(ROOT, "mercury"):
        module = importlib.import_module(module_name(ROOT, file))
        found += [each.removeprefix(f"{ROOT}/") for each in changeable(module, file)]
    plain = {f"{each.split(':')[0]}: {each.split(' ')[1]}" for each in found}
    assert [each for each in found if f"{each.split(':')[0]}: {each.split(' ')[1]}" not in STILL_PLAIN] == []
    assert [each for each in STILL_PLAIN if each not in plain] == [], "take it off the list"


def loaded(tmp_path: Path, text: str) -> list[str]:
    """What is found in a module of this text."""
    file = tmp_path / "planted.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("planted", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [each.removeprefix(f"{file}:") for each in changeable(module, file)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("cache = {}", "1: cache is a dict"),
        ("\nSEEN = []", "2: SEEN is a list"),
        ("NAMES = {'a'}", "1: NAMES is a set"),
        ("NAMES: dict[str, int] = dict(a=1)", "1: NAMES is a dict"),
        ("a = [1]", "1: a is a list"),
        ("A, B = 1, []", "1: B is a list"),
        ("PAIRS = (1, [2])", "1: PAIRS has something in it that is a list"),
        ("import types\nA = types.MappingProxyType({'a': []})", "2: A has something in it that is a list"),
        ("_SEEN = {}\ndef f():\n    _SEEN['a'] = 1", "1: _SEEN is a dict"),
        ("_SEEN = {}\ndef f():\n    del _SEEN['a']", "1: _SEEN is a dict"),
        ("_SEEN = {}\ndef f():\n    _SEEN.update(a=1)", "1: _SEEN is a dict"),
        ("_SEEN = {}\n_SEEN |= {'a': 1}", "1: _SEEN is a dict"),
        ("_SEEN = {'a': []}", "1: _SEEN is a dict"),
        ("_seen = {'a': 1}", "1: _seen is a dict"),
        ("import threading\nlock = threading.Lock()", "2: lock is a lock"),
        ("import itertools\nids = itertools.count()", "2: ids is a count"),
        ("import contextvars\ncurrent = contextvars.ContextVar('current')", "2: current is a ContextVar"),
        ("class Registry:\n    pass\nregistry = Registry()", "3: registry is a Registry"),
        (
            "from dataclasses import dataclass\n@dataclass\nclass A:\n    a: int = 1\nCURRENT = A()",
            "5: CURRENT is a A, a dataclass that is not frozen",
        ),
        (
            "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass A:\n    a: list\nCURRENT = A([])",
            "5: CURRENT has something in it that is a list",
        ),
        ("current = None\ndef f():\n    global current\n    current = 1", "3: global current"),
        ("class A:\n    seen = []", "2: A.seen is a list"),
        ("class A:\n    seen: dict[str, int] = {}", "2: A.seen is a dict"),
        ("from functools import cache\n@cache\ndef f(a): pass", "3: f is a cache without a bound"),
        ("import functools\n@functools.lru_cache(None)\ndef f(a): pass", "3: f is a cache without a bound"),
        ("from functools import cache\nclass A:\n    @cache\n    def f(self): pass", "4: A.f is a cache without"),
        ("try:\n    a = []\nfinally:\n    pass", "2: a is a list"),
        ("if True:\n    a = []", "2: a is a list"),
    ],
)  # fmt: skip
def test_state_is_found_with_its_line(tmp_path: Path, text: str, found: str) -> None:
    (only,) = loaded(tmp_path, text)
    assert only.startswith(found)


@pytest.mark.parametrize(
    "text",
    [
        "A, B = 1, 'text'\nC = (1, (2, frozenset({3})))\nD = None\nE = ...",
        "import re\nA = re.compile('a')",
        "from operator import attrgetter, itemgetter\nA, B = attrgetter('a'), itemgetter('a')",
        "import enum\nclass A(enum.Enum):\n    ONE = 1\nB = A.ONE\nC = (A.ONE,)",
        "from types import MappingProxyType\nA = MappingProxyType({'a': (1, 2)})",
        "_A = {'a': 1, 'b': (1, 2)}\ndef f(name):\n    return _A[name], _A.get(name), list(_A)",
        "__all__ = ['A']\nA = 1",
        "import logging\nlog = logging.getLogger('a')",
        "from functools import lru_cache\n@lru_cache(maxsize=8)\ndef f(a): pass\ng = lru_cache(f)",
        "from typing import Callable, TypeVar, Annotated, Union\nT = TypeVar('T')\nA = Callable[[int], T]\n"
        "B = int | str\nC = Annotated[int, 'a']\nD = Union[int, str]\nE = dict[str, list[int]]\nF = tuple[int, ...]",
        "from collections.abc import Callable\nA = Callable[[int], None]",
        "from dataclasses import dataclass, field\n@dataclass(frozen=True)\nclass A:\n    a: tuple = (1,)\nB = A()",
        "from dataclasses import dataclass, field\n@dataclass\nclass A:\n    a: list = field(default_factory=list)",
        "class A:\n    __slots__ = ('a',)\n    B = 1\n    @property\n    def c(self): return []",
        "def f():\n    found = []\n    return found",
    ],
)
def test_immutable_module_state_is_not_reported(tmp_path: Path, text: str) -> None:
    assert loaded(tmp_path, text) == []
