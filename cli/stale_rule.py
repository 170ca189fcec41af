"""Options that say which topics count as unused (stale_topic_candidates), and which deletions as stuck (stuck_now)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from pipeline.transforms.candidates import StaleRule

UnwrittenDays = Annotated[
    float,
    typer.Option(
        "--unwritten-days",
        min=0,
        help="How long nothing was written to a topic that stale_topic_candidates names; at least 1 without --force.",
    ),
]
Protect = Annotated[
    list[str] | None,
    typer.Option(
        "--protect",
        metavar="PATTERN",
        help="Topics that stale_topic_candidates never names, with * and ?; may be repeated. Name the journal's topic "
        "where there is one.",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Allow --unwritten-days of less than 1.")]

StuckAfter = Annotated[
    float,
    typer.Option(
        "--stuck-after",
        metavar="SECONDS",
        min=0,
        help="How long a deletion has waited that stuck_now names.",
    ),
]


MOST_DAYS: Final = 36_500
MOST_SECONDS: Final = MOST_DAYS * 86_400


def stuck_after_ms(seconds: float) -> int:
    """Of `--stuck-after`. Raises ValueError for what is no length of time, or of more than a hundred years."""
    if not 0 <= seconds <= MOST_SECONDS:
        raise ValueError(f"--stuck-after {seconds:g} is not between 0 and {MOST_SECONDS:,} seconds")
    return round(seconds * 1000)


def stale_rule(unwritten_days: float, protect: Sequence[str], *, force: bool) -> StaleRule:
    """The rule that the options mean. Raises ValueError for too few days, and for more than a hundred years."""
    from pipeline.transforms.candidates import StaleRule

    if not unwritten_days <= MOST_DAYS:
        raise ValueError(f"--unwritten-days {unwritten_days:g} is more than {MOST_DAYS:,} days")

    return StaleRule(unwritten_days, tuple(protect), force=force)
