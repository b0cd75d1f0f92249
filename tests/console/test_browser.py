"""The console in a real browser: every page, both roles, actions, pages that stay current, scripts in stored texts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from selenium.webdriver.chrome.webdriver import WebDriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from mercury.operations.operator import Operations
from mercury.storage.audit import Actor
from mercury.storage.letters import LetterFilter
from mercury.storage.opening import open_sql_store
from mercury.storage.sql.store import SqlStore

from .attack import text_of
from .browsing import OPERATOR, READER, console_of, serving
from .chromium import missing
from .clicking import complaints, log_in, main_text, press, wait
from .pictures import pages
from .prepared import BILLING, Prepared, prepare

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepare(tmp_path_factory.mktemp("prepared"))


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepare(tmp_path_factory.mktemp("attacked"), text_of)


@pytest.fixture
def store(prepared: Prepared) -> Iterator[SqlStore]:
    with contextlib.closing(open_sql_store(prepared.url)) as opened:
        yield opened


@pytest.fixture
def url(store: SqlStore, prepared: Prepared, driver: WebDriver) -> Iterator[str]:
    with serving(console_of(store, prepared.clock).application()) as at:
        yield at
        driver.get("about:blank")


@pytest.mark.parametrize("token", [OPERATOR, READER])
def test_every_page_is_shown_in_both_roles_without_a_complaint_of_the_browser(
    driver: WebDriver, url: str, prepared: Prepared, token: str
) -> None:
    log_in(driver, url, token)
    complaints(driver)
    for page in pages(prepared).values():
        driver.get(f"{url}{page}")
        if page.startswith("letters-redrive") and token == READER:
            assert "logged in as a reader" in main_text(driver)
            complaints(driver)
            continue
        assert driver.find_element(By.TAG_NAME, "h1").text
        loaded = driver.execute_script("return performance.getEntriesByType('resource').map(each => each.name)")
        assert all(each.startswith(url) for each in loaded)
        assert complaints(driver) == []
        # Nothing is wider than the window, but for tables, which scroll by themselves.
        assert driver.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")


def test_the_reasons_of_the_audit_are_in_sight(driver: WebDriver, url: str) -> None:
    log_in(driver, url)
    driver.get(f"{url}audit")
    reasons = driver.find_elements(By.CSS_SELECTOR, "#list .reason")
    assert {"Reason the new price list is wrong", "Reason the warehouse moves"} <= {each.text for each in reasons}
    frame = driver.find_element(By.CSS_SELECTOR, "#list .table").rect
    assert all(each.rect["x"] + each.rect["width"] <= frame["x"] + frame["width"] for each in reasons)


def test_a_page_of_nothing_leads_back_to_the_page_before(driver: WebDriver, url: str) -> None:
    log_in(driver, url)
    driver.get(f"{url}letters?endpoint={BILLING}")
    driver.get(f"{url}letter?id=never")
    driver.find_element(By.ID, "back").click()
    wait(driver, lambda: driver.current_url == f"{url}letters?endpoint={BILLING}")


def test_the_dead_letters_of_one_peer_are_redriven_by_clicks(
    driver: WebDriver, url: str, store: SqlStore, prepared: Prepared
) -> None:
    log_in(driver, url)
    driver.find_element(By.PARTIAL_LINK_TEXT, "dead letters wait for a decision").click()
    row = driver.find_element(By.XPATH, f"//tr[td[contains(., '{BILLING}')]]")
    row.find_element(By.PARTIAL_LINK_TEXT, "Redrive").click()
    assert "Redrive 7 dead letters?" in main_text(driver)
    press(driver, "Redrive")
    wait(driver, lambda: "7 redriven." in main_text(driver))
    assert Operations(store, prepared.clock).letters.page(LetterFilter(endpoint=BILLING)).items == ()


def test_a_page_shows_what_happens_while_it_is_open(
    driver: WebDriver, url: str, store: SqlStore, prepared: Prepared
) -> None:
    log_in(driver, url)
    driver.get(f"{url}service?name=orders")
    wait(driver, lambda: driver.find_element(By.ID, "live").text == "live")
    operations = Operations(store, prepared.clock)
    operations.service_actions.pause("orders", Actor("Linus"))
    wait(driver, lambda: "Paused by Linus" in main_text(driver))
    press(driver, "Resume")  # the form of the new content is this session's
    wait(driver, lambda: "Resumed: what waits is delivered now." in main_text(driver))


def test_a_page_that_is_open_does_not_take_the_focus_of_the_keyboard(
    driver: WebDriver, url: str, store: SqlStore, prepared: Prepared
) -> None:
    log_in(driver, url)
    driver.get(f"{url}service?name=orders")
    wait(driver, lambda: driver.find_element(By.ID, "live").text == "live")
    driver.execute_script("document.querySelector('#state button').focus()")
    operations = Operations(store, prepared.clock)
    operations.service_actions.pause("orders", Actor("Barbara"))
    wait(driver, lambda: driver.find_element(By.ID, "live").text == "live, but for the part in use")
    assert driver.switch_to.active_element.text == "Pause"
    driver.execute_script("document.activeElement.blur()")
    wait(driver, lambda: "Paused by Barbara" in main_text(driver))
    operations.service_actions.resume("orders", Actor("Barbara"))


def test_a_page_that_is_open_shows_the_login_when_the_session_has_ended(
    driver: WebDriver, url: str, prepared: Prepared
) -> None:
    log_in(driver, url)
    wait(driver, lambda: driver.find_element(By.ID, "live").text == "live")
    prepared.clock.advance(9 * 3600)
    wait(driver, lambda: driver.title.startswith("Log in"))
    prepared.clock.advance(-9 * 3600)


def test_the_keyboard_reaches_the_content_and_the_pages(driver: WebDriver, url: str) -> None:
    log_in(driver, url)
    driver.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    assert driver.switch_to.active_element.text == "Skip to the content"
    driver.switch_to.active_element.send_keys(Keys.ENTER)
    assert driver.switch_to.active_element.get_attribute("id") == "main"
    keys = [each.get_attribute("accesskey") for each in driver.find_elements(By.CSS_SELECTOR, "nav a")]
    assert keys == [str(number) for number in range(1, 10)]


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_pages_follow_the_color_scheme_and_fit_a_narrow_screen(
    driver: WebDriver, url: str, prepared: Prepared, scheme: str
) -> None:
    log_in(driver, url)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    size = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        for page in [*pages(prepared).values(), "messages?state=done"]:
            driver.get(f"{url}{page}")
            assert driver.execute_script("return document.documentElement.scrollWidth") <= 360, page
            # Each row is a card, and nothing of it has to be scrolled to.
            wide = "return [...document.querySelectorAll('.table')].some(each => each.scrollWidth > each.clientWidth)"
            assert not driver.execute_script(wide), page
            back = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
            brightness = sum(int(part) for part in back.removeprefix("rgb(").removesuffix(")").split(","))
            assert (brightness < 200) == (scheme == "dark")
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_a_script_in_a_stored_text_does_not_run_on_any_page(driver: WebDriver, attacked: Prepared) -> None:
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(contextlib.closing(open_sql_store(attacked.url)))
        url = stack.enter_context(serving(console_of(opened, attacked.clock).application()))
        log_in(driver, url)
        complaints(driver)
        seen = [*pages(attacked).values(), "letter?id=letter-10", f"sequence?id={attacked.suspended}"]
        seen += [
            "messages",
            "message?direction=outbound&position=8",
            "letter-edit?id=letter-1",
            "service?name=orders",
        ]
        texts = []
        for page in seen:
            driver.get(f"{url}{page}")
            wait(driver, lambda: driver.find_element(By.ID, "read-at").text)
            texts.append(driver.page_source)
            assert "RAN" not in driver.title, page
            assert driver.find_elements(By.CSS_SELECTOR, "main script, main img, main [onmouseover]") == [], page
            assert complaints(driver) == [], page  # no policy had to stop it
        assert sum("document.title" in each for each in texts) >= 8
        assert not any("49 " in each and "{{7*7}}" not in each for each in texts)
        assert "\\u202e" in "".join(texts)
        driver.get("about:blank")
