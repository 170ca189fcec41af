"""The demo's pure parts: the topics that it makes, the totals of journals, the log of waits."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from lethe.admin.topic_plans import TopicPlan
from lethe.cluster.demo import until_written
from lethe.cluster.demo_plan import DemoOptions, plan_topics
from lethe.cluster.demo_real import note_freed
from lethe.cluster.demo_totals import JournalFollower, JournalTotals
from lethe.cluster.demo_waits import WaitCause, WaitLog
from lethe.cluster.kafka_fetch import KafkaVersion
from lethe.protocol.journal import (
    EventRecord,
    EventRecordType,
    JournalEntry,
    JsonValue,
    LineFlaw,
    UnreadableLine,
    encode,
)
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.vocabulary import BrokerId
from lethe.survey.views import Directory, LogDirSource, LogDirView, Survey, ZooKeeperTree

# --- topics -------------------------------------------------------------------------------------------------------


def plans(options: DemoOptions) -> list[tuple[tuple[int, ...], ...]]:
    brokers = list(range(1, options.brokers + 1))
    return [plan.assignment for plan in plan_topics(options, brokers, random.Random(1).randbytes)]


def test_replicas_are_spread_evenly() -> None:
    placed = plans(DemoOptions(topics=6, partitions=4, replication_factor=2, brokers=3))
    assert len(placed) == 6
    flat = [broker for topic in placed for replicas in topic for broker in replicas]
    assert {broker: flat.count(broker) for broker in (1, 2, 3)} == {1: 16, 2: 16, 3: 16}
    assert all(len(set(replicas)) == 2 for topic in placed for replicas in topic)


def test_with_chaos_some_topics_do_without_the_last_broker() -> None:
    placed = plans(DemoOptions(topics=9, partitions=3, replication_factor=2, brokers=3, chaos=True))
    on_last = [any(3 in replicas for replicas in topic) for topic in placed]
    assert (on_last.count(True), on_last.count(False)) == (6, 3)
    assert all(len(set(replicas)) == 2 for topic in placed for replicas in topic)


def test_topics_have_ids_of_their_own() -> None:
    made = plan_topics(DemoOptions(topics=20), [1, 2, 3], random.Random(3).randbytes)
    assert len({plan.topic_id for plan in made}) == len({plan.name for plan in made}) == 20


@pytest.mark.parametrize(
    "wrong",
    [
        {"topics": 0},
        {"brokers": 2, "replication_factor": 3},
        {"bytes_per_replica": -1},
        {"chaos": True, "controllers": 1},
        {"chaos": True, "brokers": 1},
        {"chaos": True, "topics": 1001},
    ],
)
def test_numbers_that_contradict_each_other_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="--"):
        DemoOptions(**wrong)  # type: ignore[arg-type]


# --- totals -------------------------------------------------------------------------------------------------------

CONTROLLER, BROKER = "/lethe/controller/1001", "/lethe/broker/3"


def entry(source: str, kind: EventRecordType, subject: str, time_ms: int = 5, **data: JsonValue) -> JournalEntry:
    return JournalEntry(f"{source}/{time_ms}", source, time_ms, EventRecord(kind, subject, data))


def test_the_ledger_adds_up() -> None:
    totals = JournalTotals()
    for time_ms, phase in enumerate(("queued", "started", "removed")):
        totals.note(entry(CONTROLLER, EventRecordType.DELETION_PHASE, "topic/a", time_ms, phase=phase))
    totals.note(entry(CONTROLLER, EventRecordType.DELETION_PHASE, "topic/b", 1, phase="removed"))
    totals.note(entry(BROKER, EventRecordType.ACK, "topic/a", broker=3, partitions="0-3,7", error="NONE"))
    totals.note(entry(BROKER, EventRecordType.ACK, "topic/a", broker=3, partitions="8", error="KAFKA_STORAGE_ERROR"))
    totals.note(entry(CONTROLLER, EventRecordType.ACK, "topic/a", broker=3, partitions="0-3", result="NONE"))
    for size in (100, 20):
        totals.note(
            entry(
                BROKER,
                EventRecordType.BYTES_FREED,
                "broker/3",
                size,
                size_bytes=size,
                files=2,
                error=None,
                directories=1,
            )
        )
    totals.note(entry(CONTROLLER, EventRecordType.REFUSAL, "topic/a", what="deleting", why="no"))
    totals.note(entry(CONTROLLER, EventRecordType.GAP, "controller/1001", count=7))
    totals.note(UnreadableLine(LineFlaw.CUT_OFF, "x"))
    assert totals.reached("removed", ["b", "a", "c"]) == [1, 2]
    assert totals.acknowledged == {3: 5}
    assert (totals.freed_bytes, totals.freed_files, totals.freed_directories) == ({3: 120}, {3: 4}, {3: 2})
    assert totals.last_freed_ms == {3: 20}
    assert totals.refusals == {"deleting: no": 1}
    assert (totals.lost_records, totals.unreadable_lines) == (7, 1)
    assert totals.queued_under == {"a": ["1001"]}


def test_of_real_brokers_the_controllers_word_counts_and_each_replica_once() -> None:
    totals = JournalTotals(acks_of="controller")
    totals.note(entry(BROKER, EventRecordType.ACK, "topic/a", broker=3, partitions="0-9", error="NONE"))
    totals.note(entry(CONTROLLER, EventRecordType.ACK, "topic/a", broker=3, partitions="0-3", result="NONE"))
    totals.note(
        entry("/lethe/controller/1002", EventRecordType.ACK, "topic/a", broker=3, partitions="2-4", result="NONE")
    )
    totals.note(
        entry(CONTROLLER, EventRecordType.ACK, "topic/a", broker=3, partitions="7", result="KAFKA_STORAGE_ERROR")
    )
    assert totals.acknowledged == {3: 5}


def views(*sizes: int) -> Survey:
    directories = tuple(Directory(f"a-{n}", DirectoryKind.REPLICA, None, size, None, 2) for n, size in enumerate(sizes))
    return Survey(1, 1, ZooKeeperTree(), log_dirs=(LogDirView(BrokerId(3), "/d", LogDirSource.LOCAL, directories),))


def test_what_real_brokers_free_is_seen_on_their_disks() -> None:
    totals, before = JournalTotals(), views(100, 50, 7)
    note_freed(totals, before, before)
    assert (totals.freed_bytes[3], totals.last_freed_ms) == (0, {})
    note_freed(totals, before, views(100))
    assert (totals.freed_bytes[3], totals.freed_files[3], totals.freed_directories[3]) == (57, 4, 2)
    last = totals.last_freed_ms[3]
    note_freed(totals, before, views(100))
    assert totals.last_freed_ms[3] == last
    note_freed(totals, before, views())
    assert (totals.freed_bytes[3], totals.freed_files[3], totals.freed_directories[3]) == (157, 6, 3)


async def test_what_the_disks_show_to_be_gone_is_waited_for_in_the_journals() -> None:
    totals, looks = JournalTotals(), 0

    def follow() -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            totals.note(entry(BROKER, EventRecordType.BYTES_FREED, "broker/3", size_bytes=57, files=4, error=None))

    await until_written(totals, follow, views(100, 50, 7), views(100), limit_s=10)
    assert (looks, totals.freed_bytes[3]) == (3, 57)
    await until_written(totals, follow, views(100), views(100), limit_s=10)
    assert looks == 4, "nothing is waited for where nothing has gone"


async def test_what_a_killed_agent_never_wrote_is_not_waited_for_for_ever() -> None:
    await until_written(JournalTotals(), lambda: None, views(100), views(), limit_s=0)


def test_topics_have_ids_where_that_kafka_gives_them_some() -> None:
    def first(version: str) -> TopicPlan:
        options = DemoOptions(topics=1, kafka=KafkaVersion.parse(version))
        return plan_topics(options, [1, 2, 3], random.Random(3).randbytes)[0]

    assert first("2.5.1").topic_id is None
    assert first("2.8.0").topic_id is not None


def test_elections_and_brokers_are_told_in_words() -> None:
    totals = JournalTotals()
    totals.note(entry(CONTROLLER, EventRecordType.ELECTION, "controller/1001", what="elected", epoch=2))
    totals.note(entry(CONTROLLER, EventRecordType.ELECTION, "controller/1001", what="active", deletions=4))
    totals.note(entry(CONTROLLER, EventRecordType.BROKER, "broker/3", what="failed"))
    totals.note(entry(BROKER, EventRecordType.BROKER, "broker/3", happened="registered"))
    assert [happening.text for happening in totals.happenings] == [
        "controller 1001 is elected",
        "controller 1001 is active, with 4 deletions to go on with",
        "controller 1001 sees that broker 3 has failed",
    ]


def test_journals_are_followed_while_they_are_written(tmp_path: Path) -> None:
    follower = JournalFollower([tmp_path / "one", tmp_path / "two"])
    assert list(follower.entries()) == []
    (tmp_path / "one").mkdir()
    first = entry(CONTROLLER, EventRecordType.DELETION_PHASE, "topic/a", phase="queued")
    second = entry(CONTROLLER, EventRecordType.DELETION_PHASE, "topic/b", phase="queued")
    file = tmp_path / "one" / "x-00000001.jsonl"
    file.write_bytes(
        encode(first) + encode(entry(CONTROLLER, EventRecordType.REQUEST, "broker/1")) + encode(second)[:20]
    )
    assert list(follower.entries()) == [first]
    assert list(follower.entries()) == []
    with file.open("ab") as end:
        end.write(encode(second)[20:])
    (tmp_path / "one" / "x-00000002.jsonl").write_bytes(encode(first))
    assert list(follower.entries()) == [second, first]


# --- waits --------------------------------------------------------------------------------------------------------


def wait(name: str, broker: int | None, attempts: int = 1, error: str | None = None) -> dict[str, object]:
    return {"waiting_for": name, "meaning": name.lower(), "broker": broker, "attempts": attempts, "last_error": error}


def test_waits_count_only_between_looks_that_both_saw_them() -> None:
    log = WaitLog()
    gone, answer = WaitCause("GONE", 3), WaitCause("ANSWER", 1)
    log.note(1001, {"topics": {"a": [wait("GONE", 3), wait("GONE", 3)], "b": [wait("ANSWER", 1)]}}, 1_000)
    log.note(1001, {"topics": {"a": [wait("GONE", 3, 2, "BROKEN")]}}, 1_500)
    log.note(1002, {"topics": {"a": [wait("GONE", 3)], "b": [wait("ANSWER", 1)]}}, 4_000)
    seen = log.topics["a"][gone]
    assert (seen.first_ms, seen.last_ms, seen.waited_ms) == (1_000, 4_000, 3_000)
    assert (seen.replicas, seen.attempts, seen.last_error, list(seen.told_by)) == (2, 2, "BROKEN", [1001, 1002])
    assert (log.topics["b"][answer].waited_ms, log.topics["b"][answer].last_ms) == (0, 4_000)
    assert log.topics_by_cause() == {gone: ["a"], answer: ["b"]}
