"""docs/alerts.md: a row for each alert that fired, and none that was left out."""

from __future__ import annotations

import re
from pathlib import Path

from tools.alerts_page import PAGE, UNPROVOKED, page

RULES = Path(__file__).parents[3] / "deploy" / "prometheus" / "alerts"


def test_a_row_says_what_was_done_and_what_the_alert_said() -> None:
    told = {"done": "killed | it", "summary": "It is\ngone", "description": "Start it.", "severity": "warning"}
    row = page({"LetheGone": told}).splitlines()[-1]
    assert row == "| [LetheGone](runbook.md#lethegone) | warning | killed \\| it | **It is gone.** Start it. |"


def test_every_alert_has_been_fired_once() -> None:
    alerts = [name for path in RULES.glob("*.yml") for name in re.findall(r"- alert: (\w+)", path.read_text())]
    rows = re.findall(r"^\| \[(\w+)\]", PAGE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted({*alerts} - UNPROVOKED)
