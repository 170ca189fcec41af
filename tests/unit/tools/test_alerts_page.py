"""docs/alerts.md: a row for each alert that fired, and none that was left out."""

from __future__ import annotations

import ast
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


def test_the_page_tells_what_is_done_today() -> None:
    """Where it does not, `make alerts` makes it again."""
    trials = Path(__file__).parents[2] / "integration" / "test_alerts_fire.py"
    told = ast.parse(trials.read_text())
    texts = [node.value for node in ast.walk(told) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    formats = [_pattern(node) for node in ast.walk(told) if isinstance(node, ast.JoinedStr)]
    done = re.findall(r"^\| \[\w+\]\S+ \| \w+ \| ([^|]+) \|", PAGE.read_text(), re.MULTILINE)
    assert len(done) > 10
    assert [each for each in done if each not in texts and not any(re.fullmatch(one, each) for one in formats)] == []
    head = PAGE.read_text().partition("| Alert |")[0]
    assert head == page({}).partition("| Alert |")[0]


def _pattern(text: ast.JoinedStr) -> str:
    """What the text may be, as a regular expression."""
    parts = (re.escape(str(each.value)) if isinstance(each, ast.Constant) else ".*" for each in text.values)
    return "".join(parts)
