"""``mypy --strict`` outside the package accepts the samples, and the programs in the pages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .pages import ROOT
from .test_examples import HOW_TO, README, TUTORIAL, files_of, write


def check(folder: Path, *arguments: str) -> tuple[int, str]:
    """What mypy says of the files of a folder that is not in Mercury's tree, without Mercury's settings."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", os.devnull, *arguments]
    environment = {key: value for key, value in os.environ.items() if key not in ("MYPYPATH", "PYTHONPATH")}
    done = subprocess.run(
        [*command, "--cache-dir", str(ROOT / ".mypy_cache/outside")],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_samples_are_typed(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "samples", tmp_path / "samples", ignore=shutil.ignore_patterns("__pycache__"))
    assert check(tmp_path, "samples")[1].startswith("Success: no issues found in ")


@pytest.mark.parametrize(
    "shown",
    # The programs of the guides use the messages of README.
    [(README,), (TUTORIAL,), (README, *sorted(HOW_TO.glob("*.md")))],
    ids=["README", "tutorial", "how-to"],
)
def test_the_programs_that_pages_show_are_typed(shown: tuple[Path, ...], tmp_path: Path) -> None:
    for page in shown:
        write(page, tmp_path, "127.0.0.1:8000")
    names = sorted({name for page in shown for name in files_of(page)})
    assert names
    assert check(tmp_path, "--explicit-package-bases", *names)[1].startswith("Success: no issues found in ")


WRONG = """
from mercury import Contract, Mercury, operation
from messages import PlaceOrder


class Orders(Contract):
    @operation
    def place(self, order: PlaceOrder) -> PlaceOrder:
        raise NotImplementedError

    @operation
    def note(self, order: PlaceOrder) -> None: ...


with Mercury() as mercury:
    orders = mercury.to("http://127.0.0.1:8000/services/orders", service=Orders("orders"))
    reveal_type(orders.place(PlaceOrder(1, "Ada")))
    reveal_type(orders.note(PlaceOrder(1, "Ada")))
    orders.place("Ada")
    with mercury.transaction() as tx:
        orders.sender.send(PlaceOrder(1, "Ada"), tx=1)
"""


def test_mismatch_is_found_by_the_type_checker(tmp_path: Path) -> None:
    write(README, tmp_path, "127.0.0.1:8000")
    (tmp_path / "wrong.py").write_text(WRONG)
    code, said = check(tmp_path, "wrong.py")
    assert code == 1
    assert 'Revealed type is "concurrent.futures._base.Future[messages.PlaceOrder]"' in said
    assert 'Revealed type is "mercury.client.results.Receipt"' in said
    assert said.count(" error: ") == 2, said
    assert 'has incompatible type "str"; expected "PlaceOrder"' in said
