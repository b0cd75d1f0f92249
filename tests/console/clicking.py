"""What a user does in a real browser."""

from __future__ import annotations

from collections.abc import Callable

from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from .browsing import OPERATOR

#: Seconds that a condition may take.
PATIENCE = 20.0


def log_in(driver: WebDriver, url: str, token: str = OPERATOR) -> None:
    driver.get(f"{url}login")
    driver.delete_all_cookies()
    driver.get(f"{url}login")
    driver.find_element(By.ID, "token").send_keys(token)
    driver.find_element(By.ID, "name").send_keys("Ada", Keys.ENTER)
    wait(driver, lambda: driver.title.startswith("Overview"))


def wait(driver: WebDriver, condition: Callable[[], object]) -> None:
    """Wait until a condition is true; a live page may replace an element between its search and its use."""
    gone = [WebDriverException]  # an element that is replaced meanwhile is stale, or its node is unknown
    WebDriverWait(driver, PATIENCE, 0.02, ignored_exceptions=gone).until(lambda _: condition())


def main_text(driver: WebDriver) -> str:
    return driver.find_element(By.TAG_NAME, "main").text


def press(driver: WebDriver, text: str) -> None:
    """Press the first button or link with a text, sought again where the live page has replaced it."""
    path = f"//main//*[(self::button or self::a) and normalize-space()='{text}']"
    wait(driver, lambda: driver.find_element(By.XPATH, path).click() is None)


def complaints(driver: WebDriver) -> list[str]:
    """What the browser has refused, and errors of the script."""
    return [each["message"] for each in driver.get_log("browser") if each["level"] in ("SEVERE", "WARNING")]
