"""What the tables about debts and the trash are to hold, in plain Python."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Final

from lethe.protocol.clocks import CLOCK_SKEW_MS
from lethe.protocol.journal_trash import GAVE_WAY
from tests.pipeline.journals import Line
from tests.pipeline.reference import Row, Span, day, in_order, marker_time, number, numbers_in, text

WHATS: Final = ("written", "paid", "void", "written off")
ENDS: Final = {
    "back from the trash": "back",
    "settings and offsets are restored": "back",
    "its time in the trash is over": "expired",
    "purged from the trash": "purged",
    "gave way": "gave way",
    "queued": "deleted",
    "in the trash": "deleted",
}


def debts(lines: Iterable[Line], spans: list[Span]) -> Iterator[Row]:
    found: dict[tuple[Any, ...], list[list[Row]]] = defaultdict(list)
    for line, said in in_order(lines):
        broker = number(said.get("broker"))
        if line.type != "debt" or said.get("what") not in WHATS or broker is None:
            continue
        zxid, since = said.get("created_zxid"), marker_time(said.get("owed_since_ms"), line.time_ms)
        said |= {"at": line.time_ms, "source": line.source, "line": f"{line.source} {line.id}", "since": since}
        mine = found[line.subject.removeprefix("topic/"), said.get("topic_id"), broker, zxid]
        if not mine or (said["what"] == "written" and mine[-1][-1]["what"] != "written"):
            mine.append([])
        mine[-1].append(said)
    for (topic, topic_id, broker, zxid), each in found.items():
        for told in each:
            yield {"topic": topic, "topic_id": topic_id, "broker": broker, "created_zxid": zxid} | _debt(
                told, [span for span in spans if span.topic == topic]
            )


def _debt(told: list[Row], spans: list[Span]) -> Row:
    written = [said for said in told if said["what"] == "written"]
    closings = sorted(
        (said for said in told if said["what"] != "written"), key=lambda s: (s["at"], s["source"], s["what"] != "paid")
    )
    closed = closings[0] if closings else {}
    of = {name: value for said in (closed, *written[-1:]) for name, value in said.items() if value is not None}
    since = of["since"]
    span = _span_of(since, told[0].get("topic_id"), spans)
    by_controllers = {(s["at"], s["source"]) for s in closings if "/controller/" in s["source"]}
    paid = list(numbers_in(closed.get("partitions"))) if closed.get("what") == "paid" else []
    return {
        "span": None if span is None else span.number,
        "partitions": of.get("partitions"),
        "replicas": len(list(numbers_in(of.get("partitions")))),
        "size_bytes": of.get("size_bytes"),
        "since": text(since),
        "closed_at": text(closed.get("at")),
        "how": closed.get("what"),
        "closed_by": closed.get("source"),
        "why": closed.get("why"),
        "paid_replicas": len(paid),
        "closed_again_at": text(max(by_controllers)[0]) if len(by_controllers) > 1 else None,
        "written_line": written[-1]["line"] if written else None,
        "closed_line": closed.get("line"),
        "day": day(since) if span is None else span.key["day"],
    }


def _span_of(since: int, topic_id: str | None, spans: list[Span]) -> Span | None:
    begun = sorted((s for s in spans if s.begun is not None and s.begun <= since), key=lambda s: s.begun or 0)
    if topic_id is None:
        begun = [s for s in begun if s.end[1] is None or since <= s.end[1] + CLOCK_SKEW_MS]
    else:
        begun = [s for s in begun if s.topic_id == topic_id]
    return begun[-1] if begun else None


def trash_stays(lines: Iterable[Line]) -> Iterator[Row]:
    by_name: dict[str, list[tuple[Line, Row]]] = defaultdict(list)
    for line, said in in_order(lines):
        what = said.get("what") if line.type == "event" else said.get("phase")
        is_queued = line.type == "deletion-phase" and what == "queued"
        if is_queued or (line.type == "event" and line.subject.startswith("topic/") and what in (*ENDS, GAVE_WAY)):
            by_name[line.subject.removeprefix("topic/")].append((line, said | {"what": what}))
    for topic, mine in by_name.items():
        for (_, before), (_, said) in pairwise(mine):
            if before["what"] == GAVE_WAY and said["what"] in ("purged from the trash", "queued"):
                said["what"] = "gave way"
        mine = [(line, said) for line, said in mine if said["what"] != GAVE_WAY]
        for (line, said), after in zip(mine, [*mine[1:], None], strict=True):
            if said["what"] == "in the trash":
                yield {
                    "topic": topic,
                    "topic_id": said.get("topic_id"),
                    "partitions": said.get("partitions"),
                    "trashed_at": text(line.time_ms),
                    "until": text(said.get("until_ms")),
                    "left_at": None if after is None else text(after[0].time_ms),
                    "how": None if after is None else ENDS[after[1]["what"]],
                    "day": day(line.time_ms),
                }


def owed_by_broker(debts: Iterable[Row]) -> Iterator[Row]:
    """Of debts whose size no survey tells."""
    changes: dict[int, dict[str, list[tuple[int, Row]]]] = defaultdict(lambda: defaultdict(list))
    for debt in debts:
        changes[debt["broker"]][debt["since"][:10]].append((1, debt))
        if debt["closed_at"] is not None:
            changes[debt["broker"]][max(debt["closed_at"], debt["since"])[:10]].append((-1, debt))
    for broker, by_day in changes.items():
        sums = dict.fromkeys(("open", "open_replicas", "owed_bytes", "unsized"), 0)
        for date in sorted(by_day):
            closed = [debt["how"] for sign, debt in by_day[date] if sign < 0]
            for sign, debt in by_day[date]:
                sums["open"] += sign
                sums["open_replicas"] += sign * debt["replicas"]
                sums["owed_bytes"] += sign * (debt["size_bytes"] or 0)
                sums["unsized"] += sign * (debt["size_bytes"] is None)
            yield {
                "day": date,
                "broker": broker,
                "written": sum(sign > 0 for sign, _ in by_day[date]),
                "paid": closed.count("paid"),
                "void": closed.count("void"),
                "written_off": closed.count("written off"),
                **sums,
            }
