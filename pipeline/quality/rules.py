"""The table of rules, the audit that applies them, and its result, which sets a job's exit code.

    with shared_frames(evidence) as shared:
        found = audit(evidence, shared)      rows of pipeline.schemas.VIOLATIONS
        count_violations(found).errors       above 0 if a rule of severity error found anything

An error means that something forbidden happened, or that a required record is missing. A warning means that something
is unknown or worth a check. To add a rule, write the function and add a line to RULES: docs/audit.md is generated from
it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import and_
from typing import Final, NamedTuple, cast

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lethe.pipeline.quality import deletions, lines, surveys, tenures, transitions
from lethe.pipeline.quality.evidence import CLOCK_SKEW_S, Evidence, SharedFrames, rare_records, record_name
from lethe.pipeline.quality.forms import is_usual
from lethe.pipeline.schemas import VIOLATIONS
from lethe.pipeline.transforms.contract import union_of
from lethe.protocol.vocabulary import MAX_PARTITIONS


class Severity(enum.StrEnum):
    ERROR = "error"
    """Sets the exit code."""
    WARNING = "warning"


class Rule(NamedTuple):
    name: str
    severity: Severity
    meaning: str
    """The meaning of a violation, in a sentence."""
    find: Callable[[Evidence, SharedFrames], DataFrame] | Callable[[], Column]
    """The violations, `subject, time, detail, event_ids`; for a rule on single records, what is wrong with one, or
    null."""
    on_lines: bool = False


_MAX_EVENT_IDS: Final = 10
_ERROR, _WARNING = Severity.ERROR, Severity.WARNING

RULES: Final = (
    Rule(
        "legal-transition",
        _ERROR,
        "A replica or partition took a step that the controller's state machines do not have.",
        transitions.illegal_transitions,
        on_lines=True,
    ),
    Rule(
        "continuous-states",
        _ERROR,
        "A transition begins in another state than the one in which the transition before it ended, within one term.",
        transitions.discontinuous,
    ),
    Rule(
        "sane-partitions",
        _ERROR,
        f"A line names partitions that no topic has: not ranges, falling, or {MAX_PARTITIONS:,} and above.",
        transitions.impossible_ranges,
        on_lines=True,
    ),
    Rule(
        "rising-epochs",
        _ERROR,
        f"Two terms had the same controller epoch, or a lower one began {CLOCK_SKEW_S} s or more after a higher one.",
        tenures.falling_epochs,
    ),
    Rule(
        "one-controller",
        _WARNING,
        "A controller noticed late that another one had become active: its writes are fenced, but look why.",
        tenures.overlapping,
    ),
    Rule(
        "fenced-writes",
        _ERROR,
        "A write that was begun after another controller's election took effect, though it was tied to an older epoch.",
        tenures.unfenced_writes,
    ),
    Rule(
        "newest-controller",
        _ERROR,
        "An agent carried out a request of an older controller after one of a newer controller.",
        tenures.obeyed_late,
    ),
    Rule(
        "one-outcome",
        _ERROR,
        "A topic was deleted, or another process had removed it, and its deletion continued or ended again: with ids, "
        "each deletion ends once.",
        deletions.second_outcomes,
    ),
    Rule(
        "some-outcome",
        _WARNING,
        "A deletion was going on, and the controller that took over says nothing of it: no line says how it ended.",
        deletions.without_outcome,
    ),
    Rule(
        "all-acknowledged",
        _ERROR,
        "A deletion was done though the replicas that acknowledged, or are owed, are not as many as the topic had.",
        deletions.missing_acks,
    ),
    Rule(
        "owed-before-gone",
        _ERROR,
        "The znodes of a topic went before what an absent broker owes of it was written.",
        deletions.late_debts,
    ),
    Rule("closed-once", _ERROR, "Controllers closed a debt more than once.", deletions.closed_twice),
    Rule(
        "rising-times",
        _ERROR,
        f"A deletion reached a step more than {CLOCK_SKEW_S} s before the step that leads to it.",
        deletions.wrong_order,
    ),
    Rule("own-topic-id", _ERROR, "Topics of different names have had the same id.", deletions.reused_ids),
    Rule(
        "freed-as-seen",
        _ERROR,
        "Directories that waited for their removal vanished between two surveys, and what the agent said it freed "
        "differs from what they held by more than 1 %.",
        surveys.freed_not_as_seen,
    ),
    Rule(
        "freed-as-seen-in-service",
        _WARNING,
        "As above, for directories that were in service in the first survey: they may have grown or shrunk since.",
        surveys.freed_not_as_seen_in_service,
    ),
    Rule(
        "own-directory",
        _ERROR,
        "One survey, and so one host, read the same log directory as that of two brokers.",
        surveys.scanned_twice,
    ),
    Rule(
        "no-line-lost",
        _ERROR,
        "Lines are missing between two of one process, and no line says why.",
        lines.unreported_losses,
    ),
    Rule(
        "no-gap",
        _WARNING,
        "The journal says that it could not write some records.",
        lines.reported_gaps,
        on_lines=True,
    ),
    Rule(
        "known-form",
        _ERROR,
        "An event record has none of the forms that docs/journal.md gives for its type. Further keys are allowed.",
        lines.malformed,
        on_lines=True,
    ),
)
_READ_SURVEYS: Final = (
    surveys.freed_not_as_seen,
    surveys.freed_not_as_seen_in_service,
    surveys.scanned_twice,
    deletions.reused_ids,
)
OF_SURVEYS: Final = tuple(rule for rule in RULES if rule.find in _READ_SURVEYS)
"""Only these may find something else with another survey."""


@contextmanager
def shared_frames(evidence: Evidence) -> Iterator[SharedFrames]:
    """Yield the frames that several rules share, cached until the end of the context."""
    shared = SharedFrames(rare_records(evidence), surveys.freed(evidence))
    kept = [frame.persist(StorageLevel.MEMORY_AND_DISK) for frame in shared]
    try:
        yield SharedFrames(*kept)
    finally:
        for frame in kept:
            frame.unpersist()


def audit(evidence: Evidence, shared: SharedFrames, rules: Sequence[Rule] = RULES) -> DataFrame:
    """Return every violation of the rules, with the columns of VIOLATIONS and each of its keys once. Nothing is
    computed before the frame is used. For days outside the evidence the result is incomplete."""
    on_lines = [rule for rule in rules if rule.on_lines]
    found = [_violations_of(rule, evidence, shared) for rule in rules if not rule.on_lines]
    if on_lines:
        found.insert(0, _line_violations(on_lines, evidence.controller_events))
    return _deduplicated(union_of(found))


def _deduplicated(found: DataFrame) -> DataFrame:
    """Merge equal violations of one instant, with some of their records."""
    all_lines = F.sort_array(F.array_distinct(F.flatten(F.collect_list("event_ids"))))
    several = F.slice(all_lines, 1, _MAX_EVENT_IDS)
    return (
        found.groupBy("rule", "severity", "subject", "time", "detail", "day")
        .agg(F.when(F.count("*") == 1, F.first("event_ids")).otherwise(several).alias("event_ids"))
        .select(*VIOLATIONS.names)
    )


def _violations_of(rule: Rule, evidence: Evidence, shared: SharedFrames) -> DataFrame:
    find = cast("Callable[[Evidence, SharedFrames], DataFrame]", rule.find)
    return find(evidence, shared).select(
        F.lit(rule.name).alias("rule"),
        F.lit(rule.severity.value).alias("severity"),
        "subject",
        "time",
        "detail",
        "event_ids",
        F.to_date("time").alias("day"),
    )


def flaws() -> Column:
    """Return what the rules on single records find in a record with `said`: the column `flaws` of CONTROLLER_EVENTS."""
    verdicts = F.array_compact(F.array(*(_flaw(rule) for rule in RULES if rule.on_lines)))
    return F.when(F.size(verdicts) > 0, verdicts)


def is_flawless() -> Column:
    """Return whether a record with `said` is usual, and the rules on single records find nothing in it; never null.
    Nothing is parsed."""
    others = [rule for rule in RULES if rule.on_lines and rule.find is not lines.malformed]
    return reduce(and_, (_wrong(rule).isNull() for rule in others), is_usual())


def _flaw(rule: Rule) -> Column:
    wrong = _wrong(rule)
    return F.when(wrong.isNotNull(), F.struct(F.lit(rule.name).alias("rule"), wrong.alias("detail")))


def _wrong(rule: Rule) -> Column:
    return cast("Callable[[], Column]", rule.find)()


def _line_violations(rules: Sequence[Rule], events: DataFrame) -> DataFrame:
    """Return what was found in single records when they entered the lake."""
    severity = F.create_map(*(F.lit(text) for rule in rules for text in (rule.name, rule.severity.value)))
    return (
        events.where(F.col("flaws").isNotNull())
        .select("source", "id", "time", "subject", F.explode("flaws").alias("found"))
        .select(
            "found.rule",
            severity[F.col("found.rule")].alias("severity"),
            "subject",
            "time",
            "found.detail",
            F.array(record_name()).alias("event_ids"),
            F.to_date("time").alias("day"),
        )
    )


class AuditResult(NamedTuple):
    """How many violations an audit has found."""

    errors: int
    warnings: int


def count_violations(violations: DataFrame) -> AuditResult:
    """Return the number of violations by severity, which Spark counts."""
    rows = violations.groupBy("severity").count().collect()
    found = {row["severity"]: int(row["count"]) for row in rows}
    return AuditResult(*(found.get(severity.value, 0) for severity in (Severity.ERROR, Severity.WARNING)))
