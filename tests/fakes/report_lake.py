"""A lake as the demo leaves it: deletions in one burst, a broker that was down, something left over of every kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lethe.pipeline import tables
from tests.fakes.lakes import at, day_of, write

MS_PER_DAY = 86_400_000
BEGAN_MS = 1_795_286_668_000
"""2026-11-21 18:44:28 UTC."""
FREED = 16_384


def span(
    number: int, marked_ms: int, *, topic: str | None = None, waits: bool = False, replicas: int = 4
) -> dict[str, Any]:
    """A deletion that is done; every time follows from the number."""
    queued = marked_ms + 5 + number % 7
    started = queued + 8
    told = started + 40 + number % 11
    acked = told + 200 + number % 300 + (13_000 if waits else 0)
    gone, freed = acked + 60, acked + 1_300 + number % 90
    wait = {"broker": 3, "reason": "BROKER_TO_RETURN", "replicas": 2, "since": at(told + 200), "until": at(acked - 100)}
    return {
        "topic": topic or f"demo-{number:04d}",
        "topic_id": f"id-{number:06d}",
        "span": 1,
        "partitions": replicas // 2,
        "replicas": replicas,
        "marked_at": at(marked_ms),
        "queued_at": at(queued),
        "started_at": at(started),
        "tombstoned_at": at(told),
        "first_ack_at": at(told + 20),
        "last_ack_at": at(acked),
        "acknowledged_at": at(acked),
        "znodes_gone_at": at(gone),
        "done_at": at(gone),
        "bytes_gone_at": at(freed),
        "outcome": "done",
        "phase": "done",
        "acked_replicas": replicas,
        "freed_directories": replicas,
        "freed_bytes": replicas * FREED,
        "freed_files": replicas * 5,
        "held": [{"held_by": "PAUSED", "since": at(marked_ms), "until": at(queued), "ms": queued - marked_ms}],
        "held_ms": queued - marked_ms,
        "waited_for": [{**wait, "ms": acked - told - 300}] if waits else [],
        "waited_ms": acked - told - 300 if waits else 0,
        "controllers": [1001, 1002] if waits else [1001],
        "deleted_ms": gone - marked_ms,
        "reclaimed_ms": freed - marked_ms,
        "day": day_of(marked_ms),
    }


def write_lake(lake: Path, deletions: int = 60, *, days: int = 1, name: Callable[[str], str] = str) -> Path:
    """Everything that a report shows; `name` is put around every text that comes from outside."""
    spans = []
    for number in range(deletions):
        marked = BEGAN_MS + number * days // deletions * MS_PER_DAY + number % 40 * 5
        topic = name(f"demo-{number:04d}")
        spans.append(span(number, marked, topic=topic, waits=number % 3 != 0, replicas=(4, 4, 12, 120)[number % 4]))
    stuck_since = BEGAN_MS + 20_000
    open_span = {
        "topic": name("audit-log"),
        "topic_id": "open",
        "span": 1,
        "replicas": 4,
        "partitions": 2,
        "marked_at": at(stuck_since),
        "queued_at": at(stuck_since + 6),
        "outcome": "open",
        "phase": "queued",
        "acked_replicas": 2,
        "waited_for": [{"broker": 3, "reason": name("gone"), "replicas": 2, "since": at(stuck_since + 9)}],
        "day": day_of(stuck_since),
    }
    write(lake, tables.DELETION_SPANS, [*spans, open_span])
    write(lake, tables.REPLICA_DELETIONS, [replica for each in spans for replica in _replicas(each)])
    reason = name("waits for broker 3, which is not registered in ZooKeeper")
    stuck = {
        "topic": name("audit-log"),
        "topic_id": "open",
        "span": 1,
        "since": at(stuck_since),
        "waiting_ms": 41_000,
        "phase": "queued",
        "reasons": [reason],
        "brokers": [3],
        "seen_in": "both",
        "remedy": f"lethe explain {name('audit-log')}",
    }
    write(lake, tables.STUCK_NOW, [stuck])
    _write_days(lake, days)
    _write_surveys(lake, name)
    _write_rest(lake, name)
    return lake


def _replicas(of: dict[str, Any]) -> list[dict[str, Any]]:
    """Two partitions on two brokers."""
    shared = {name: of[name] for name in ("topic", "topic_id", "span", "day")}
    return [
        {**shared, "partition": number // 2, "broker": 1 + number % 2, "acked_at": of["acknowledged_at"]}
        | {"attempts": 1, "refused": 0}
        for number in range(4)
    ]


def _write_days(lake: Path, days: int) -> None:
    moments = [BEGAN_MS + number * MS_PER_DAY for number in range(days)]
    reclaim = [
        {"broker": b, "day": day_of(ms), "directories": 400 * b, "files": 900, "size_bytes": 6_000_000, "topics": 9}
        for ms in moments
        for b in (1, 2, 3)
    ]
    write(lake, tables.DAILY_RECLAIM, [{**row, "failed_directories": 0} for row in reclaim])
    slo = {"deletions": 9, "done": 9, "reclaimed": 9, "let_go": 0, "open": 0, "deleted_p50_ms": 320.0}
    slo |= {"deleted_p99_ms": 900.0, "reclaimed_p50_ms": 1_600.0, "reclaimed_p99_ms": 2_500.0}
    write(
        lake,
        tables.DELETION_SLO,
        [{**slo, "size_class": c, "day": day_of(ms)} for ms in moments for c in ("all", "1-9")],
    )
    brokers = [
        {"broker": b, "replicas": 400, "acked": 398, "refused": 0, "ack_p50_ms": p50, "ack_p99_ms": p50 * 4}
        | {"times_median": p50 / 40, "day": day_of(BEGAN_MS)}
        for b, p50 in ((1, 40.0), (2, 38.0), (3, 310.0))
    ]
    write(lake, tables.SLOW_BROKERS, brokers)


def _write_surveys(lake: Path, name: Callable[[str], str]) -> None:
    moments = {"s0": BEGAN_MS - 5_000, "s1": BEGAN_MS + 60_000}
    problem = [{"where": name("broker 3"), "what": name("it is not registered")}]
    surveys = [
        {"survey_id": key, "taken_at": at(ms), "took_ms": 140, "complete": key == "s0", "day": day_of(ms)}
        | {"cluster_id": name("Qm7dYk3pTnuI0aYw6w2k3g"), "in_motion": [], "problems": [] if key == "s0" else problem}
        for key, ms in moments.items()
    ]
    write(lake, tables.SURVEYS, surveys)
    seen = {"survey_id": "s1", "taken_at": at(moments["s1"]), "day": day_of(moments["s1"])}
    found: list[dict[str, Any]] = [
        {"place": "disk", "standing": "left_over", "reason": "directory_without_topic", "broker": 1, "partition": 0}
        | {"what": name("/d1/forgotten-0"), "topic": name("forgotten"), "size_bytes": 5_300_000},
        {"place": "zookeeper", "standing": "left_over", "reason": "config_without_topic", "topic": name("old-orders")}
        | {"what": name("/config/topics/old-orders"), "size_bytes": 0, "detail": name("")},
        {"place": "zookeeper", "standing": "pending", "reason": "marked_topic", "topic": name("audit-log")}
        | {"what": name("/admin/delete_topics/audit-log"), "size_bytes": 0},
        {"place": "disk", "standing": "set_aside", "reason": "stray_directory", "broker": 2, "partition": 1}
        | {"what": name("/d2/orders-1.9f3c-stray"), "topic": name("orders"), "size_bytes": 81_920},
    ]
    write(lake, tables.LEFTOVERS, [{**seen, **each} for each in found])
    seen_dirs = ((1, "/d1", "local", None), (2, "/d2", "local", "x-0: Permission denied"), (3, "/d3", "broker", None))
    write(
        lake,
        tables.AGENT_INVENTORY,
        [
            {**seen, "kind": "log-dir", "broker": broker, "log_dir": name(path), "source": source, "problem": problem}
            for broker, path, source, problem in seen_dirs
        ],
    )
    kept = ("place", "standing", "reason", "broker", "size_bytes")
    counted = [{**seen, **{key: each.get(key) for key in kept}, "findings": 1} for each in found]
    write(lake, tables.LEFTOVER_BY_BROKER, counted)


def _write_rest(lake: Path, name: Callable[[str], str]) -> None:
    day = day_of(BEGAN_MS)
    candidates = [
        {"topic": name("metrics-2023"), "topic_id": "m1", "partitions": 12, "replicas": 24, "size_bytes": 44_800_000}
        | {
            "is_empty": False,
            "last_write": at(BEGAN_MS - 400 * MS_PER_DAY),
            "unwritten_days": 400,
            "evidence": "mtime",
        },
        {"topic": name("trial-run"), "topic_id": "m2", "partitions": 2, "replicas": 4, "size_bytes": 0}
        | {"is_empty": True, "unwritten_days": 92, "evidence": "sizes"},
    ]
    write(lake, tables.STALE_TOPIC_CANDIDATES, candidates)
    terms = [
        {"controller": 1001, "epoch": 1, "elected_at": at(BEGAN_MS - 8_000), "active_at": at(BEGAN_MS - 7_900)}
        | {"loading_ms": 96, "tenure_ms": 14_300, "day": day},
        {"controller": 1002, "epoch": 2, "elected_at": at(BEGAN_MS + 6_300), "active_at": at(BEGAN_MS + 6_400)}
        | {"loading_ms": 118, "day": day},
    ]
    write(lake, tables.CONTROLLER_TENURES, terms)
    owed = {"broker": 3, "open_replicas": 2, "owed_bytes": 700, "unsized": 0, "paid": 0, "void": 0, "written_off": 0}
    days = ({"written": 3, "open": 3}, {"written": 0, "open": 1, "paid": 1, "written_off": 1})
    rows = ({**owed, **each, "day": day_of(BEGAN_MS + number * MS_PER_DAY)} for number, each in enumerate(days))
    write(lake, tables.OWED_BY_BROKER, rows)
    debt = {"broker": 3, "partitions": "0-1", "since": at(BEGAN_MS), "day": day_of(BEGAN_MS)}
    write(lake, tables.DEBTS, [{**debt, "topic": name("audit-2022")}, {**debt, "topic": "settled", "how": "paid"}])
    stay = {"trashed_at": at(BEGAN_MS), "until": at(BEGAN_MS + MS_PER_DAY), "day": day_of(BEGAN_MS)}
    write(lake, tables.TRASH, [{**stay, "topic": name("finance")}, {**stay, "topic": "returned", "how": "back"}])
    violation = {"rule": "bytes_match_inventory", "severity": "warning", "subject": name("broker/2"), "day": day}
    violation |= {
        "time": at(BEGAN_MS + 16_000),
        "detail": name("freed 1,474,560 bytes"),
        "event_ids": [name("19b1-44")],
    }
    write(lake, tables.VIOLATIONS, [violation])
    line = {"_source_file": name("controller-1001-00000001.jsonl"), "line_hash": "a" * 64, "line": name('{"spec')}
    write(lake, tables.QUARANTINE, [{**line, "reason": "cut off", "detail": name("the last line"), "copies": 1}])
