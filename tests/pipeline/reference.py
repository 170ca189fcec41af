"""What the tables are to hold, in plain Python: one line after the other, one topic after the other.

Says the same as the transforms and shares nothing with them but constants.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from lethe.pipeline.transforms.journal_records import MAX_RANGE
from lethe.pipeline.transforms.said import MAX_DURATION_MS
from lethe.protocol.clocks import CLOCK_SKEW_MS
from lethe.protocol.journal import time_from_text, time_to_text
from tests.pipeline.journals import Line

Row = dict[str, Any]
AT = {
    "queued": "queued_at",
    "started": "started_at",
    "tombstoned": "tombstoned_at",
    "acknowledged": "acknowledged_at",
    "removed": "znodes_gone_at",
    "done": "done_at",
    "let go": "let_go_at",
    "vanished": "vanished_at",
}
ENDS = ("done", "vanished", "let go")
REFUSED_AS = {
    "delete.topic.enable is false": "let go",
    "the topic is protected": "let go",
    "its marker names an earlier topic of this name": "let go",
    "there is no such topic; its marker is removed": "vanished",
}


def text(ms: int | None) -> str | None:
    return None if ms is None else time_to_text(ms)


def gap(earlier: int | None, later: int | None) -> int | None:
    return None if earlier is None or later is None else max(0, later - earlier)


def marker_time(value: Any, otherwise: int) -> int:
    """When the marker was made, where the line says it."""
    is_number = re.fullmatch(r"\d{1,13}", str(value)) is not None
    return int(value) if is_number and int(value) <= MAX_DURATION_MS else otherwise


def day(ms: int) -> str:
    return time_to_text(ms)[:10]


def number(value: Any) -> int | None:
    return int(value) if re.fullmatch(r"-?\d{1,9}", str(value)) else None


def numbers_in(ranges: Any) -> Iterator[int]:
    for piece in ranges.split(",") if isinstance(ranges, str) else ():
        found = re.fullmatch(r"(\d{1,10})(?:-(\d{1,10}))?", piece)
        if found:
            low, high = int(found[1]), int(found[2] or found[1])
            if max(low, high) < 2**31 and high - low < MAX_RANGE:
                yield from range(low, high + 1)


def in_order(lines: Iterable[Line]) -> list[tuple[Line, Row]]:
    ordered = sorted(lines, key=lambda line: (line.time_ms, line.source, int(line.id.rpartition("-")[2]), line.id))
    return [(line, json.loads(line.data)) for line in ordered]


class Span:
    def __init__(self, topic: str, topic_id: str | None, number: int) -> None:
        self.topic, self.topic_id, self.number = topic, topic_id, number
        self.first: dict[str, int] = {}
        self.marks: list[int] = []
        self.partitions: list[int] = []
        self.replica_counts: list[int] = []
        self.lines: list[tuple[int, str]] = []
        self.names: list[str] = []
        self.holds: list[list[Any]] = []
        self.controllers: set[int] = set()
        self.replicas: dict[tuple[int, int], list[tuple[int, str, str | None]]] = defaultdict(list)
        self.freed: list[tuple[int, Row]] = []

    @property
    def begun(self) -> int | None:
        return min(
            (at for phase, at in self.first.items() if phase not in ("held", "let go", "vanished")), default=None
        )

    @property
    def end(self) -> tuple[str, int | None]:
        """How it ended and when; of two words for it, the one that says that it was deleted."""
        for phase in ("done", "vanished", "let go"):
            if phase in self.first:
                return phase, self.first[phase]
        return "open", None

    @property
    def key(self) -> Row:
        return {
            "topic": self.topic,
            "topic_id": self.topic_id,
            "span": self.number,
            "day": day(self.marked or self.lines[0][0]),
        }

    @property
    def marked(self) -> int | None:
        return min(self.marks, default=None)


def spans(lines: Iterable[Line]) -> list[Span]:
    ordered = in_order(lines)
    by_name: dict[str, list[tuple[Line, Row]]] = defaultdict(list)
    for line, said in ordered:
        if line.type == "deletion-phase" and said.get("phase") is not None:
            by_name[line.subject.removeprefix("topic/")].append((line, said))
        elif line.type == "refusal" and said.get("what") == "deleting the topic" and said.get("why") in REFUSED_AS:
            refused = {"phase": REFUSED_AS[said["why"]], "is_refusal": True}
            by_name[line.subject.removeprefix("topic/")].append((line, refused))
    found: list[Span] = []
    for topic, mine in by_name.items():
        found += _spans_of(topic, mine)
    named = sorted((span for span in found if span.begun is not None), key=lambda span: span.begun or 0)
    for line, said in ordered:
        _ingest(line, said, named)
    return found


def _of_what_goes_on(mine: list[tuple[Line, Row]]) -> Iterator[tuple[Line, Row]]:
    """Without refusals where nothing was going on, or where the next line tells the end."""
    previous = ENDS[0]
    following: list[Row] = [*(said for _, said in mine[1:]), {"phase": None}]
    for (line, said), then in zip(mine, following, strict=True):
        is_told = then["phase"] in ENDS and "is_refusal" not in then
        if not said.get("is_refusal") or (previous not in ENDS and not is_told):
            yield line, said
        previous = said["phase"]


def _with_those_before(mine: Iterable[tuple[Line, Row]]) -> Iterator[tuple[Line, Row]]:
    """When a topic without an id was deleted, the one with an id before it had gone."""
    named, is_over = None, True
    for line, said in mine:
        yield line, said
        topic_id, phase = said.get("topic_id"), said["phase"]
        if topic_id is None and phase == "done" and not is_over:
            yield line, {"phase": "vanished", "topic_id": named}
        if topic_id is not None or phase in ENDS:
            named, is_over = topic_id, phase in ENDS


def _spans_of(topic: str, mine: list[tuple[Line, Row]]) -> list[Span]:
    before: str | None = None
    mine = list(_with_those_before(_of_what_goes_on(mine)))
    for _, said in mine:
        is_nameless = said.get("topic_id") is None
        if is_nameless and said["phase"] in ("vanished", "let go"):
            said["topic_id"] = before
        if not (is_nameless and said["phase"] in ("held", "let go")):
            before = None if said["phase"] in ("done", "vanished") else said.get("topic_id")
    following: str | None = None
    for _, said in reversed(mine):
        if said.get("topic_id") is None and said["phase"] == "held":
            said["topic_id"] = following
        else:
            following = said.get("topic_id")
    spans: dict[str | None, list[Span]] = defaultdict(list)
    ends: dict[str | None, list[tuple[Line, bool]]] = defaultdict(list)
    for line, said in mine:
        topic_id, phase, at = said.get("topic_id"), said["phase"], line.time_ms
        index = len(ends[topic_id])
        if phase in ("let go", "vanished") or (phase == "done" and topic_id is None):
            ends[topic_id].append((line, phase == "vanished" or "is_refusal" in said))
        elif topic_id is not None and _has_ended_by_another_clock(ends[topic_id][-1:], line):
            index -= 1
        if index == len(spans[topic_id]):
            spans[topic_id].append(Span(topic, topic_id, index + 1))
        span = spans[topic_id][index]
        span.first.setdefault(phase, at)
        if phase in ("held", "queued"):
            span.marks.append(min(at, marker_time(said.get("marked_at_ms"), at)))
        span.lines.append((at, phase))
        span.names.append(f"{line.source} {line.id}")
        span.partitions += [n for n in [number(said.get("partitions"))] if n is not None]
        span.replica_counts += [n for n in [number(said.get("replicas"))] if n is not None]
        span.controllers.add(int(line.source.rpartition("/")[2]))
        if span.holds and span.holds[-1][2] is None:
            span.holds[-1][2] = at
        if phase == "held":
            span.holds.append([said.get("held_by"), at, None])
    return [span for each in spans.values() for span in each]


def _has_ended_by_another_clock(newest: list[tuple[Line, bool]], line: Line) -> bool:
    """Whether the newest end is one that the line, of somebody else, was written before, clocks being what they are."""
    return any(
        is_last_word and end.source != line.source and line.time_ms - end.time_ms <= CLOCK_SKEW_MS
        for end, is_last_word in newest
    )


def _ingest(line: Line, said: Row, named: list[Span]) -> None:
    topic_id, at = said.get("topic_id"), line.time_ms
    if line.type == "bytes-freed":
        name = str(said.get("topic"))
        mine = [span for span in named if span.topic == name or (len(name) > 203 and span.topic.startswith(name))]
        mine = mine if topic_id or len({span.topic for span in mine}) == 1 else []
        latest = [s for s in mine if s.topic_id == (topic_id or s.topic_id) and (s.begun or 0) <= at + CLOCK_SKEW_MS]
        if latest and said.get("error") is None:
            latest[-1].freed.append((at, said | {"broker": int(line.subject.rpartition("/")[2])}))
        return
    kind = _kind(line, said)
    hosts = said.get("replicas")
    if not isinstance(hosts, dict):
        hosts = {str(said.get("broker")): said.get("partitions")}
    if kind is None:
        return
    mine = [span for span in named if span.topic == line.subject.removeprefix("topic/") and (span.begun or 0) <= at]
    if topic_id:
        mine = [span for span in mine if span.topic_id == topic_id]
    else:
        ends = [(span, span.end[1]) for span in mine]
        mine = [span for span, end in ends if end is None or at <= end + CLOCK_SKEW_MS]
    for brokers, partitions in hosts.items() if mine else ():
        for broker, partition in itertools.product(numbers_in(brokers), numbers_in(partitions)):
            mine[-1].replicas[partition, broker].append((at, kind, said.get("result")))


def _kind(line: Line, said: Row) -> str | None:
    if line.type == "ack" and "result" in said:
        return "acked" if said["result"] == "NONE" else "refused"
    if line.type == "transition" and said.get("machine") == "replica":
        states = {"STARTED": "asked", "INELIGIBLE": "ineligible", "SUCCESSFUL": "acked"}
        return states.get(str(said.get("after")).removeprefix("DELETION_"))
    return None


def done_lines(span: Span) -> list[str]:
    return [name for name, (_, phase) in zip(span.names, span.lines, strict=True) if phase == "done"]


def replica_deletions(spans: Iterable[Span]) -> Iterator[Row]:
    for span in spans:
        for (partition, broker), told in span.replicas.items():
            asked = [at for at, kind, _ in told if kind == "asked"]
            acked = [at for at, kind, _ in told if kind == "acked"]
            refused = [(at, result) for at, kind, result in told if kind == "refused"]
            unable = [at for at, kind, _ in told if kind in ("ineligible", "refused")]
            since = unable[0] if unable else None
            ineligible: int | None = 0
            if since is not None:
                is_over = acked and acked[-1] >= unable[-1]
                ineligible = acked[-1] - since if is_over else gap(since, span.end[1])
            yield span.key | {
                "partition": partition,
                "broker": broker,
                "first_asked_at": text(asked[0] if asked else None),
                "last_asked_at": text(asked[-1] if asked else None),
                "attempts": len(asked),
                "acked_at": text(acked[0] if acked else None),
                "refused": len(refused),
                "last_refusal": max(refused)[1] if refused else None,
                "ineligible_since": text(since),
                "ineligible_ms": ineligible,
                "last_ineligible_at": text(unable[-1] if unable else None),
                "ack_ms": acked[-1] - asked[-1] if acked and asked and acked[-1] >= asked[-1] else None,
                # For what follows, not of the table:
                "_acked": acked[0] if acked else None,
                "_since": since,
                "_asked": asked[-1] if asked else None,
                "_is_asked_again": bool(asked and unable and asked[-1] > unable[-1]),
            }


def deletion_spans(
    spans: list[Span], replicas: list[Row], lines: Iterable[Line], debts: Iterable[Row] = ()
) -> Iterator[Row]:
    history: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for line, said in in_order(lines):
        if line.type == "broker" and said.get("what") in ("failed", "started", "log directory failed"):
            history[int(line.subject.rpartition("/")[2])].append((line.time_ms, said["what"]))
    for told in history.values():
        told.sort()
    by_span: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in replicas:
        by_span[row["topic"], row["topic_id"], row["span"]].append(row)
    owed: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for debt in debts:
        owed[debt["topic"], debt["topic_id"], debt["span"]].append(debt)
    for span in spans:
        mine = by_span[span.topic, span.topic_id, span.number]
        owing = owed[span.topic, span.topic_id, span.number]
        acks = [row["_acked"] for row in mine if row["_acked"] is not None]
        waits = sorted(_waits(mine, history), key=lambda wait: wait["broker"])
        done = span.first.get("done")
        outcome, end = span.end
        holds = [
            (by, since, until if until is not None or end is None else max(since, end))
            for by, since, until in span.holds
        ]
        freed = sum((number(said.get("directories")) or 0) for _, said in span.freed)
        gone = _gone(mine, owing, span) if done is not None else None
        yield span.key | {
            "partitions": max(span.partitions, default=None),
            "replicas": max(span.replica_counts, default=None),
            "marked_at": text(span.marked),
            **{column: text(span.first.get(phase)) for phase, column in AT.items()},
            "first_ack_at": text(min(acks, default=None)),
            "last_ack_at": text(max(acks, default=None)),
            "bytes_gone_at": text(gone),
            "outcome": outcome,
            "phase": span.lines[-1][1] if outcome == "open" else outcome,
            "acked_replicas": len(acks),
            "freed_directories": freed,
            "freed_bytes": sum((number(said.get("size_bytes")) or 0) for _, said in span.freed),
            "freed_files": sum((number(said.get("files")) or 0) for _, said in span.freed),
            "held": [
                {"held_by": by, "since": text(since), "until": text(until), "ms": gap(since, until)}
                for by, since, until in holds
            ],
            "held_ms": None if any(until is None for _, _, until in holds) else sum(u - s for _, s, u in holds),
            "waited_for": [
                wait
                | {"since": text(wait["since"]), "until": text(wait["until"]), "ms": gap(wait["since"], wait["until"])}
                for wait in waits
            ],
            "waited_ms": _covered(waits),
            "controllers": sorted(span.controllers),
            "last_at": text(span.lines[-1][0]),
            "first_line": span.names[0],
            "last_line": span.names[-1],
            "done_line": next(iter(done_lines(span)), None),
            "dones": len(done_lines(span)),
            "owed_by": sorted({debt["broker"] for debt in owing}),
            "owed_replicas": sum(debt["replicas"] for debt in owing),
            "settled_at": None if any(debt["how"] is None for debt in owing) else _settled(owing),
            "deleted_ms": gap(span.marked, done),
            "reclaimed_ms": gap(span.marked, gone),
        }


def _settled(owing: list[Row]) -> str | None:
    return max((debt["closed_at"] for debt in owing if debt["closed_at"] is not None), default=None)


def _gone(mine: list[Row], owing: list[Row], span: Span) -> int | None:
    """When every broker had removed as many directories as it has acknowledged replicas, or paid for; what is owed or
    written off is not gone."""
    promised = Counter(row["broker"] for row in mine if row["_acked"] is not None)
    for debt in owing:
        promised[debt["broker"]] += debt["paid_replicas"]
    freed: Counter[int] = Counter()
    for _, said in span.freed:
        freed[said["broker"]] += number(said.get("directories")) or 0
    is_left = any(debt["how"] in (None, "written off") for debt in owing)
    if is_left or not promised.total() or any(freed[broker] < count for broker, count in promised.items()):
        return None
    times = [at for at, _ in span.freed]
    settled = _settled(owing)
    return max([*times, *([] if settled is None else [time_from_text(settled)])])


def _waits(mine: list[Row], history: dict[int, list[tuple[int, str]]]) -> Iterator[Row]:
    for broker in {row["broker"] for row in mine}:
        waited = [row for row in mine if row["broker"] == broker and row["_since"] is not None]
        if not waited:
            continue
        since = min(row["_since"] for row in waited)
        lasting = [row for row in waited if row["ineligible_ms"] is None]
        before = [what for at, what in history[broker] if at <= since]
        after = [what for at, what in history[broker] if at > since]
        refusals = [row["last_refusal"] for row in mine if row["broker"] == broker and row["last_refusal"] is not None]
        newest, told = history[broker][-1] if history[broker] else (0, "started")
        if lasting:
            is_asked = all(row["_is_asked_again"] for row in lasting)
            if is_asked and (told == "started" or min(row["_asked"] for row in lasting) > newest):
                told = "asked"
            before, after = [told], []
        if before == ["asked"]:
            reason = "asked"
        elif before[-1:] == ["failed"] or (not before and after[:1] == ["started"]):
            reason = "broker_to_return"
        elif before[-1:] == ["log directory failed"]:
            reason = "log_directory"
        else:
            reason = max(refusals, default="unreachable")
        until = None if lasting else max(row["_since"] + row["ineligible_ms"] for row in waited)
        yield {"broker": broker, "reason": reason, "replicas": len(waited), "since": since, "until": until}


def _covered(waits: list[Row]) -> int | None:
    """Milliseconds that lie in at least one of them."""
    total, reach = 0, 0
    for wait in sorted(waits, key=lambda wait: wait["since"]):
        if wait["until"] is None:
            return None
        total += max(0, wait["until"] - max(wait["since"], reach))
        reach = max(reach, wait["until"])
    return total


def without_private(rows: Iterable[Row]) -> list[Row]:
    return [{key: value for key, value in row.items() if not key.startswith("_")} for row in rows]
