"""The settings of rates, and which endpoints a limit is for."""

from __future__ import annotations

import pytest

from mercury.engine.rates import Rates, RateSettings
from mercury.errors import ConfigurationError
from mercury.settings import load
from mercury.storage.records import Channel, OutboundMessage, SequenceKey

NOW = 1_000_000.0


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        (("http://server/",), "not of the form"),
        (("=5",), "not of the form"),
        (("http://server/=fast",), "not of the form"),
        (("http://server/=0",), "not above 0"),
        (("http://server/=-1",), "not above 0"),
        (("http://server/=nan",), "not above 0"),
        (("a=1", "a=2"), "two entries"),
    ],
)
def test_an_entry_that_is_no_rate_is_refused(entries: tuple[str, ...], why: str) -> None:
    with pytest.raises(ConfigurationError, match=f"endpoints.*{why}"):
        RateSettings(endpoints=entries)
    with pytest.raises(ConfigurationError, match=f"services.*{why}"):
        RateSettings(services=entries)


def test_rates_are_read_from_the_environment() -> None:
    settings = load(environment={"MERCURY_ENGINE_RATES_SERVICES": "orders=2.5, invoices=1"})
    assert settings.engine.rates.services == ("orders=2.5", "invoices=1")


def sent(rates: Rates, url: str) -> int:
    rows = [OutboundMessage(message_id=str(number), channel=Channel(key=SequenceKey(url, "k"))) for number in range(9)]
    return len(rates.sendable(url, rows, NOW))


def test_the_longest_url_that_fits_counts() -> None:
    rates = Rates(RateSettings(endpoints=("http://server/a=5", "http://server=2", "http://other/?x=1=3")))
    assert sent(rates, "http://server/a/b") == 5
    assert sent(rates, "http://server/ab") == 2
    assert sent(rates, "http://server/c") == 0, "those below a URL share its rate"
    assert sent(rates, "http://servers/") == 9, "another host"
    assert sent(rates, "http://other/?x=1") == 3


def test_a_service_without_a_rate_has_no_limit() -> None:
    rates = Rates(RateSettings(services=("orders=1",)))
    assert [rates.callable(name, NOW) for name in ("orders", "invoices", None)] == [1, None, None]
    rates.called("orders", 1, NOW)
    rates.called("invoices", 1, NOW)
    assert rates.waiting(NOW) == {"orders": NOW + 1}
    assert rates.waiting(NOW + 1) == {}
