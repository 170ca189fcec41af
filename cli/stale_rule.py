"""Options for the lake's rules: which topics count as unused (stale_topic_candidates), which deletions as stuck
(stuck_now). The lake stores the values; without an option, the stored one applies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lethe.protocol.lake_rules import MAX_UNWRITTEN_DAYS, LakeRules

if TYPE_CHECKING:
    from lethe.pipeline.jobs.rules import RuleChanges

MOST_SECONDS: Final = MAX_UNWRITTEN_DAYS * 86_400

UnwrittenDays = Annotated[
    float | None,
    typer.Option(
        "--unwritten-days",
        min=0,
        help="How long nothing was written to a topic that stale_topic_candidates names; at least 1 without --force. "
        "As the lake remembers it, or 30.",
        show_default=False,
    ),
]
Protect = Annotated[
    list[str] | None,
    typer.Option(
        "--protect",
        metavar="PATTERN",
        help="Topics that stale_topic_candidates never names, with * and ?; may be repeated. The lake remembers them "
        "until others are given; an empty one alone is none. Some are never named anyway, such as _*.",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Allow --unwritten-days of less than 1.")]

StuckAfter = Annotated[
    float | None,
    typer.Option(
        "--stuck-after",
        metavar="SECONDS",
        min=0,
        help="How long a deletion has waited that stuck_now names. As the lake remembers it, or 300.",
        show_default=False,
    ),
]


def rule_changes(
    unwritten_days: float | None, protect: Sequence[str] | None, stuck_after_s: float | None, *, force: bool
) -> RuleChanges:
    """Return the rules from the options. Raises ValueError for too few days, and for an invalid time or one of more
    than a hundred years."""
    from lethe.pipeline.jobs.rules import RuleChanges

    if unwritten_days is not None and not unwritten_days <= MAX_UNWRITTEN_DAYS:
        raise ValueError(f"--unwritten-days {unwritten_days:g} is more than {MAX_UNWRITTEN_DAYS:,} days")
    if stuck_after_s is not None and not 0 <= stuck_after_s <= MOST_SECONDS:
        raise ValueError(f"--stuck-after {stuck_after_s:g} is not between 0 and {MOST_SECONDS:,} seconds")
    protected = None if protect is None else tuple(pattern for pattern in protect if pattern)
    after_ms = None if stuck_after_s is None else round(stuck_after_s * 1000)
    said = RuleChanges(unwritten_days, protected, force, after_ms)
    said.apply_to(LakeRules())
    return said
