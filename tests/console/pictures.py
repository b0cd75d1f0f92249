"""Makes the pictures of docs/console.md from the prepared store: ``python -m tests.console.pictures``."""

from __future__ import annotations

import base64
import contextlib
import io
import sys
from pathlib import Path
from unittest.mock import patch

from PIL import Image
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from mercury.operations.operator import Operations
from mercury.storage.audit import Actor
from mercury.storage.bulk import BulkAction
from mercury.storage.letters import LetterFilter
from mercury.storage.opening import open_sql_store

from .browsing import OPERATOR
from .chromium import chromium
from .prepared import BILLING, Prepared
from .trial import trial

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
        "done": "messages?state=done",
    }


def begin(prepared: Prepared) -> int:
    """Begin a bulk action, and stop it after some of its letters; returns its number."""
    with contextlib.closing(open_sql_store(prepared.url)) as store:
        actions = Operations(store, prepared.clock).bulk_actions
        number = actions.begin(BulkAction.REDRIVE, LetterFilter(endpoint=BILLING), Actor("Ada"), reason="it is back").id
        with patch("mercury.operations.letter_actions.BATCH", 4):
            actions.advance(number)
        return actions.stop(number).id


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
    with trial() as made, chromium(width=WIDTH) as driver:
        url = made.url
        driver.get(f"{url}login")
        sizes = {"login": take(driver, "login")}
        log_in(driver, url)
        for name, page in pages(made.prepared).items():
            driver.get(f"{url}{page}")
            sizes[name] = take(driver, name)
        driver.get(f"{url}bulk?id={begin(made.prepared)}")
        sizes["bulk"] = take(driver, "bulk")
    sys.stdout.write("".join(f"{size:>7} console-{name}.png\n" for name, size in sizes.items()))


if __name__ == "__main__":
    main()
