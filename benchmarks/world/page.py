"""The section of docs/benchmarks.md about large clusters."""

from __future__ import annotations

from typing import Any, Final

from benchmarks.against_kafka.plan import verdict
from benchmarks.documents import Document
from benchmarks.provenance import MEASURED, told
from benchmarks.world import growth
from benchmarks.world.growth import PHASES
from benchmarks.world.plan import TARGETS, Target

JSON_NAME: Final = "benchmarks-world.json"
Row = dict[str, Any]
SUMS: Final = (
    *("events", "effects", "operations", "requests", "MB", "largest frame, MB"),
    *("resident bytes held/peak", "traced bytes held/peak"),
)
HEAD: Final = """\
**This is the core alone.** ZooKeeper and brokers are canned answers in the same process, in every row, also in those of
1,000,000 partitions: no such cluster of real ones was run. The simulator, with cores of agents and a model of
ZooKeeper, has run one of 1,000 agents, 20,000 topics and 1,000,000 partitions ([what was run](what-was-run.md)). Each
row is one measurement."""
METHOD: Final = """\
Seconds are the core's processor time within its steps, with Python's garbage collector off: collections are not
counted. A controller disables it during long steps only, and collects at other times. Events, effects, ZooKeeper
operations (reads and writes), requests to brokers and their bytes are sums over the four phases. The core handles an
event in one step; its effects are the reads, writes, requests and journal records that it orders. A deletion has a
journal record for each topic and broker that answers, so effects grow with topics × brokers, up to the brokers that
have replicas of a topic ([0057](decisions/0057-replicas-as-bit-sets.md) says why). Each broker's UpdateMetadata has
every partition, so bytes grow with brokers × partitions. The largest frame is that of any request, behind the division
into parts ([0058](decisions/0058-requests-in-parts.md)).

Memory is in bytes by partition, in two measures. *Resident*: what the process has grown by after the failover, and its
peak in any phase; this has the interpreter's free lists and what the allocator does not give back. *Traced*: what the
core's live objects take after a failover, and their peak meanwhile, by tracemalloc; the wanted value is of this
measure. It is taken up to 100,000 partitions. `make bench-world`."""


def key(row: Row) -> tuple[Any, ...]:
    """Return what tells rows apart."""
    return row["axis"], row["topics"], row["partitions_per_topic"], row["brokers"]


def page(found: Document) -> str:
    """Return the section as Markdown."""
    rows = _newest(found["rows"])
    return "\n".join(
        [
            "## The controller's core, along each axis",
            "",
            HEAD,
            "",
            *told(((row[MEASURED], _size(row)) for row in rows), "processor"),
            *_load(rows),
            "",
            *_table(rows),
            "",
            *growth.page(found["rows"]),
            *_wanted(rows),
            "",
            METHOD,
            "",
        ]
    )


def _newest(rows: list[Row]) -> list[Row]:
    """Return one row of each size, which axes share: the one that was measured last."""
    shown: dict[str, Row] = {}
    for row in rows:
        before = shown.get(_size(row))
        if before is None or before[MEASURED]["when"] < row[MEASURED]["when"]:
            shown[_size(row)] = row
    return list(shown.values())


def _load(rows: list[Row]) -> list[str]:
    """Say how busy the machine was, where rows have that."""
    loads = [row["load"] for row in rows if "load" in row]
    return ["", f"Load average at the ends of sizes: {min(loads):.1f} to {max(loads):.1f}."] if loads else []


def _size(row: Row) -> str:
    return f"{row['topics']:,}×{row['partitions_per_topic']:,} on {row['brokers']:,}"


# --- the table ----------------------------------------------------------------------------------------------------


def _table(rows: list[Row]) -> list[str]:
    return [
        f"| brokers | topics × partitions | {' | '.join(PHASES)} | {' | '.join(SUMS)} |",
        "|---:|---:|" + "---:|" * len((*PHASES, *SUMS)),
        *map(_line, rows),
    ]


def _line(row: Row) -> str:
    phases = {each["phase"]: each for each in row["phases"]}
    partitions = row["topics"] * row["partitions_per_topic"]

    def total(*what: str) -> int:
        return sum(int(each[name]) for each in phases.values() for name in what)

    held = phases["failover"]["held_mb"] * 1e6 / partitions
    peak = max(each["peak_mb"] for each in phases.values()) * 1e6 / partitions
    largest = max(each["largest_frame_bytes"] for each in phases.values())
    cells = [
        f"{row['brokers']:,}",
        f"{row['topics']:,}×{row['partitions_per_topic']:,}",
        *(f"{phases[name]['core_s']:.2f}" for name in PHASES),
        f"{total('events'):,}",
        f"{total('effects'):,}",
        f"{total('reads', 'operations'):,}",
        f"{total('requests'):,}",
        f"{total('wire_bytes') / 1e6:,.0f}",
        f"{largest / 1e6:,.1f}",
        f"{held:,.0f}/{peak:,.0f}",
        f"{row['traced_held_bytes']:,.0f}/{row['traced_peak_bytes']:,.0f}" if "traced_held_bytes" in row else "–",
    ]
    return f"|{'|'.join(cells)}|"


# --- what is wanted -----------------------------------------------------------------------------------------------


def _wanted(rows: list[Row]) -> list[str]:
    return [
        "| wanted | of | at most | measured | |",
        "|---|---|---:|---:|---|",
        *(_target(rows, one) for one in TARGETS),
    ]


def _target(rows: list[Row], target: Target) -> str:
    found = _value(rows, target)
    measured = "–" if found is None else f"{found:,.3g} {target.unit}"
    said = verdict(None if found is None else found <= target.most)
    size = target.size
    of = f"{size.topics:,}×{size.partitions_per_topic:,} on {size.brokers:,} brokers"
    return f"| {target.what} | {of} | {target.most:g} {target.unit} | {measured} | {said} |"


def _value(rows: list[Row], target: Target) -> float | None:
    """Return what was measured of that; None if nothing was."""
    for row in rows:
        if (row["topics"], row["partitions_per_topic"], row["brokers"]) == target.size:
            places = (
                [row] if target.phase is None else [each for each in row["phases"] if each["phase"] == target.phase]
            )
            for place in places:
                if target.field in place:
                    return float(place[target.field])
    return None
