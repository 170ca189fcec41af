"""One cause of one topic, as it was seen, and its text. `protocol.causes` has the words."""

from __future__ import annotations

import time
from dataclasses import dataclass

from lethe.protocol import causes
from lethe.protocol.causes import CauseKind
from lethe.protocol.counting import counted, plural
from lethe.protocol.vocabulary import BrokerId


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause, and what it is about; None and empty where it is not about that."""

    kind: CauseKind
    broker: BrokerId | None = None
    partitions: tuple[int, ...] = ()
    path: str | None = None
    since_ms: int | None = None
    attempts: int = 0
    detail: str | None = None
    """The reason of a pause, the last error of a broker, what is missing of a tree."""

    @property
    def group(self) -> tuple[CauseKind, BrokerId | None, str | None]:
        """Causes with the same one are one cause to people: of many topics, of several partitions."""
        return self.kind, self.broker, self.path


def sentence(cause: Cause, topic: str, now_ms: int) -> str:
    """`orders waits for broker 3, which …`, without a full stop."""
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


def unblock(cause: Cause, topic: str) -> str:
    """The command or the action. Names are those of a shell's words."""
    return causes.remedy(cause.kind, topic, broker=cause.broker, path=cause.path)


def partitions_text(numbers: tuple[int, ...]) -> str:
    """`partition 3`, `partitions 0-4, 7`; `its partitions` where they are not known."""
    if not numbers:
        return causes.ITS_PARTITIONS
    return f"{plural(len(numbers), 'partition')} {ranges(numbers)}"


def ranges(numbers: tuple[int, ...]) -> str:
    """`0-4, 7`, and no more than ten of such."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    shown = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs[:10])
    return shown if len(runs) <= 10 else f"{shown} and {sum(high - low + 1 for low, high in runs[10:])} more"


def since_text(at_ms: int, now_ms: int) -> str:
    """`12:03:10 (14 min)`, in local time; with the date where it is not of the last day."""
    age_ms = max(0, now_ms - at_ms)
    form = "%H:%M:%S" if age_ms < 86_400_000 else "%Y-%m-%d %H:%M:%S"
    return f"{time.strftime(form, time.localtime(at_ms / 1000))} ({age_text(age_ms)})"


def age_text(age_ms: int) -> str:
    """`8 s`, `14 min`, `3 h`, `12 days`."""
    for unit_ms, name, upto in ((1000, "s", 120), (60_000, "min", 120), (3_600_000, "h", 48)):
        if age_ms < upto * unit_ms:
            return f"{age_ms // unit_ms} {name}"
    return counted(age_ms // 86_400_000, "day")
