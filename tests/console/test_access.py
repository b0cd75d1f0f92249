"""Who gets in: tokens, tickets, roles, sessions, forms of other sites, names of other hosts."""

from __future__ import annotations

import pytest
from fastapi import APIRouter, Depends, FastAPI, HTTPException

from mercury import (
    ConfigurationError,
    ConsoleRole,
    ConsoleSettings,
    ConsoleUser,
    HttpRequest,
    Mercury,
    Service,
    Settings,
)
from mercury.console.console import Console
from mercury.console.logins import ATTEMPTS, WINDOW
from mercury.console.sessions import Session, Sessions, key_of
from mercury.storage.sql.store import SqlStore
from mercury.testing import FakeClock

from .browsing import OPERATOR, READER, SETTINGS, Browser, console_of, serving

PAGES = ("", "sequences", "messages", "letters", "services", "doubt", "nodes", "audit")


def is_login(text: str) -> bool:
    return 'name="token"' in text


# --- tokens ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [*PAGES, "sequence?id=1", "message?direction=inbound&position=1", "letter?id=1"])
def test_a_page_without_a_login_leads_to_the_login_and_after_it_back(browser: Browser, page: str) -> None:
    first = browser.get(page)
    assert is_login(first.text)
    assert "Sequences" not in first.words
    back = browser.submit(first, "login", token=READER, name="Ada")
    assert back.url.endswith(f"/{page}")


def test_the_token_of_operators_makes_an_operator_and_that_of_readers_a_reader(browser: Browser) -> None:
    assert "Ada operator" in browser.log_in(OPERATOR).words
    browser.cookies.clear()
    assert "Grace reader" in browser.log_in(READER, "Grace").words


@pytest.mark.parametrize("token", ["", "x", OPERATOR[:-1], OPERATOR + "x", OPERATOR.upper(), "té\udcff"])
def test_another_token_is_refused(browser: Browser, token: str) -> None:
    page = browser.get("login")
    fields = page.form("login") | {"token": token.encode("utf-8", "replace").decode(), "name": "Ada"}
    answer = browser.post("login", fields)
    assert answer.status == 403
    assert is_login(answer.text)
    assert is_login(browser.get("").text)


@pytest.mark.parametrize("name", ["", "   ", "\x00\u200b"])
def test_without_a_name_nobody_is_let_in_and_the_attempt_does_not_count(browser: Browser, name: str) -> None:
    for _ in range(ATTEMPTS + 1):
        answer = browser.log_in(OPERATOR, name)
        assert answer.status == 400
        assert "Say who you are: the audit names who did what." in answer.words
    assert is_login(browser.get("").text)
    assert "Ada operator" in browser.log_in(OPERATOR).words


def test_a_wrong_token_keeps_the_name_that_was_typed(browser: Browser) -> None:
    refused = browser.log_in("a wrong token", "Grace")
    assert refused.form("login")["name"] == "Grace"


def test_failed_logins_are_limited_and_the_right_token_too_until_a_minute_has_passed(
    browser: Browser, clock: FakeClock
) -> None:
    for _ in range(ATTEMPTS):
        assert browser.log_in("a wrong token").status == 403
    refused = browser.log_in(OPERATOR)
    assert refused.status == 429
    assert int(refused.headers["retry-after"]) >= WINDOW
    clock.advance(WINDOW)
    assert "operator" in browser.log_in(OPERATOR).words


def test_a_console_that_no_user_could_enter_is_not_made(store: SqlStore, clock: FakeClock) -> None:
    with pytest.raises(ConfigurationError, match=r"console\.token"):
        console_of(store, clock, ConsoleSettings())


# --- tickets ---------------------------------------------------------------------------------------------------------


def test_a_ticket_logs_in_once(browser: Browser, console: Console) -> None:
    path = console.login_path("Linus")
    assert "Linus operator" in browser.get(path).words
    browser.cookies.clear()
    assert browser.get(path).status == 403


def test_a_ticket_expires(browser: Browser, console: Console, clock: FakeClock) -> None:
    path = console.login_path("Linus")
    clock.advance(601)
    assert browser.get(path).status == 403


# --- sessions --------------------------------------------------------------------------------------------------------


def test_the_cookie_of_a_session_is_for_this_site_and_not_for_scripts(browser: Browser) -> None:
    browser.log_in()
    (name,) = [each for each in browser.cookies if not each.endswith("_note")]
    assert {"HttpOnly", "SameSite=Strict"} <= {each.strip() for each in browser.attributes[name].split(";")}


def test_a_login_changes_the_session(browser: Browser) -> None:
    browser.get("login")
    before = dict(browser.cookies)
    browser.log_in()
    assert not set(before.values()) & set(browser.cookies.values())


@pytest.mark.parametrize("seconds", [SETTINGS.session_idle, SETTINGS.session_lifetime])
def test_a_session_without_requests_ends(browser: Browser, clock: FakeClock, seconds: float) -> None:
    browser.log_in()
    clock.advance(seconds)
    assert is_login(browser.get("").text)


def test_a_session_lasts_while_it_is_used_but_not_longer_than_its_lifetime(browser: Browser, clock: FakeClock) -> None:
    browser.log_in()
    for _ in range(int(SETTINGS.session_lifetime / 1000)):
        clock.advance(1000)
        assert "operator" in browser.get("nodes").words
    clock.advance(1000)
    assert is_login(browser.get("nodes").text)


def test_after_the_logout_the_old_cookie_is_worth_nothing(browser: Browser) -> None:
    page = browser.log_in()
    old = dict(browser.cookies)
    browser.submit(page, "logout")
    browser.cookies = old
    assert is_login(browser.get("").text)


def test_logouts_of_visitors_who_never_logged_in_are_not_remembered(console: Console, browser: Browser) -> None:
    for _ in range(3):
        browser.cookies.clear()
        visitor = browser.get("login")
        assert browser.post("logout", visitor.form("login")).status == 200
    assert not console._site.gate.sessions._ended
    browser.submit(browser.log_in(), "logout")
    assert len(console._site.gate.sessions._ended) == 1


def test_a_cookie_that_was_changed_is_worth_nothing(browser: Browser) -> None:
    browser.log_in(READER)
    for name, value in dict(browser.cookies).items():
        body, _, signature = value.partition(".")
        for forged in (f"{body}x.{signature}", f"{body}.{signature[:-1]}0", body, f"{body}.", "." + signature, "é" * 9):
            browser.cookies[name] = forged.encode().decode("latin-1")
            assert is_login(browser.get("").text)


def test_a_session_of_another_token_is_worth_nothing(browser: Browser, store: SqlStore, clock: FakeClock) -> None:
    browser.log_in()
    (cookie,) = browser.cookies.values()
    changed = ConsoleSettings(token="another-token-of-operators", reader_token=READER)
    with serving(console_of(store, clock, changed).application()) as url:
        other = Browser(url)
        other.get("login")
        other.cookies = dict.fromkeys(other.cookies, cookie)
        assert is_login(other.get("").text)


def test_a_reader_cannot_write_the_session_of_an_operator_where_operators_have_no_token(
    store: SqlStore, clock: FakeClock
) -> None:
    """All that it is signed with must be more than what a reader knows."""
    with serving(console_of(store, clock, ConsoleSettings(reader_token=READER)).application()) as url:
        reader = Browser(url)
        assert "Ada reader" in reader.log_in(READER).words
        (name,) = reader.cookies
        for token, given in ((None, READER), ("", READER), (READER, None), (READER, READER)):
            known = Sessions(key_of(token, given, READER.encode()), SETTINGS.session_lifetime, SETTINGS.session_idle)
            user = ConsoleUser("Eve", ConsoleRole.OPERATOR)
            reader.cookies = {
                name: known.write(Session(id="own", user=user, started=clock(), seen=clock())),
                known.cookie: known.write(Session(id="own", user=user, started=clock(), seen=clock())),
            }
            assert is_login(reader.get("").text)


# --- forms of other sites --------------------------------------------------------------------------------------------


def test_a_form_without_its_session_s_token_does_nothing(browser: Browser) -> None:
    page = browser.log_in()
    for token in ("", "0" * 64):
        answer = browser.post("logout", page.form("logout") | {"form_token": token})
        assert answer.status == 403
    assert "operator" in browser.get("").words


def test_a_form_token_of_another_session_does_nothing(browser: Browser) -> None:
    other = Browser(browser.url)
    stolen = other.log_in().form("logout")
    browser.log_in()
    assert browser.post("logout", stolen).status == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null", "sec_fetch_site": "cross-site"},
        {"origin": "http://127.0.0.1:1"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
def test_a_form_that_another_site_s_page_sends_does_nothing(browser: Browser, headers: dict[str, str]) -> None:
    page = browser.log_in()
    assert browser.post("logout", page.form("logout"), **headers).status == 403
    assert "operator" in browser.get("").words


def test_only_a_form_is_read_and_only_up_to_a_size(browser: Browser) -> None:
    browser.log_in()
    assert browser.post("logout", {}, content_type="application/json").status == 415
    assert browser.post("logout", {"a": "x" * 5_000_000}).status == 413
    assert browser.post("logout", {f"a{number}": "" for number in range(1100)}).status == 400


# --- names of other hosts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "", "127.0.0.1.evil.example", "a b", "localhost.evil"]
)
def test_a_page_of_another_name_gets_nothing(browser: Browser, host: str) -> None:
    browser.log_in()
    browser.host = host
    answer = browser.get("")
    assert answer.status in (400, 421)
    assert "Overview" not in answer.title


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]"])
def test_this_machine_reaches_it_by_its_names(browser: Browser, name: str) -> None:
    browser.host = name
    assert is_login(browser.get("login").text)


def test_a_request_through_a_proxy_is_refused_unless_the_name_is_known(store: SqlStore, clock: FakeClock) -> None:
    settings = ConsoleSettings(token=OPERATOR, hosts=("ops.example",))
    with serving(console_of(store, clock, settings).application()) as url:
        browser = Browser(url)
        assert browser.get("login", x_forwarded_for="10.0.0.1").status == 403
        browser.host = "OPS.example:8443"
        assert browser.get("login", x_forwarded_for="10.0.0.1", x_forwarded_proto="https").status == 200
        assert all("Secure" in each for each in browser.attributes.values())


# --- an application's own check --------------------------------------------------------------------------------------


def by_header(request: HttpRequest) -> ConsoleUser | ConsoleRole | None:
    found = request.headers.get("x-user", "")
    return {"ada": ConsoleUser("Ada\nLovelace", ConsoleRole.OPERATOR), "grace": ConsoleRole.READER}.get(found)


def test_an_application_s_check_decides_for_each_request(store: SqlStore, clock: FakeClock) -> None:
    console = console_of(store, clock, ConsoleSettings(), access=by_header)
    with serving(console.application()) as url:
        browser = Browser(url)
        assert browser.get("").status == 403
        assert "Ada Lovelace operator" in browser.get("", x_user="ada").words
        assert "reader" in browser.get("", x_user="grace").words
        assert browser.get("login", x_user="ada").status == 404
        assert browser.get("").status == 403


# --- mounted ---------------------------------------------------------------------------------------------------------


def desk() -> Service:
    service = Service("desk")

    @service.operation
    def note(body: bytes) -> None:
        """Nothing."""

    return service


def test_an_application_of_mercury_has_no_console_unless_it_is_asked_for(tmp_path: object) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    with serving(Mercury(url, settings=Settings()).app(desk())) as at:
        assert Browser(at).get("console/").status == 404
    settings = Settings(console=ConsoleSettings(enabled=True, token=OPERATOR))
    with serving(Mercury(url, settings=settings).app(desk())) as at:
        browser = Browser(at)
        assert is_login(browser.get("console").text)
        assert "operator" in browser.log_in().words
        assert browser.get("static/console.css").status == 200


def test_an_application_s_dependencies_and_prefix_hold_for_its_console(tmp_path: object) -> None:
    def check() -> None:
        raise HTTPException(401, "the application says no")

    mercury = Mercury(f"sqlite:///{tmp_path}/shop.db", settings=Settings(console=SETTINGS))
    app = FastAPI(lifespan=mercury.lifespan)
    outer = APIRouter(prefix="/ops")
    outer.include_router(mercury.console_router("/queue"))
    app.include_router(outer)
    app.include_router(mercury.console_router("/closed"), dependencies=[Depends(check)])
    with serving(app) as at:
        browser = Browser(at)
        assert browser.get("closed/").status == 401
        assert is_login(browser.get("ops/queue").text)
        assert browser.url.endswith("/ops/queue/")
        assert "operator" in browser.log_in().words
        for page in PAGES:
            assert browser.get(page).status == 200


def test_a_store_that_ends_with_its_process_has_no_console() -> None:
    mercury = Mercury("memory:", settings=Settings(console=SETTINGS))
    with pytest.raises(ConfigurationError, match="database"):
        mercury.console_router()


# --- every answer ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "login", "nodes", "static/console.js", "nothing", "sequence?id=x", "logout"])
def test_every_answer_forbids_other_scripts_frames_guesses_and_copies(browser: Browser, path: str) -> None:
    browser.log_in()
    headers = browser.get(path, follow=False).headers
    policy = dict(each.strip().partition(" ")[::2] for each in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    own = {policy[name] for name in ("script-src", "style-src", "img-src", "connect-src", "form-action")}
    assert own == {"'self'"}
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == ("no-store" if "static" not in path else "public, max-age=31536000, immutable")


@pytest.mark.parametrize("page", PAGES)
def test_no_page_loads_anything_from_elsewhere_or_has_a_script_or_style_of_its_own(browser: Browser, page: str) -> None:
    browser.log_in()
    text = browser.get(page).text
    for word in ("<style", " style=", "onclick", "onload", "javascript:", "http-equiv"):
        assert word not in text
    assert text.count("<script") == 1
    assert 'src="http' not in text
    assert 'href="//' not in text


@pytest.mark.parametrize("path", ["static/../settings.py", "static/%2e%2e/settings.py", "static/site.py", "static/"])
def test_no_other_file_is_served(browser: Browser, path: str) -> None:
    assert browser.get(path).status == 404


def test_the_page_after_a_login_is_one_of_the_console(browser: Browser) -> None:
    for after in ("//evil.example", "https://evil.example/", "/\\evil.example", "\\\\evil.example", "logout"):
        page = browser.get("login")
        fields = page.form("login") | {"token": OPERATOR, "name": "Ada", "after": after}
        answer = browser.post("login", fields, follow=False)
        assert answer.headers["location"] == "./"
        browser.cookies.clear()
