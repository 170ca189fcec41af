"""One observed cause of one topic, and its text; `protocol.causes` has the sentences."""

from __future__ import annotations

import time
from dataclasses import dataclass

from lethe.protocol import causes
from lethe.protocol.causes import CauseKind
from lethe.protocol.counting import counted, plural
from lethe.protocol.topic_globs import protecting_glob
from lethe.protocol.vocabulary import INTERNAL_TOPICS, BrokerId
from lethe.survey.evidence import ProtectedTopics


@dataclass(frozen=True, slots=True)
class ObservedCause:
    """One cause and its subject; fields that do not apply are None or empty."""

    kind: CauseKind
    broker: BrokerId | None = None
    partitions: tuple[int, ...] = ()
    path: str | None = None
    since_ms: int | None = None
    attempts: int = 0
    detail: str | None = None
    """The reason of a pause, the last error of a broker, or the missing part of a tree."""

    @property
    def group(self) -> tuple[CauseKind, BrokerId | None, str | None]:
        """Key under which messages combine causes of several topics or partitions."""
        return self.kind, self.broker, self.path


def protection_cause(topic: str, protected: ProtectedTopics) -> ObservedCause | None:
    """Return the cause for a topic that Lethe's controller protects; None if it may be deleted."""
    pattern = protecting_glob(topic, protected.patterns)
    if pattern is None:
        return None
    if topic in INTERNAL_TOPICS:
        return ObservedCause(CauseKind.PROTECTED, detail="it is internal to Kafka")
    return ObservedCause(CauseKind.PROTECTED, path=protected.path, detail=f"by the pattern {pattern}")


def sentence(cause: ObservedCause, topic: str, now_ms: int) -> str:
    """Return `orders waits for broker 3, which …`, without a full stop."""
    said = causes.sentence(
        cause.kind,
        topic,
        broker=cause.broker,
        partitions=partitions_text(cause.partitions),
        path=cause.path,
        since="" if cause.since_ms is None else since_text(cause.since_ms, now_ms),
        detail=cause.detail,
    )
    return f"{topic} {said}"


def unblock(cause: ObservedCause, topic: str) -> str:
    """Return the command or action that ends the cause; names are quoted for a shell."""
    return causes.remedy(cause.kind, topic, broker=cause.broker, path=cause.path)


def partitions_text(numbers: tuple[int, ...]) -> str:
    """Return `partition 3` or `partitions 0-4, 7`; `its partitions` where they are unknown."""
    if not numbers:
        return causes.ITS_PARTITIONS
    return f"{plural(len(numbers), 'partition')} {ranges(numbers)}"


def ranges(numbers: tuple[int, ...]) -> str:
    """Return `0-4, 7`, with at most ten ranges."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    shown = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs[:10])
    return shown if len(runs) <= 10 else f"{shown} and {sum(high - low + 1 for low, high in runs[10:])} more"


def since_text(at_ms: int, now_ms: int) -> str:
    """Return `12:03:10 (14 min)` in local time, with the date after one day."""
    age_ms = max(0, now_ms - at_ms)
    form = "%H:%M:%S" if age_ms < 86_400_000 else "%Y-%m-%d %H:%M:%S"
    return f"{time.strftime(form, time.localtime(at_ms / 1000))} ({age_text(age_ms)})"


def age_text(age_ms: int) -> str:
    """Return `8 s`, `14 min`, `3 h` or `12 days`."""
    for unit_ms, name, upto in ((1000, "s", 120), (60_000, "min", 120), (3_600_000, "h", 48)):
        if age_ms < upto * unit_ms:
            return f"{age_ms // unit_ms} {name}"
    return counted(age_ms // 86_400_000, "day")
