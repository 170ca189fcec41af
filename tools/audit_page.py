"""docs/audit.md: what the audit looks for, from its table of rules."""

from __future__ import annotations

from typing import Final

from lethe.pipeline.quality.evidence import CLOCK_SKEW_S
from lethe.pipeline.quality.rules import RULES, Severity
from lethe.pipeline.quality.surveys import TOLERANCE

_INTRODUCTION: Final = f"""\
# The audit

Generated from `pipeline/quality/rules.py`; `make docs` writes it.

    lethe pipeline run ...                          # exit code 1: an error was found
    lethe pipeline show violations --lake LAKE

The pipeline compares journals and surveys with what must never happen. Each violation is a row of the table
`violations`, with the journal's lines that show it (source and id, as `/lethe/controller/1001 19b1f2c3a4b-17`).

Clocks of different machines may differ by {CLOCK_SKEW_S} s, bytes by {TOLERANCE:.0%}. Unknown is no violation: a
journal whose beginning was rotated away or left out by `--from`, lines that a `lethe.gap` line reports as missing, an
agent that was restarted between two surveys.

A run audits the days that it made anew, those after them, and those to which `lethe pipeline stream` has written since.
Lines are compared within a day and with the day before; deletions, elections and gaps over all days.
"""


def page() -> str:
    """The text of `docs/audit.md`."""
    lines = [_INTRODUCTION]
    for severity, title in ((Severity.ERROR, "Errors"), (Severity.WARNING, "Warnings")):
        lines += [f"## {title}", "", "| Rule | A violation means |", "|---|---|"]
        lines += [f"| `{rule.name}` | {rule.meaning} |" for rule in RULES if rule.severity is severity]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"
