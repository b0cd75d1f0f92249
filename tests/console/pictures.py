"""Makes the pictures of docs/console.md from the prepared store: ``python -m tests.console.pictures``."""

from __future__ import annotations

import base64
import contextlib
import datetime
import io
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from PIL import Image
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from mercury.storage.opening import name_resources, open_sql_store
from mercury.testing import postgres_server
from tests.xa.places import Places, fill_application

from .browsing import OPERATOR, SETTINGS, console_of, serving
from .chromium import chromium
from .in_doubt import leave_in_doubt
from .prepared import BILLING, Prepared, prepare

FOLDER = Path(__file__).resolve().parents[2] / "docs/images"
#: The width of a page, and the most of its height that a picture shows.
WIDTH, MOST = 1240, 1250
COLORS = 64


def pages(prepared: Prepared) -> dict[str, str]:
    """The pictures, each with its page."""
    return {
        "overview": "",
        "sequences": "sequences",
        "sequence": f"sequence?id={prepared.gap}",
        "messages": "messages?direction=inbound",
        "message": "message?direction=inbound&position=1",
        "letters": "letters",
        "letter": "letter?id=letter-8",
        "redrive": f"letters-redrive?endpoint={BILLING}",
        "services": "services",
        "doubt": "doubt",
        "reconcile": "reconcile",
        "nodes": "nodes",
        "audit": "audit",
    }


def reports(folder: Path) -> Path:
    """A folder with reports of two days."""
    for day, verdict in (("2026-01-01", "Reconciled"), ("2025-12-31", "Not reconciled")):
        (folder / day).mkdir(parents=True)
        file = folder / day / "report.html"
        file.write_text(f"<title>{verdict}: orders and received_orders</title>", encoding="utf-8")
        at = datetime.datetime.fromisoformat(f"{day} 00:01:00+00:00").timestamp()
        os.utime(file, (at, at))
    (folder / "orders.toml").write_text("", encoding="utf-8")
    return folder


def log_in(driver: WebDriver, url: str) -> None:
    driver.get(f"{url}login")
    driver.find_element(By.ID, "token").send_keys(OPERATOR)
    driver.find_element(By.ID, "name").send_keys("Ada")
    driver.find_element(By.CSS_SELECTOR, "form button.main").click()
    WebDriverWait(driver, 20).until(lambda each: each.title.startswith("Overview"))


def take(driver: WebDriver, name: str) -> int:
    """Write the picture of the current page; its size in bytes."""
    height = min(MOST, driver.execute_script("return document.documentElement.scrollHeight"))
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1}
    taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    picture = Image.open(io.BytesIO(base64.b64decode(taken["data"]))).convert("RGB")
    file = FOLDER / f"console-{name}.png"
    picture.quantize(COLORS, dither=Image.Dither.NONE).save(file, optimize=True)
    return file.stat().st_size


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        prepared = prepare(folder)
        app = stack.enter_context(postgres_server()).create()
        fill_application(app)
        places = Places(prepared.url, app)
        leave_in_doubt(places, prepared.clock.now - 12.0)
        stack.callback(places.clean)
        store = stack.enter_context(contextlib.closing(open_sql_store(prepared.url)))
        coordinator = name_resources(store, {"app": app})
        settings = replace(SETTINGS, reports=str(reports(folder / "reports")))
        console = console_of(store, prepared.clock, settings, coordinator=lambda: coordinator)
        url = stack.enter_context(serving(console.application()))
        driver = stack.enter_context(chromium(width=WIDTH))
        driver.get(f"{url}login")
        sizes = {"login": take(driver, "login")}
        log_in(driver, url)
        for name, page in pages(prepared).items():
            driver.get(f"{url}{page}")
            sizes[name] = take(driver, name)
    sys.stdout.write("".join(f"{size:>7} console-{name}.png\n" for name, size in sizes.items()))


if __name__ == "__main__":
    main()
