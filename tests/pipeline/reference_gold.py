"""What the gold tables of the journal are to hold, in plain Python: from rows of the silver ones, and from lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from tests.pipeline.journals import Line
from tests.pipeline.reference import Row, day, gap, in_order, number, text


def percentile(values: Iterable[int | float], part: float) -> float | None:
    ordered = sorted(values)
    if not ordered:
        return None
    place = part * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def total(rows: list[Row], column: str) -> int:
    return sum(row[column] or 0 for row in rows)


def known(rows: list[Row], column: str) -> list[Any]:
    return [row[column] for row in rows if row[column] is not None]


def deletion_slo(spans: Iterable[Row]) -> Iterator[Row]:
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for span in spans:
        count = span["replicas"] or 0
        least = max(least for least in (0, 1, 10, 100, 1000) if count >= least)
        names = {0: "unknown", 1: "1-9", 10: "10-99", 100: "100-999", 1000: "1000+"}
        groups[span["day"], names[least]].append(span)
        groups[span["day"], "all"].append(span)
    for (date, size_class), rows in groups.items():
        latencies: Row = {}
        for what in ("deleted", "reclaimed"):
            times = known(rows, f"{what}_ms")
            latencies |= {f"{what}_p{p}_ms": percentile(times, p / 100) for p in (50, 90, 99)}
            latencies[f"{what}_max_ms"] = max(times, default=None)
        yield {
            "day": date,
            "size_class": size_class,
            "deletions": len(rows),
            "done": sum(row["outcome"] == "done" for row in rows),
            "owing": sum(
                row["outcome"] == "done" and row["owed_replicas"] > 0 and row["settled_at"] is None for row in rows
            ),
            "reclaimed": len(known(rows, "bytes_gone_at")),
            "let_go": sum(row["outcome"] == "let go" for row in rows),
            "vanished": sum(row["outcome"] == "vanished" for row in rows),
            "open": sum(row["outcome"] == "open" for row in rows),
            **latencies,
            "held_ms": total(rows, "held_ms"),
            "waited_ms": total(rows, "waited_ms"),
        }


def slow_brokers(replicas: Iterable[Row]) -> Iterator[Row]:
    days: dict[str, dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in replicas:
        days[row["day"]][row["broker"]].append(row)
    for date, brokers in days.items():
        p50 = {broker: percentile(known(rows, "ack_ms"), 0.5) for broker, rows in brokers.items()}
        median = percentile([value for value in p50.values() if value is not None], 0.5)
        for broker, rows in brokers.items():
            mine = p50[broker]
            yield {
                "day": date,
                "broker": broker,
                "replicas": len(rows),
                "acked": len(known(rows, "acked_at")),
                "refused": total(rows, "refused"),
                "ack_p50_ms": mine,
                "ack_p99_ms": percentile(known(rows, "ack_ms"), 0.99),
                "ack_max_ms": max(known(rows, "ack_ms"), default=None),
                "ineligible_ms": total(rows, "ineligible_ms"),
                "times_median": mine / median if median and mine is not None else None,
            }


def daily_reclaim(lines: Iterable[Line]) -> Iterator[Row]:
    groups: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for line, said in in_order(lines):
        if line.type == "bytes-freed" and said.get("topic") is not None:
            counts = {name: number(said.get(name)) or 0 for name in ("directories", "files", "size_bytes")}
            removed = said.get("error") is None
            groups[day(line.time_ms), int(line.subject.rpartition("/")[2])].append(
                counts | {"removed": removed, "topic": said["topic"]}
            )
    for (date, broker), rows in groups.items():
        removed_rows = [row for row in rows if row["removed"]]
        yield {
            "day": date,
            "broker": broker,
            **{name: total(removed_rows, name) for name in ("directories", "files", "size_bytes")},
            "failed_directories": total([row for row in rows if not row["removed"]], "directories"),
            "topics": len({row["topic"] for row in removed_rows}),
        }


def controller_tenures(lines: Iterable[Line]) -> Iterator[Row]:
    tenures: list[dict[str, Any]] = []
    open_ones: dict[tuple[int, int], dict[str, Any]] = {}
    newest: dict[str, dict[str, Any]] = {}
    for line, said in in_order(lines):
        epoch, what = number(said.get("epoch")), said.get("what")
        if line.type == "event" and what in _PAUSES and line.subject in newest:
            is_paused = what == _PAUSES[0]
            newest[line.subject]["paused"] = line.time_ms if is_paused else None
            newest[line.subject]["paused_by"] = said.get("held_by") if is_paused else None
        if line.type != "election" or epoch is None or what not in ("elected", "active", "resigned"):
            continue
        key = (int(line.subject.rpartition("/")[2]), epoch)
        if what == "elected" or key not in open_ones:
            open_ones[key] = {"controller": key[0], "epoch": epoch, "first": line.time_ms}
            tenures.append(open_ones[key])
        open_ones[key] |= {what: line.time_ms} | {k: v for k, v in said.items() if k in _SAID}
        newest[line.subject] = open_ones[key]
    for tenure in tenures:
        tenure["at"] = tenure.get("elected", _ago(tenure, "active", "loading_ms"))
        if tenure["at"] is None:
            tenure["at"] = _ago(tenure, "resigned", "tenure_ms")
        if tenure["at"] is None:
            tenure["at"] = tenure["first"]
    tenures.sort(key=lambda tenure: (tenure["epoch"], tenure["at"], tenure["controller"]))
    for tenure, following in zip(tenures, [*tenures[1:], None], strict=True):
        end = tenure.get("resigned", None if following is None else following["at"])
        lasted = tenure.get("tenure_ms")
        yield {
            "controller": tenure["controller"],
            "epoch": tenure["epoch"],
            "elected_at": text(tenure["at"]),
            "active_at": text(tenure.get("active")),
            "resigned_at": text(tenure.get("resigned")),
            "paused_at": text(tenure.get("paused")),
            "paused_by": tenure.get("paused_by"),
            "taken_from": tenure.get("taken_from"),
            "loading_ms": tenure.get("loading_ms"),
            "tenure_ms": gap(tenure["at"], end) if lasted is None else lasted,
            "reason": tenure.get("reason"),
            "day": day(tenure["at"]),
        }


_PAUSES = ("deletions are paused", "deletions go on")
_SAID = ("taken_from", "loading_ms", "tenure_ms", "reason")


def _ago(tenure: dict[str, Any], what: str, ms: str) -> int | None:
    return None if tenure.get(what) is None or tenure.get(ms) is None else int(tenure[what] - tenure[ms])
