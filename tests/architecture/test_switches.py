"""Production code has no switch for tests; see `switches`."""

from __future__ import annotations

from pathlib import Path

import pytest

from .switches import switches

ROOT = Path(__file__).resolve().parents[2]


def test_production_code_does_not_know_that_it_is_tested() -> None:
    assert switches(ROOT) == []


def planted(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "mercury/engine/a.py"
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    return switches(tmp_path)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import pytest", "1: imports pytest"),
        ("from unittest.mock import patch", "1: imports unittest.mock"),
        ("from tests.conformance import builders", "1: imports tests.conformance"),
        ("\nif testing:\n    pass", "2: the name testing"),
        ("if not TESTING: pass", "1: the name TESTING"),
        ("if settings.test_mode: pass", "1: the name test_mode"),
        ("def f(*, is_test=False): pass", "1: the name is_test"),
        ("f(for_tests=True)", "1: the name for_tests"),
        ("def under_test(): pass", "1: the name under_test"),
        ("class Testing: pass", "1: the name Testing"),
        ("a = _in_test_mode", "1: the name _in_test_mode"),
        ("import os\na = os.environ.get('MERCURY_TEST_CLOCK')", "2: the text 'MERCURY_TEST_CLOCK'"),
        ("import os\na = 'PYTEST_CURRENT_TEST' in os.environ", "2: the text 'PYTEST_CURRENT_TEST'"),
        ("import sys\na = 'pytest' in sys.modules", "2: the text 'pytest'"),
    ],
)
def test_a_switch_is_found_with_its_line(tmp_path: Path, text: str, found: str) -> None:
    assert planted(tmp_path, text) == [f"mercury/engine/a.py:{found}"]


@pytest.mark.parametrize(
    "text",
    [
        '"""A test says why; pytest runs it."""',
        "def f():\n    '''For tests.'''\n    # if testing",
        "latest = attest = contest = fastest = protested = greatest = 1",
        "text = 'a test message'",
        "import mercury.wire.values",
    ],
)
def test_text_that_mentions_tests_is_not_reported(tmp_path: Path, text: str) -> None:
    assert planted(tmp_path, text) == []


def test_only_the_tests_that_are_shipped_may_know_pytest(tmp_path: Path) -> None:
    for name in ("mercury/testing/contract/a.py", "mercury/testing/a.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("import pytest\n", encoding="utf-8")
    assert switches(tmp_path) == ["mercury/testing/a.py:1: imports pytest"]
