"""How much the core's costs grow along each axis: the largest size of an axis beside its smallest, from stored rows.

An axis is linear if no phase takes more times as long as the size has grown. With 10 times the topics, 9.8 times the
seconds are linear and 10.1 times are not: figures are compared as the table shows them.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from benchmarks.against_kafka.plan import verdict

Row = dict[str, Any]
PHASES: Final = ("failover", "broker failure", "creation", "deletion")
_SUMS: Final = (
    ("effects", ("effects",)),
    ("operations", ("reads", "operations")),
    ("requests", ("requests",)),
    ("MB", ("wire_bytes",)),
)
NOTE: Final = """\
Times as large and times as long: the largest size of each axis, divided by its smallest. What has grown more than the
size is bold. *Linear* is wanted: no phase takes more times as long than the size is times as large. *Calls* are the
calls of functions within the core's steps, in the phase in which they have grown most."""
UNEXPLAINED: Final = "Why a missed phase grows faster has not been looked for."
LINEAR_CALLS: Final = """\
The calls of functions in the missed phases have grown {most}: what has grown besides is the time that a call takes.
Memory that no longer fits into the processor's caches would show like that. Counters of the processor, which could
prove it, were not read."""
NEARLY: Final = 1.05
"""Calls may have grown by this much more than the size, and still explain little of the time."""


class Growth(NamedTuple):
    """What has grown along one axis, as quotients of the largest size and the smallest."""

    axis: str
    smallest: str
    largest: str
    size: float
    seconds: dict[str, float]
    """By phase."""
    calls: dict[str, float]
    """Of functions, by phase; empty where they were not counted."""
    sums: dict[str, float]
    """Of the four phases, by column."""


def page(rows: list[Row]) -> list[str]:
    """Return the table with its explanation as lines of Markdown; nothing where no axis has two sizes."""
    grown = growths(rows)
    if not grown:
        return []
    heads = ("axis", "smallest", "largest", "size", *PHASES, "calls", *(name for name, _ in _SUMS), "linear")
    notes = [NOTE]
    if any(_faster(each) for each in grown):
        notes.append(_why(grown))
    notes += _spread(rows)
    return [
        f"| {' | '.join(heads)} |",
        "|---|---|---|" + "---:|" * (len(heads) - 4) + "---|",
        *map(_line, grown),
        "",
        " ".join(notes),
        "",
    ]


def growths(rows: list[Row]) -> list[Growth]:
    """Return the growth along each axis of which two sizes or more were measured."""
    by_axis: dict[str, list[Row]] = {}
    for row in rows:
        by_axis.setdefault(row["axis"], []).append(row)
    return [_growth(found[0], found[-1]) for found in by_axis.values() if len(found) > 1]


def _growth(small: Row, large: Row) -> Growth:
    before, after = ({each["phase"]: each for each in row["phases"]} for row in (small, large))
    sums = {
        name: _quotient(*(sum(each[field] for each in one.values() for field in fields) for one in (after, before)))
        for name, fields in _SUMS
    }
    size = _partitions(large) * large["brokers"] / (_partitions(small) * small["brokers"])
    seconds = {phase: _quotient(after[phase]["core_s"], before[phase]["core_s"]) for phase in PHASES}
    counted = [phase for phase in PHASES if all("calls" in one[phase] for one in (before, after))]
    calls = {phase: _quotient(after[phase]["calls"], before[phase]["calls"]) for phase in counted}
    return Growth(large["axis"], _named(small), _named(large), _quotient(size, 1), seconds, calls, sums)


def _quotient(after: float, before: float) -> float:
    """Return the quotient as it is shown, so that a verdict is about the shown figures; infinite where nothing was."""
    return round(after / before, 1) if before else float("inf")


def _partitions(row: Row) -> int:
    return int(row["topics"] * row["partitions_per_topic"])


def _named(row: Row) -> str:
    return f"{row['topics']:,}×{row['partitions_per_topic']:,} on {row['brokers']:,}"


def _faster(growth: Growth) -> list[str]:
    return [phase for phase, times in growth.seconds.items() if times > growth.size]


def _why(grown: list[Growth]) -> str:
    """Say how much of the missed phases' growth is that of their calls."""
    missed = [(each, phase) for each in grown for phase in _faster(each)]
    beside = [each.calls.get(phase, float("inf")) / each.size for each, phase in missed]
    if (most := max(beside)) > NEARLY:
        return UNEXPLAINED
    more = f"by {100 * (most - 1):.1f} % more than the size at most" if most > 1 else "no more than the size"
    return LINEAR_CALLS.format(most=more)


def _line(growth: Growth) -> str:
    faster = _faster(growth)
    said = verdict(not faster) + (f": {', '.join(faster)}" if faster else "")
    cells = [growth.axis, growth.smallest, growth.largest, f"{growth.size:,.1f}×"]
    cells += [_times(times, growth) for times in growth.seconds.values()]
    cells.append(_times(max(growth.calls.values()), growth) if growth.calls else "–")
    cells += [_times(times, growth) for times in growth.sums.values()]
    return f"| {' | '.join(cells)} | {said} |"


def _times(times: float, growth: Growth) -> str:
    return f"**{times:,.1f}×**" if times > growth.size else f"{times:,.1f}×"


def _spread(rows: list[Row]) -> list[str]:
    """Say how much two measurements of one size differ, which axes share."""
    by_size: dict[str, list[Row]] = {}
    for row in rows:
        by_size.setdefault(_named(row), []).append(row)
    said = []
    for size, same in by_size.items():
        if len(same) > 1:
            shown = ", ".join(f"{phase} {_span(same, phase)}" for phase in PHASES)
            said.append(f"{size} was measured {len(same)} times: {shown}.")
    return said


def _span(rows: list[Row], phase: str) -> str:
    each = [found["core_s"] for row in rows for found in row["phases"] if found["phase"] == phase]
    return f"{min(each):.2f} to {max(each):.2f} s"
