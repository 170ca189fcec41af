"""The report of one run, as text for people and as JSON for scripts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from tests.chaos.checker import PLACES, RESIDUE, UNSEEN, Finding
from tests.chaos.control import Failover, Unavailability, unavailability
from tests.chaos.exercised import EXERCISES
from tests.chaos.faults import SPARED_ARE
from tests.chaos.history import History
from tests.chaos.schedule import EVERY_KIND_MINUTES, WEIGHTS, PlannedFault, Target, label
from tests.chaos.vitals import LEAST_S, Growth, overgrown

MIB: Final = 1 << 20
AGAIN: Final = "made again under their name"
GROWING: Final = ("controller", "broker")
"""Kinds of processes whose growth a run of `EVERY_KIND_MINUTES` must have seen."""
WORK_MINUTES: Final = 2.0
"""A run of this length must have seen each kind of work, and a failover."""
LEAST_PLANNED: Final = 2
"""A short run must have performed the kinds of faults of which it has so many: of one alone, nobody may be hit."""


@dataclass(slots=True)
class Report:
    """Everything that a run has found. `findings` and `violations` decide."""

    seed: int
    minutes: float
    kafka: str
    lethe: str = "unknown"
    """Its commit."""
    faults: Mapping[str, int] = field(default_factory=dict)
    """Performed without a problem, by kind."""
    demanded: tuple[str, ...] = ()
    """Kinds of faults that a run of this length must have performed."""
    exercised: Mapping[str, int] = field(default_factory=dict)
    """Work in slices and parts, by kind; lower bounds."""
    skipped: int = 0
    performed: list[str] = field(default_factory=list)
    """Every fault with its victims, in order: for JSON."""
    fault_problems: list[str] = field(default_factory=list)
    topics: Mapping[str, int] = field(default_factory=dict)
    records: int = 0
    terms: int = 0
    scans: int = 0
    transactions: int = 0
    settled_s: float | None = None
    findings: list[Finding] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    left_by_moves: list[str] = field(default_factory=list)
    left_by_kafka: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    failovers: list[Failover] = field(default_factory=list)
    unended: list[str] = field(default_factory=list)
    """Faults of the active controller after which control was not seen to come back."""
    failed_starts: list[str] = field(default_factory=list)
    """Lethe's own processes that did not come up after a fault."""
    growth_unseen: list[str] = field(default_factory=list)
    """Processes without a life that is long enough."""
    growth: list[Growth] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not (self.violations or self.findings)

    @property
    def residue(self) -> dict[str, int | None]:
        """Number of things that are left of deleted topics, by place; None: none found, not all seen."""
        left = [each.place for each in self.findings if each.kind == RESIDUE]
        unseen = {each.place for each in self.findings if each.kind == UNSEEN}
        return {place: left.count(place) or (None if place in unseen else 0) for place in PLACES}

    @property
    def unavailability(self) -> Unavailability:
        return unavailability(self.failovers)

    def judge(self) -> None:
        """Make violations of what the figures say, once all are known."""
        self.violations += [f"the run had no {what}, so it proves nothing" for what in self.untried()]
        for grown in self.growth:
            self.violations += overgrown(grown, self._created_within(grown.seconds))
        self.violations += [f"a process of Lethe's did not come up again: {each}" for each in self.failed_starts]
        self.violations += [f"control was not seen to come back after {each}" for each in self.unended]

    def _created_within(self, seconds: float) -> float:
        """Return the number of topics that are created in so many seconds of the run, on average."""
        return self.topics.get("created", 0) * min(1.0, seconds / max(60 * self.minutes, 1.0))

    def untried(self) -> list[str]:
        """Name what a run has to have done before its silence means anything.

        A short run needs no rare thing: see `WORK_MINUTES` and `demanded_kinds`."""
        counts = {"topic created": self.topics.get("created"), "topic deleted": self.topics.get("deleted")}
        counts |= {"fault": sum(self.faults.values()), "record": self.records, "scan of disks": self.scans}
        if self.minutes >= WORK_MINUTES:
            counts |= {
                "topic made again": self.topics.get(AGAIN),
                "expansion": self.topics.get("expansions"),
                "partition moved": self.topics.get("partitions moved"),
                "failover": len(self.failovers),
            }
            counts |= {what: self.exercised.get(what) for what in EXERCISES}
        if self.minutes >= EVERY_KIND_MINUTES:
            kinds = Counter(each.name.split()[0] for each in self.growth)
            counts |= {f"life of {LEAST_S:g} s of a {kind}, to see its growth": kinds[kind] for kind in GROWING}
        counts |= {what: self.faults.get(what) for what in self.demanded}
        return [what for what, count in counts.items() if not count]

    def as_json(self) -> str:
        """Return one object. Its field `passed` is what the exit code says."""
        document: dict[str, Any] = asdict(self)
        document |= {"passed": self.passed, "residue": self.residue, "unavailability": asdict(self.unavailability)}
        return json.dumps(document, indent=1)

    def as_text(self) -> str:
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        yield f"chaos: seed {self.seed}, {self.minutes:g} min, Kafka {self.kafka}, Lethe {self.lethe}"
        yield "The seed replays the schedule of the faults, not the interleaving of the processes."
        yield (
            f"\nFaults: {sum(self.faults.values())} performed, {self.skipped} skipped (nobody could be hit), "
            f"{len(self.fault_problems)} with a problem"
        )
        yield f"  ({SPARED_ARE})"
        for kind, count in sorted(self.faults.items()):
            yield f"  {count:4} {kind}"
        yield "\nTopics: " + ", ".join(f"{count} {what}" for what, count in self.topics.items())
        yield "Exercised at least: " + ", ".join(f"{self.exercised.get(what, 0)} × {what}" for what in EXERCISES)
        yield f"Records acknowledged, and read at the end: {self.records}"
        yield f"Read: {self.transactions} transactions of ZooKeeper, {self.scans} scans of all log directories"
        settled = "did not settle" if self.settled_s is None else f"settled after {self.settled_s:.0f} s"
        residue = {place: "unseen" if count is None else count for place, count in self.residue.items()}
        yield f"Residue ({settled}): " + ", ".join(f"{place} {count}" for place, count in residue.items())
        found = self.unavailability
        if found.failovers:
            yield (
                f"Control: {self.terms} terms; unavailable in {found.failovers} failovers: "
                f"median {found.median_s} s, worst {found.worst_s} s, "
                f"worst without a second fault meanwhile {found.worst_alone_s} s"
            )
            for each in sorted(self.failovers, key=lambda each: -each.seconds)[:5]:
                more = f", and {each.others} more meanwhile" if each.others else ""
                yield f"  {each.seconds:6.2f} s after {each.fault}{more}"
        else:
            yield f"Control: {self.terms} terms; no failover was seen to end"
        yield from _listed("Faults of the controller after which no failover was seen to end", self.unended)
        yield "\nGrowth from 20 s after its start to its end, in each process's longest life:"
        yield "  process            life      memory          descriptors   threads"
        for grown in self.growth:
            memory = f"{grown.last.rss_bytes / MIB:5.0f} {grown.more.rss_bytes / MIB:+5.1f} MiB"
            descriptors = f"{grown.last.descriptors:4} {grown.more.descriptors:+4}"
            threads = f"{grown.last.threads:3} {grown.more.threads:+3}"
            yield f"  {grown.name:16} {grown.seconds:6.0f} s  {memory}   {descriptors}     {threads}"
        if self.growth_unseen:
            yield f"  unseen, since no life had {LEAST_S:g} s: {', '.join(self.growth_unseen)}"
        yield from _listed("Left by moves from brokers that were away (a documented limit)", self.left_by_moves)
        yield from _listed("Half created by Kafka brokers whose sessions had expired", self.left_by_kafka)
        yield from _listed("Processes that ended by themselves, and were started again", self.ended)
        yield from _listed("Faults with a problem of their own", self.fault_problems)
        yield from _listed("Left out", self.left_out)
        found_at_end = [f"{each.kind} in {each.place}: {each.text}" for each in self.findings]
        yield from _listed("Findings at the end", found_at_end)
        yield from _listed("Violations", self.violations)
        but = ", but for what is left out" if self.left_out else ""
        yield f"\nPASSED: no violation, residue 0{but}" if self.passed else "\nFAILED"


def _listed(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield f"\n{title}: {len(lines)}"
        yield from (f"  {line}" for line in lines[:40])


def topic_counts(history: History) -> dict[str, int]:
    """Count what became of topics, as ZooKeeper's transactions have it."""
    seen: set[str] = set()
    again = 0
    for each in history.incarnations:
        again += each.name in seen
        seen.add(each.name)
    return {
        "created": len(history.incarnations),
        AGAIN: again,
        "deleted": sum(each.removed_ms is not None for each in history.incarnations),
        "expansions": history.expansions,
        "partitions moved": history.reassignments,
        "living at the end": len(history.living()),
    }


def demanded_kinds(schedule: Sequence[PlannedFault], minutes: float, *, has_disk: bool) -> tuple[str, ...]:
    """Return the kinds of faults that the run must have performed, by label: each, or the frequent ones of a short run.

    Where there is no small disk, that is left out, as the report says."""
    planned = Counter((each.target, each.harm) for each in schedule)
    is_long = minutes >= EVERY_KIND_MINUTES
    kinds = [kind for kind in WEIGHTS if has_disk or kind[0] is not Target.DISK]
    return tuple(label(*kind) for kind in kinds if is_long or planned[kind] >= LEAST_PLANNED)
