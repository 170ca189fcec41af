"""Alerts and dashboards speak of metrics that there are, and each alert has its entry in the runbook."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Final

import pytest

from lethe.adapters.metric_types import MetricKind
from lethe.broker.runtime.metrics import METRICS
from lethe.controller.core.context import Role
from lethe.controller.runtime import metric_catalog
from lethe.survey.textfile import GAUGES

ROOT: Final = Path(__file__).parents[3]
DEPLOY: Final = ROOT / "deploy"
RUNBOOK: Final = ROOT / "docs" / "runbook.md"
RULES: Final = sorted((DEPLOY / "prometheus" / "alerts").glob("*.yml"))
NAME: Final = re.compile(r"\b(?:lethe|kafka)_[a-z0-9_]+")
ALERT: Final = re.compile(r"^      - alert: (\w+)$(.*?)(?=^      - alert: |\Z)", re.MULTILINE | re.DOTALL)
ANNOTATIONS: Final = ("severity: ", "summary: ", "description: ", "runbook_url: ")


def names() -> set[str]:
    """Every name of a series that can be scraped."""
    found: set[str] = {gauge.name for gauge in GAUGES}
    found |= {metric.name for metric in METRICS}
    for _, _, metrics in metric_catalog.GROUPS:
        for metric in metrics:
            found.add(metric.name)
            if metric.kind in (MetricKind.SUMMARY, MetricKind.HISTOGRAM):
                found |= {f"{metric.name}_count", f"{metric.name}_sum"}
            if metric.kind is MetricKind.HISTOGRAM:
                found.add(f"{metric.name}_bucket")
    return found


def alerts() -> dict[str, str]:
    """Every alert and its lines."""
    return {name: body for path in RULES for name, body in ALERT.findall(path.read_text())}


def texts() -> list[Path]:
    """What speaks of metrics."""
    dashboards = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
    return [*RULES, *sorted((DEPLOY / "prometheus" / "tests").glob("*.yml")), *dashboards, RUNBOOK]


@pytest.mark.parametrize("path", texts(), ids=lambda path: path.name)
def test_only_metrics_that_exist_are_spoken_of(path: Path) -> None:
    assert set(NAME.findall(path.read_text())) - names() == set()


def test_the_roles_of_controllers_that_are_spoken_of_exist() -> None:
    spoken_of = [found for path in texts() for found in re.findall(r'\brole=~?\\?"([^"\\$]+)', path.read_text())]
    assert "standing by|retired" in spoken_of
    assert {role for roles in spoken_of for role in roles.split("|")} <= {role.value for role in Role}


def test_there_are_alerts_and_every_one_is_told_and_leads_to_its_entry() -> None:
    assert len(alerts()) == sum(path.read_text().count("- alert:") for path in RULES) > 10
    headings = re.findall(r"^## (\w+)$", RUNBOOK.read_text(), re.MULTILINE)
    for name, body in alerts().items():
        for key in ANNOTATIONS:
            assert body.count(key) == 1, (name, key)
        assert f"runbook_url: docs/runbook.md#{name.lower()}\n" in body + "\n"
        assert name in headings
    assert {heading for heading in headings if heading.startswith("Lethe")} == set(alerts())


def test_every_entry_says_what_it_means_how_to_look_and_repair_and_what_not_to_do() -> None:
    entries = re.split(r"^## ", RUNBOOK.read_text(), flags=re.MULTILINE)
    told = [entry for entry in entries if entry.startswith("Lethe")]
    assert len(told) == len(alerts())
    for entry in told:
        for words in ("**Means.**", "**Look.**", "**Repair", "**Do not**"):
            assert words in entry, (entry.partition("\n")[0], words)


def test_every_alert_has_a_unit_test_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    tests = "".join(path.read_text() for path in (DEPLOY / "prometheus" / "tests").glob("*.yml"))
    for name in alerts():
        assert re.search(rf"alertname: {name}, exp_alerts: \[\]", tests), name
        assert re.search(rf"alertname: {name}\n +exp_alerts:\n", tests), name


def test_every_alert_has_been_fired_once_by_what_the_trials_do_today() -> None:
    """Where the trials do something else, `make alerts` fires them again."""
    fired = json.loads((ROOT / "docs" / "alerts-fired.json").read_text())
    assert set(fired) == set(alerts()) - {"LetheControllerFault"}
    trials = ast.walk(ast.parse((ROOT / "tests" / "integration" / "test_alerts_fire.py").read_text()))
    done = [_pattern(node) for node in trials if isinstance(node, ast.Constant | ast.JoinedStr)]
    for name, each in fired.items():
        assert any(re.fullmatch(one, each["done"]) for one in done), (name, each["done"])


def _pattern(text: ast.Constant | ast.JoinedStr) -> str:
    """What the text may be, as a regular expression."""
    parts = text.values if isinstance(text, ast.JoinedStr) else [text]
    return "".join(re.escape(str(each.value)) if isinstance(each, ast.Constant) else ".+" for each in parts)


def test_all_rule_files_are_loaded() -> None:
    assert "  - alerts/*.yml\n" in (DEPLOY / "prometheus" / "prometheus.yml").read_text()
