"""docs/audit.md: what the audit looks for, from its table of rules."""

from __future__ import annotations

from typing import Final

from lethe.pipeline.quality.evidence import CLOCK_SKEW_S
from lethe.pipeline.quality.rules import RULES, Severity
from lethe.pipeline.quality.surveys import TOLERANCE

_INTRODUCTION: Final = f"""\
# The audit

Generated from `pipeline/quality/rules.py`; `make docs` writes it.

The pipeline compares what journals and surveys say with what must never happen. Each violation is a row of the table
`violations`: the rule, its severity, what it is about, when, what was found, and the lines of the journal that show it
(`/lethe/controller/1001 19b1f2c3a4b-17` is the line with that source and id). `lethe pipeline run` ends with exit code
1 where a rule of severity *error* was violated; a *warning* says that something is not known, or is worth a look.

What is legal is read from the tables that the controller itself runs on (docs/state-machines.md), and what a line may
hold from the schema that its writers are tested against (docs/journal.md).

Clocks of different machines may disagree by {CLOCK_SKEW_S} s before anything is made of it; bytes may differ by
{TOLERANCE:.0%}. What cannot be told is not guessed. A journal whose beginning was rotated away, or left out by
`--from`, facts that a `lethe.gap` line says are missing (in the writer's files, or on the way through a Kafka topic),
an agent that was restarted between two surveys: these are no violations of the rules that would need them.

To audit a day again changes nothing, whichever other days are audited with it. Lines are compared with those of the
same day and of the day before, surveys with the one before if it is of these days; deletions are looked at from their
beginning to their end, and elections and gaps are known of all days. `lethe pipeline run` audits the days that it made
anew, those after them, and those to which `lethe pipeline stream`, which audits nothing, has written since. Lines that
come late may clear up what was found of a later day, or show something there: with them are audited the days on which
their deletions ended, and the later days of which anything was found that does not show in a single line.
"""


def page() -> str:
    """The text of `docs/audit.md`."""
    lines = [_INTRODUCTION]
    for severity, title in ((Severity.ERROR, "Errors"), (Severity.WARNING, "Warnings")):
        lines += [f"## {title}", "", "| Rule | A violation means |", "|---|---|"]
        lines += [f"| `{rule.name}` | {rule.meaning} |" for rule in RULES if rule.severity is severity]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"
