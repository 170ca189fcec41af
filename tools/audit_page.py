"""docs/audit.md: what the audit looks for, from its table of rules."""

from __future__ import annotations

from typing import Final

from lethe.pipeline.quality.evidence import CLOCK_SKEW_S
from lethe.pipeline.quality.rules import RULES, Severity
from lethe.pipeline.quality.surveys import TOLERANCE

_INTRODUCTION: Final = f"""\
# The audit

Generated from `pipeline/quality/rules.py`; `make docs` writes it.

The pipeline compares journals and surveys with what must never happen. Each violation is a row of the table
`violations`, with the journal's lines that show it (`/lethe/controller/1001 19b1f2c3a4b-17`: source and id). `lethe
pipeline run` ends with exit code 1 where a rule of severity *error* was violated. A *warning*: something is not known,
or is worth a look.

Legal transitions are those of the controller's own tables ([state-machines.md](state-machines.md)); forms of lines are
those of [journal.md](journal.md). Clocks of different machines may differ by {CLOCK_SKEW_S} s, bytes by
{TOLERANCE:.0%}. What cannot be told is no violation: a journal whose beginning was rotated away or left out by
`--from`, lines that a `lethe.gap` line reports as missing, an agent that was restarted between two surveys.

`lethe pipeline run` audits the days that it made anew, those after them, those to which `lethe pipeline stream` has
written since, and earlier findings that late lines may clear up. Lines are compared within a day and with the day
before; deletions, elections and gaps over all days.
"""


def page() -> str:
    """The text of `docs/audit.md`."""
    lines = [_INTRODUCTION]
    for severity, title in ((Severity.ERROR, "Errors"), (Severity.WARNING, "Warnings")):
        lines += [f"## {title}", "", "| Rule | A violation means |", "|---|---|"]
        lines += [f"| `{rule.name}` | {rule.meaning} |" for rule in RULES if rule.severity is severity]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"
