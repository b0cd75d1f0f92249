"""Reports of the reconciler: those in the folder are shown, nothing else of the machine is, and one can be begun."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mercury.operations.operator import Operations
from mercury.storage.sql.store import SqlStore
from mercury.testing import FakeClock
from tests.acceptance.processes import eventually

from .browsing import SETTINGS, Browser, console_of, serving


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, verdict in (("monday", "Reconciled"), ("tuesday", "Not reconciled")):
        (tmp_path / "reports" / name).mkdir(parents=True)
        (tmp_path / "reports" / name / "report.html").write_text(
            f"<html><title>{verdict}: a and b</title><script>1</script>"
        )
    (tmp_path / "report.html").write_text("a secret")
    return tmp_path / "reports"


@pytest.fixture
def browser(store: SqlStore, clock: FakeClock, folder: Path) -> Iterator[Browser]:
    console = console_of(store, clock, replace(SETTINGS, reports=str(folder)))
    with contextlib.closing(console), serving(console.application()) as url:
        made = Browser(url)
        made.log_in()
        yield made


def test_reports_are_listed_with_their_results_and_shown_where_they_can_do_nothing(browser: Browser) -> None:
    page = browser.get("reconcile")
    assert "monday reconciled" in page.words
    assert "tuesday not reconciled" in page.words
    report = browser.get("report?name=tuesday")
    assert report.status == 200
    assert report.headers["content-security-policy"].startswith("sandbox; default-src 'none'")


@pytest.mark.parametrize(
    "name", ["..", ".", "../reports/monday", "/etc", "%2e%2e", "nothing", "", "monday/report.html"]
)
def test_no_other_file_is_shown(browser: Browser, name: str) -> None:
    assert browser.get(f"report?name={name}").status == 404


@pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="needs the extra spark")
def test_a_comparison_that_cannot_run_says_why(
    browser: Browser, folder: Path, store: SqlStore, clock: FakeClock
) -> None:
    (folder / "broken.toml").write_text("[client]\nurl = 'sqlite:///nothing.db'\n")
    page = browser.get("reconcile")
    assert "Start" in page.words
    done = browser.submit(page, "reconcile-start")
    assert "The comparison broken is running." in done.words
    eventually(lambda: "exit code 2" in browser.get("reconcile").words, "the comparison has ended")
    entry = Operations(store, clock).audit().items[0]
    assert (entry.action, entry.kind.value, entry.target) == ("reconcile", "comparison", "broken")
    assert browser.post("reconcile-start", page.form("reconcile-start") | {"name": "../broken"}).status == 400
