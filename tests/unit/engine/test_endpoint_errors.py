"""Errors of endpoints: stored while they last, and logged once."""

from __future__ import annotations

import logging

import pytest

from mercury.engine.endpoint_errors import MAX_ENDPOINTS, MAX_LINES, MAX_REASONS, REPEAT_INTERVAL, EndpointErrors

URL, OTHER = "http://a/services/x", "http://b/services/x"
REFUSED, SLOW = f"{URL}: Connection refused", f"{URL}: timed out"


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, "mercury.transport")
    return caplog


def levels(logged: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Each line that was logged: its level, and its text up to the explanation."""
    return [(record.levelname, record.getMessage().partition(";")[0]) for record in logged.records]


def test_the_first_failure_is_logged_and_its_repetitions_are_not(logged: pytest.LogCaptureFixture) -> None:
    troubles = EndpointErrors()
    for now in range(1000):
        troubles.failed(URL, REFUSED, float(now))
    assert levels(logged) == [("WARNING", REFUSED)]
    assert "tried again" in logged.text
    assert troubles.get(URL) == REFUSED


def test_a_new_reason_is_logged_once(logged: pytest.LogCaptureFixture) -> None:
    troubles = EndpointErrors()
    for reason in (REFUSED, SLOW, REFUSED, SLOW):
        troubles.failed(URL, reason, 0.0)
    assert levels(logged) == [("WARNING", REFUSED), ("WARNING", SLOW)]
    assert troubles.get(URL) == SLOW


def test_recovery_of_an_endpoint_is_logged(logged: pytest.LogCaptureFixture) -> None:
    troubles = EndpointErrors()
    troubles.failed(URL, REFUSED, 0.0)
    troubles.worked(URL, 1.0)
    troubles.worked(URL, 2.0)
    assert levels(logged) == [("WARNING", REFUSED), ("INFO", f"{URL}: it works again")]
    assert troubles.get(URL) is None


def test_endpoint_without_failures_is_not_logged(logged: pytest.LogCaptureFixture) -> None:
    troubles = EndpointErrors()
    troubles.worked(URL, 0.0)
    assert levels(logged) == []
    assert troubles.get(URL) is None


def test_a_bad_network_is_logged_as_one_error(logged: pytest.LogCaptureFixture) -> None:
    troubles = EndpointErrors()
    for now in range(1000):
        troubles.failed(URL, SLOW if now % 3 else REFUSED, float(now))
        troubles.worked(URL, now + 0.5)
    assert levels(logged) == [("WARNING", REFUSED), ("INFO", f"{URL}: it works again"), ("WARNING", SLOW)]


def test_failure_after_a_quiet_interval_is_logged_again(logged: pytest.LogCaptureFixture) -> None:
    troubles = EndpointErrors()
    for now in (0.0, REPEAT_INTERVAL + 2):
        troubles.failed(URL, REFUSED, now)
        troubles.worked(URL, now + 1)
    again = [("WARNING", REFUSED), ("INFO", f"{URL}: it works again")]
    assert levels(logged) == again * 2


def test_an_error_that_lasts_long_is_not_logged_again(logged: pytest.LogCaptureFixture) -> None:
    troubles = EndpointErrors()
    troubles.failed(URL, REFUSED, 0.0)
    troubles.failed(URL, REFUSED, 100 * REPEAT_INTERVAL)
    assert levels(logged) == [("WARNING", REFUSED)]


def test_endpoints_have_troubles_of_their_own(logged: pytest.LogCaptureFixture) -> None:
    troubles = EndpointErrors()
    troubles.failed(URL, REFUSED, 0.0)
    assert troubles.get(OTHER) is None
    troubles.failed(OTHER, f"{OTHER}: timed out", 0.0)
    troubles.worked(OTHER, 1.0)
    assert troubles.get(URL) == REFUSED
    assert len(logged.records) == 3


def test_logged_reasons_of_one_error_are_bounded(logged: pytest.LogCaptureFixture) -> None:
    troubles = EndpointErrors()
    for number in range(100):
        troubles.failed(URL, f"{URL}: {number}", 3.0 * number)
    assert levels(logged) == [("WARNING", f"{URL}: {number}") for number in range(MAX_REASONS)]
    assert troubles.get(URL) == f"{URL}: 99"


def test_failures_of_many_paths_of_one_server_are_logged_up_to_a_limit(logged: pytest.LogCaptureFixture) -> None:
    troubles = EndpointErrors()
    for number in range(500):
        troubles.failed(f"{URL}/{number}", f"{URL}/{number}: gone", 0.0)
    assert levels(logged)[:-1] == [("WARNING", f"{URL}/{number}: gone") for number in range(MAX_LINES)]
    assert "no more failures are logged for up to 60 s" in logged.messages[-1]
    assert troubles.get(f"{URL}/499") == f"{URL}/499: gone"
    logged.clear()
    troubles.worked(f"{URL}/499", 1.0)
    assert levels(logged) == [], "the end of an error that was not logged is not logged"
    troubles.failed(OTHER, f"{OTHER}: gone", 1.0)
    troubles.failed(f"{URL}/498", f"{URL}/498: gone", REPEAT_INTERVAL)
    assert levels(logged) == [("WARNING", f"{OTHER}: gone"), ("WARNING", f"{URL}/498: gone")]


def test_failure_that_slows_nothing_is_known_all_the_same() -> None:
    troubles = EndpointErrors()
    troubles.failed(URL, REFUSED, 0.0, slows=False)
    assert troubles.get(URL) == REFUSED
    assert not troubles.slows(URL)
    troubles.failed(URL, REFUSED, 1.0)
    assert troubles.slows(URL)
    troubles.worked(URL, 2.0)
    assert not troubles.slows(URL)


def test_endpoint_that_failed_longest_ago_is_forgotten_when_too_many_fail_and_that_is_logged(
    logged: pytest.LogCaptureFixture,
) -> None:
    troubles = EndpointErrors()
    urls = [f"http://{number}.example/" for number in range(MAX_ENDPOINTS)]
    for url in (URL, OTHER, *urls[2:]):
        troubles.failed(url, f"{url}: gone", 0.0)
    troubles.failed(URL, REFUSED, 1.0)
    logged.clear()
    troubles.failed(urls[0], "new", 1.0)
    assert troubles.get(OTHER) is None
    assert troubles.get(URL) == REFUSED
    assert "http://b/services/x: gone: not known until it fails again" in logged.text
    troubles.failed(urls[1], "new", 1.0)
    assert logged.text.count("not known") == 1
    troubles.failed(OTHER, REFUSED, 2.0)
    assert troubles.get(OTHER) == REFUSED


def test_endpoint_that_works_again_is_forgotten_before_one_that_does_not(logged: pytest.LogCaptureFixture) -> None:
    troubles = EndpointErrors()
    urls = [f"http://{number}.example/" for number in range(MAX_ENDPOINTS + 1)]
    for url in urls[:-1]:
        troubles.failed(url, f"{url}: gone", 0.0)
    troubles.worked(urls[500], 0.0)
    troubles.failed(urls[-1], "new", 1.0)
    assert [url for url in urls if troubles.get(url) is None] == [urls[500]]
    assert not troubles.failed_since(urls[500], 0.0)
    assert "not known" not in logged.text
