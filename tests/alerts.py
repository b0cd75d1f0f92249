"""Evaluates the alert rules of deploy/prometheus/alerts.yml for two scrapes of ``/metrics``.

The rules have two forms: a gauge compared with a number, and the growth of a counter in a time compared with a number.
Where promtool is installed, it evaluates each rule too, and has to find the same number of alerts.
"""

from __future__ import annotations

import json
import operator
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from prometheus_client.parser import text_string_to_metric_families

from mercury import Mercury
from mercury.telemetry.metrics import Metrics
from mercury.telemetry.prometheus import text
from mercury.telemetry.store_gauges import StoreGauges
from mercury.testing import FakeClock
from tests.docs.monitoring import RULES, Rule, rules

#: The values of series by name and labels.
Series = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]

_SELECTOR = r'(?P<name>\w+)(?:\{(?P<label>\w+)!=""\})?'
GAUGE = re.compile(rf"{_SELECTOR} (?P<operator>>|==) (?P<limit>[\d.]+)")
GROWTH = re.compile(
    rf"increase\((?P<selector>{_SELECTOR})\[10m\]\) > (?P<limit>[\d.]+)"
    r" or \((?P=selector) unless (?P=selector) offset 10m\) > (?P=limit)"
)
OPERATORS = MappingProxyType({">": operator.gt, "==": operator.eq})
#: The minutes of a rule's ``for``.
MINUTES = MappingProxyType({"0m": 0, "1m": 1, "10m": 10, "1h": 60})
#: The minute of the second scrape; the first is at 0.
AFTER = 11


def read_now(mercury: Mercury) -> Metrics:
    """The metrics of a process, with gauges that are read from the store anew."""
    assert mercury.metrics is not None
    clock = FakeClock()
    gauges = StoreGauges(mercury.store, "test", lease=30.0, interval=0.0, clock=mercury.clock, monotonic=clock)
    return Metrics(mercury.metrics.recorder, gauges, mercury.watch, 50, mercury.clock)


def seen(mercury: Mercury) -> bytes:
    """The text of ``/metrics``, with gauges that are read from the store anew."""
    return text(read_now(mercury))


def scraped(shown: bytes) -> Series:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(shown.decode())
        for sample in family.samples
    }


def firing(rule: Rule, before: Series, after: Series) -> int:
    """The number of alerts of a rule, if the values of the second scrape last."""
    gauge, growth = GAUGE.fullmatch(rule.expression), GROWTH.fullmatch(rule.expression)
    found = gauge or growth
    assert found is not None, f"{rule.name}: {rule.expression!r} has another form"
    limit, name, label = float(found["limit"]), found["name"], found["label"]
    count = 0
    for (series, labels), value in after.items():
        if series != name or (label is not None and not dict(labels).get(label)):
            continue
        if gauge is not None:
            count += bool(OPERATORS[gauge["operator"]](value, limit))
        else:
            count += value - before.get((series, labels), 0.0) > limit
    return count


def alerts(name: str, before: bytes, after: bytes) -> int:
    """How many alerts of a rule fire after the second of two scrapes, by both evaluations.

    :raises AssertionError: promtool finds another number.
    """
    (rule,) = (each for each in rules() if each.name == name)
    first, second = scraped(before), scraped(after)
    count = firing(rule, first, second)
    if shutil.which("promtool") is not None:
        _ask_promtool(rule, first, second, count)
    return count


def _ask_promtool(rule: Rule, before: Series, after: Series, count: int) -> None:
    lasts = MINUTES[rule.lasts] + 1
    name = re.search(r"(?:mercury|messaging)_\w+", rule.expression)
    assert name is not None
    input_series = []
    for key in {key for key in (*before, *after) if key[0] == name[0]}:
        labels = ",".join(f"{label}={json.dumps(value)}" for label, value in key[1])
        values = [f"{before[key]}+0x{AFTER - 1}" if key in before else f"_x{AFTER - 1}"]
        values.append(f"{after[key]}+0x{lasts}" if key in after else "")
        input_series.append({"series": f"{key[0]}{{{labels}}}", "values": " ".join(values).strip()})
    query = f'count(ALERTS{{alertname="{rule.name}",alertstate="firing"}})'
    expected = [{"labels": "{}", "value": count}] if count else []
    at = f"{AFTER + MINUTES[rule.lasts]}m"
    tested = {"expr": query, "eval_time": at, "exp_samples": expected}
    test = {"interval": "1m", "input_series": input_series, "promql_expr_test": [tested]}
    file = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "test.yml")
        path.write_text(json.dumps(file), encoding="utf-8")  # JSON is YAML
        done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
