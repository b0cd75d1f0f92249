"""`mercury.testing.StoreContract`: it detects a store that violates the contract, and includes all tests."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mercury.testing import StoreContract
from mercury.testing.contract import TESTS

ROOT = Path(__file__).resolve().parents[3]
CONTRACT = ROOT / "mercury/testing/contract"

BROKEN = """
import pytest
from mercury.storage.memory import MemoryStore
from mercury.testing import StoreContract


class Broken(MemoryStore):
{body}


class TestBroken(StoreContract):
    @pytest.fixture
    def open_store(self):
        return lambda name, *, lock_timeout: Broken(lock_timeout=lock_timeout)
"""


def names_in(file: Path) -> list[str]:
    found = ast.parse(file.read_text(encoding="utf-8")).body
    return [node.name for node in found if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


def test_every_file_of_the_contract_is_in_it_and_is_run_on_the_stores_of_mercury() -> None:
    files = {file.stem for file in CONTRACT.glob("*.py") if names_in(file)}
    assert files == set(TESTS)
    run = [file.read_text(encoding="utf-8") for file in (ROOT / "tests/conformance").glob("test_*.py")]
    assert [
        name for name in TESTS if not any(f"mercury.testing.contract.{name} import *" in text for text in run)
    ] == []


def test_every_test_of_the_contract_has_a_name_of_its_own() -> None:
    names = [name for file in TESTS for name in names_in(CONTRACT / f"{file}.py")]
    assert len(names) > 200
    assert sorted(names) == sorted(name for name in dir(StoreContract) if name.startswith("test_"))


def run_on(folder: Path, body: str, which: str) -> subprocess.CompletedProcess[str]:
    """The contract, as another project runs it."""
    (folder / "test_broken.py").write_text(BROKEN.format(body=body))
    options = [
        "-q",
        "-W",
        "error",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-c",
        os.devnull,
        "--rootdir",
        str(folder),
    ]
    command = [sys.executable, "-m", "pytest", *options, "-k", which, str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("body", "which"),
    [
        ("    def release(self, claim):\n        pass", "test_a_released_claim_can_be_taken_at_once"),
        ("    def check_claim(self, claim):\n        pass", "test_the_new_owner_commits_and_the_old_one_does_not"),
        (
            "    def listen(self, listener, others=None):\n        pass",
            "test_a_sequence_that_was_planned_in_the",
        ),
    ],
)
def test_a_store_that_breaks_the_contract_is_found(tmp_path: Path, body: str, which: str) -> None:
    done = run_on(tmp_path, body, which)
    assert done.returncode == 1, done.stdout
    assert "1 failed" in done.stdout
    whole = run_on(tmp_path, "    pass", which)
    assert (whole.returncode, "1 passed" in whole.stdout) == (0, True), whole.stdout


def test_a_class_without_the_fixture_gets_an_error_that_names_it(tmp_path: Path) -> None:
    text = "from mercury.testing import StoreContract\n\n\nclass TestNothing(StoreContract):\n    pass\n"
    (tmp_path / "test_nothing.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-c", os.devnull, str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert "the test class needs a fixture open_store" in done.stdout
