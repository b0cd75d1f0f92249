"""docs/monitoring.md has every metric, and rules and dashboard name metrics that there are."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from mercury.telemetry.instruments import INSTRUMENTS, Kind
from mercury.telemetry.reasons import Reason

from .monitoring import DASHBOARD, PAGE, RULES, SERIES, filled, rules

NAMES = {name for each in INSTRUMENTS for name in each.series}


def test_the_page_lists_the_metrics_of_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == filled(text), "run: python -m tests.docs.monitoring"


def test_the_page_lists_every_reason_of_dead_letters() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [each.value for each in Reason if f"`{each.value}`" not in text] == []


def test_every_rule_names_a_metric_that_there_is() -> None:
    for rule in rules():
        found = SERIES.findall(rule.expression)
        assert found
        assert set(found) <= NAMES, rule.name


def test_every_metric_with_an_alert_is_in_its_rule_and_every_rule_has_a_metric() -> None:
    expressions = {rule.name: rule.expression for rule in rules()}
    alerts = {each.alert: each for each in INSTRUMENTS if each.alert}
    assert set(expressions) == set(alerts)
    for name, instrument in alerts.items():
        assert set(SERIES.findall(expressions[name])) <= set(instrument.series)


def test_every_panel_of_the_dashboard_names_metrics_that_there_are() -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    shown: set[str] = set()
    labels = {attribute.label for each in INSTRUMENTS for attribute in each.attributes}
    for panel in panels:
        for target in panel["targets"]:
            found = set(SERIES.findall(target["expr"])) - labels
            assert found
            assert found <= NAMES, panel["title"]
            shown |= found
    families = {each.family for each in INSTRUMENTS if not any(name in shown for name in each.series)}
    assert families == set(), "not in the dashboard"


def test_every_instrument_has_one_name_and_histograms_have_buckets() -> None:
    assert len({each.name for each in INSTRUMENTS}) == len(INSTRUMENTS)
    assert len({each.family for each in INSTRUMENTS}) == len(INSTRUMENTS)
    for each in INSTRUMENTS:
        assert (each.kind is Kind.HISTOGRAM) is bool(each.buckets)
        assert list(each.buckets) == sorted(set(each.buckets))


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
def test_promtool_accepts_the_rules() -> None:
    done = subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
