"""`lethe topics delete --from-candidates`: the plan, what is asked, and what is deleted of it."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.admin import candidates_look, candidates_plan, topic_znodes
from lethe.admin.candidates import TABLE, Candidate
from lethe.admin.candidates_plan import CandidateDeletionRequest
from lethe.admin.candidates_read import candidates_table
from lethe.admin.deletion_requests import pause_deletions
from lethe.admin.group_readers import Group
from lethe.admin.paced_marking import Pace
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_creation import TopicCreationRequest
from lethe.admin.topic_usage import LeaderQuery, Offsets, TopicUsage
from lethe.cli.answer import Answer
from lethe.cli.asking import Confirm
from lethe.cli.topics_create import creation
from lethe.cli.topics_delete_candidates import candidates_deletion
from lethe.protocol.clocks import CLOCKS_DIFFER_MS
from lethe.protocol.lake import IDENTITY, encode_identity
from lethe.protocol.lake_rules import PLACE, LakeRules, encode_rules
from lethe.protocol.vocabulary import TopicPartition, topic_id_to_text
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create
from tests.fakes.forbidden_znodes import NO_AUTH, forbidding
from tests.fakes.questions import agrees, declines
from tests.fakes.stale_topics import DAY_MS, TAKEN_AT_MS, ToldSizes, candidate
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply, bring_online, complete_deletion, elect

NOW_MS = TAKEN_AT_MS + DAY_MS
NAMES = ("bills", "orders", "visits")


class ToldReaders:
    """What brokers tell of readers and offsets: nobody reads, nothing was written lately. `after` is told from the
    second time on."""

    def __init__(self) -> None:
        self.groups: dict[str, tuple[Group, ...]] = {}
        self.unasked: tuple[str, ...] = ()
        self.unknown: dict[TopicPartition, str] = {}
        self.after: dict[str, tuple[Group, ...]] = {}
        self.asked = 0

    async def __call__(
        self, _session: object, _reach: object, _brokers: object, partitions: Mapping[TopicPartition, LeaderQuery]
    ) -> TopicUsage:
        self.asked += 1
        groups = self.after if self.after and self.asked > 1 else self.groups
        offsets = {each: Offsets(0, 9, None) for each in partitions if each not in self.unknown}
        return TopicUsage(groups, offsets, self.unasked, self.unknown)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> ToldSizes:
    """What brokers tell of sizes."""
    sizes = ToldSizes({broker: {f"{name}-0": 100 for name in NAMES} for broker in (1, 2)})
    monkeypatch.setattr(candidates_look, "broker_asker", lambda _, **__: sizes)
    return sizes


@pytest.fixture(autouse=True)
def readers(monkeypatch: pytest.MonkeyPatch) -> ToldReaders:
    found = ToldReaders()
    monkeypatch.setattr(candidates_plan, "ask_readers", found)
    return found


@pytest.fixture
async def cluster(session: FakeSession, told: ToldSizes) -> FakeSession:
    for name in NAMES:
        await creation(session, TopicCreationRequest(name, assignment=((1, 2),)))
        await bring_online(session, name, {0: (1, 2)})
    await elect(session, 1)
    return session


async def as_seen(session: FakeSession, name: str) -> Candidate:
    """A row about the topic as it is."""
    (description,) = await topic_znodes.describe(session, [name], ())
    return candidate(name, topic_id=description.topic_id)


async def table(session: FakeSession, path: Path, *names: str, **changes: Any) -> CandidateDeletionRequest:
    rows = []
    for name in names:
        found = await as_seen(session, name)
        instants = {
            "last_write": found.last_write_ms,
            "created_at": found.created_at_ms,
            "taken_at": found.taken_at_ms,
        }
        row = {column: getattr(found, column) for column in found.__slots__ if not column.endswith("_ms")}
        row |= {column: None if ms is None else text(ms) for column, ms in instants.items()}
        row["topic_id"] = None if found.topic_id is None else topic_id_to_text(found.topic_id)
        rows.append(orjson.dumps(row | changes))
    (path / "t.jsonl").write_bytes(b"\n".join(rows))
    return CandidateDeletionRequest(path / "t.jsonl", PLAINTEXT_REACH, pace=Pace(2), timeout_ms=30_000, quiet=True)


async def deleted(
    session: FakeSession, wanted: CandidateDeletionRequest, *, confirm: Confirm | None, now_ms: int
) -> Answer:
    """As the command does it: the table first, then the cluster."""
    read = await candidates_table(wanted.path, max_age_days=wanted.max_age_days, now_ms=now_ms)
    return await candidates_deletion(session, wanted, read, confirm=confirm)


def text(ms: int) -> str:
    return (datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(milliseconds=ms)).isoformat()


def changed(wanted: CandidateDeletionRequest, **changes: Any) -> CandidateDeletionRequest:
    import dataclasses

    return dataclasses.replace(wanted, **changes)


async def marked(session: FakeSession) -> tuple[str, ...]:
    return (await topic_znodes.list_topics(session)).marked


async def test_a_dry_run_shows_the_plan_and_changes_nothing(
    cluster: FakeSession, tmp_path: Path, told: ToldSizes, readers: ToldReaders
) -> None:
    told.sizes[2]["bills-0"] = 101
    readers.unasked = ("aiokafka is not installed: pip install it",)
    wanted = await table(cluster, tmp_path, *NAMES)
    wanted = changed(wanted, dry_run=True, protected=("vis*",), allow_unasked=True)
    answer = await deleted(cluster, wanted, confirm=None, now_ms=NOW_MS)
    assert answer.exit is Exit.OK
    assert isinstance(answer.data, dict)
    assert [row[0] for row in answer.tables[0].rows] == ["orders"]
    assert answer.data["left_out"] == [
        {"topic": "bills", "why": "it had 200 bytes and has 201 now"},
        {"topic": "visits", "why": "it is protected by vis*"},
    ]
    assert answer.lines[0] == "1 topic with 1 partition and 220 bytes, 2 left out"
    assert answer.lines[1:] == (
        "WARNING: could not be asked: aiokafka is not installed: pip install it",
        "WARNING: topics concerned go none the less, as --allow-unasked says.",
    )
    assert answer.tables[0].rows[0][-1] == "could not be asked"
    assert await marked(cluster) == ()


async def test_what_the_tables_lake_protects_stays(cluster: FakeSession, tmp_path: Path) -> None:
    (tmp_path / IDENTITY).write_text(encode_identity(None))
    (tmp_path / TABLE).mkdir(parents=True)
    (tmp_path / PLACE).mkdir()
    (tmp_path / PLACE / "00000002.json").write_text(encode_rules(LakeRules(30, ("ord*",), False, 5)))
    wanted = await table(cluster, tmp_path / TABLE, *NAMES)
    wanted = changed(wanted, protected=("vis*",))
    with pytest.raises(ValueError, match="has not yet been made anew"):
        await deleted(cluster, wanted, confirm=agrees, now_ms=NOW_MS)
    assert await marked(cluster) == ()
    (tmp_path / PLACE / "00000002.made").touch()
    answer = await deleted(cluster, changed(wanted, dry_run=True), confirm=None, now_ms=NOW_MS)
    assert [row[0] for row in answer.tables[0].rows] == ["bills"]
    assert answer.tables[1].rows == (
        ("orders", "it is protected by ord*"),
        ("visits", "it is protected by vis*"),
    )


async def test_what_is_agreed_to_is_deleted_little_by_little(cluster: FakeSession, tmp_path: Path) -> None:
    wanted = await table(cluster, tmp_path, *NAMES)
    questions: list[str] = []
    most = 0

    async def controller() -> None:
        nonlocal most
        for _ in NAMES:
            while not (now := await marked(cluster)):
                await asyncio.sleep(0)
            most = max(most, len(now))
            await complete_deletion(cluster, now[0])

    async def agree(question: str) -> bool:
        questions.append(question)
        return True

    answer, _ = await asyncio.gather(deleted(cluster, wanted, confirm=agree, now_ms=NOW_MS), controller())
    assert questions == ["Delete these 3 topics for good?"]
    assert (answer.exit, answer.lines) == (Exit.OK, ("3 of 3 topics deleted",))
    assert [row[:2] for row in answer.tables[0].rows] == [(name, "deleted") for name in NAMES]
    assert most <= 2
    assert not {*NAMES} & {*(await topic_znodes.list_topics(cluster)).names}


async def test_what_is_not_agreed_to_stays(cluster: FakeSession, tmp_path: Path) -> None:
    wanted = await table(cluster, tmp_path, *NAMES)
    with pytest.raises(Refusal, match="nothing was done"):
        await deleted(cluster, wanted, confirm=declines, now_ms=NOW_MS)
    assert await marked(cluster) == ()


async def test_what_is_written_after_the_question_stays(cluster: FakeSession, tmp_path: Path, told: ToldSizes) -> None:
    wanted = changed(await table(cluster, tmp_path, "orders"), timeout_ms=1)

    async def agree(_: str) -> bool:
        told.sizes[1]["orders-0"] += 50
        return True

    answer = await deleted(cluster, wanted, confirm=agree, now_ms=NOW_MS)
    assert answer.exit is Exit.OK
    assert answer.tables[0].rows == (("orders", "left out", "it had 200 bytes and has 250 now"),)
    assert await marked(cluster) == ()


async def test_what_is_read_after_the_question_stays(
    cluster: FakeSession, tmp_path: Path, readers: ToldReaders
) -> None:
    wanted = changed(await table(cluster, tmp_path, "orders"), timeout_ms=1)
    readers.after = {"orders": (Group("billing", "Stable", ("app",)),)}
    answer = await deleted(cluster, wanted, confirm=agrees, now_ms=NOW_MS)
    assert answer.tables[0].rows == (("orders", "left out", "consumer group billing reads it now: app"),)
    assert await marked(cluster) == ()


async def test_a_topic_whose_znode_is_refused_stays(cluster: FakeSession, tmp_path: Path) -> None:
    wanted = changed(await table(cluster, tmp_path, *NAMES), dry_run=True)
    blind: Any = forbidding(cluster, paths.topic("bills"), tells_existence=False)
    answer = await deleted(blind, wanted, confirm=None, now_ms=NOW_MS)
    assert [row[0] for row in answer.tables[0].rows] == ["orders", "visits"], "one keeps no other"
    why = f"its existence is unseen: ZooKeeper does not tell the existence of /brokers/topics/bills: {NO_AUTH}"
    ((name, told),) = answer.tables[1].rows
    assert (name, str(told).partition(" (")[0]) == ("bills", why)


async def test_a_deletion_whose_end_is_refused_is_unseen(cluster: FakeSession, tmp_path: Path) -> None:
    wanted = await table(cluster, tmp_path, "orders")
    path = paths.topic("orders")
    hidden: list[str] = []

    class TurnsBlind:
        async def read(self, reads: Any) -> Any:
            return await forbidding(cluster, *hidden, tells_existence=False).read(reads)

        def __getattr__(self, name: str) -> Any:
            return getattr(cluster, name)

    async def controller() -> None:
        while not await marked(cluster):
            await asyncio.sleep(0)
        hidden.append(path)
        await complete_deletion(cluster, "orders")

    session: Any = TurnsBlind()
    answer, _ = await asyncio.gather(deleted(session, wanted, confirm=agrees, now_ms=NOW_MS), controller())
    assert (answer.exit, answer.lines[0]) == (Exit.UNREACHABLE, "0 of 1 topic deleted")
    assert answer.tables[0].rows[0][:2] == ("orders", "unseen")


async def test_what_nobody_could_be_asked_about_stays(
    cluster: FakeSession, tmp_path: Path, readers: ToldReaders
) -> None:
    why = "broker 1 gives no offset of bills-0: UNKNOWN_SERVER_ERROR"
    readers.unknown = {TopicPartition("bills", 0): why}
    wanted = changed(await table(cluster, tmp_path, *NAMES), dry_run=True)
    answer = await deleted(cluster, wanted, confirm=None, now_ms=NOW_MS)
    assert [row[0] for row in answer.tables[0].rows] == ["orders", "visits"], "one keeps no other"
    assert isinstance(answer.data, dict)
    assert answer.data["could_not_be_asked"] == [why]
    assert answer.data["left_out"] == [{"topic": "bills", "why": f"its offsets are unseen: {why}"}]
    readers.unasked = ("consumer group billing: no answer in time",)
    blind = await deleted(cluster, changed(wanted, dry_run=False), confirm=None, now_ms=NOW_MS)
    assert blind.lines[-1] == "Nothing to delete."
    assert await marked(cluster) == ()


async def test_the_plan_and_its_warnings_are_shown_though_nobody_is_asked(
    cluster: FakeSession, tmp_path: Path, readers: ToldReaders, capsys: pytest.CaptureFixture[str]
) -> None:
    readers.unasked = tuple(f"consumer group g{number}: no answer in time" for number in range(12))
    wanted = changed(await table(cluster, tmp_path, "orders"), timeout_ms=1, allow_unasked=True)
    answer = await deleted(cluster, wanted, confirm=None, now_ms=NOW_MS)
    said = capsys.readouterr().err
    warning = "WARNING: could not be asked: consumer group g0: no answer in time"
    assert "To be deleted" in said
    assert "could not be asked" in said.partition(warning)[0], "in the plan's row"
    assert said.count("WARNING: could not be asked: consumer group g") == 10
    assert "WARNING: and 2 more of the kind" in said
    assert warning in answer.lines
    assert await marked(cluster) == ("orders",)


async def test_a_lake_of_another_cluster_is_refused(cluster: FakeSession, tmp_path: Path) -> None:
    wanted = await table(cluster, tmp_path, "orders")
    place = tmp_path / "lake" / "gold" / "stale_topic_candidates"
    place.mkdir(parents=True)
    wanted = changed(wanted, path=(tmp_path / "t.jsonl").rename(place / "t.jsonl"), dry_run=True)
    (tmp_path / "lake" / "lake.json").write_text('{"version": 1, "cluster_id": "of-the-lake"}')
    assert (await deleted(cluster, wanted, confirm=None, now_ms=NOW_MS)).tables, "nobody knows the cluster"
    await apply(cluster, Create("/cluster", b""), Create("/cluster/id", b'{"version": "1", "id": "of-zookeeper"}'))
    with pytest.raises(Refusal, match="is of the Kafka cluster of-the-lake, and --zookeeper leads to .* of-zookeeper"):
        await deleted(cluster, wanted, confirm=None, now_ms=NOW_MS)
    (tmp_path / "lake" / "lake.json").write_text('{"version": 1, "cluster_id": "of-zookeeper"}')
    assert (await deleted(cluster, wanted, confirm=None, now_ms=NOW_MS)).tables
    (tmp_path / "lake" / "lake.json").write_text('{"version": 9, "cluster_id": "of-zookeeper"}')
    with pytest.raises(ValueError, match="version 9"):
        await deleted(cluster, wanted, confirm=None, now_ms=NOW_MS)


@pytest.mark.parametrize(
    "logs,words",
    [
        ({1: {"orders-0": 100}}, "broker 2 did not tell its log directories"),
        ({1: {"orders-0": 100}, 2: {}}, "broker 2 has no log of orders-0"),
        (
            {1: {"orders-0": 100}, 2: {"orders-0": 100}, 3: {"orders-0": 1}},
            "broker 3 has orders-0, which is not assigned",
        ),
        ({1: {"orders-0": 100, "orders-0-future": 1}, 2: {"orders-0": 100}}, "moves orders-0 to another"),
    ],
)
async def test_replicas_that_are_not_seen(
    cluster: FakeSession, tmp_path: Path, told: ToldSizes, logs: dict[int, dict[str, int]], words: str
) -> None:
    told.sizes = logs
    wanted = await table(cluster, tmp_path, "orders")
    answer = await deleted(cluster, wanted, confirm=None, now_ms=NOW_MS)
    assert "Nothing to delete." in answer.lines
    assert words in answer.tables[0].rows[0][1]


async def test_an_old_table_is_refused(cluster: FakeSession, tmp_path: Path) -> None:
    wanted = await table(cluster, tmp_path, "orders")
    with pytest.raises(Refusal, match=r"survey-1, which is 9 days old.*--max-age 10"):
        await deleted(cluster, wanted, confirm=None, now_ms=TAKEN_AT_MS + 9 * DAY_MS)
    allowed = changed(wanted, max_age_days=10.0, dry_run=True)
    assert (await deleted(cluster, allowed, confirm=None, now_ms=TAKEN_AT_MS + 9 * DAY_MS)).exit is Exit.OK


async def test_a_table_of_the_future_is_refused(cluster: FakeSession, tmp_path: Path) -> None:
    """It would never become too old. Clocks of two machines may differ a little."""
    wanted = changed(await table(cluster, tmp_path, "orders"), max_age_days=10_000.0, dry_run=True)
    earliest_ms = TAKEN_AT_MS - CLOCKS_DIFFER_MS
    assert (await deleted(cluster, wanted, confirm=None, now_ms=earliest_ms)).exit is Exit.OK
    with pytest.raises(Refusal, match=r"survey-1, taken at 2024-10-04T00:00:00.000Z, and here it is .*which clock"):
        await deleted(cluster, wanted, confirm=None, now_ms=earliest_ms - 1)


async def test_nothing_is_begun_while_deletions_are_paused(cluster: FakeSession, tmp_path: Path) -> None:
    await pause_deletions(cluster, 1, "migration")
    wanted = await table(cluster, tmp_path, "orders")
    with pytest.raises(Refusal, match=r"paused \(migration\).*resume-deletions"):
        await deleted(cluster, wanted, confirm=None, now_ms=NOW_MS)
    assert await marked(cluster) == ()


async def test_one_that_does_not_end_is_told(cluster: FakeSession, tmp_path: Path) -> None:
    wanted = changed(await table(cluster, tmp_path, *NAMES), timeout_ms=1)
    answer = await deleted(cluster, wanted, confirm=None, now_ms=NOW_MS)
    assert answer.exit is Exit.TIMED_OUT
    assert [row[:2] for row in answer.tables[0].rows] == [
        ("bills", "marked"),
        ("orders", "marked"),
        ("visits", "not begun"),
    ]


async def test_who_ends_it_in_the_middle_is_told_what_was_begun(
    cluster: FakeSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = await table(cluster, tmp_path, *NAMES)
    running = asyncio.create_task(deleted(cluster, wanted, confirm=None, now_ms=NOW_MS))
    while len(await marked(cluster)) < 2:
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert "0 topics deleted, 1 not begun: those stay; marked, or about to be: bills, orders" in capsys.readouterr().err
    assert sorted(await marked(cluster)) == ["bills", "orders"]


async def test_an_empty_table(cluster: FakeSession, tmp_path: Path) -> None:
    wanted = await table(cluster, tmp_path)
    answer = await deleted(cluster, wanted, confirm=None, now_ms=NOW_MS)
    assert answer.lines == ("0 topics with 0 partitions and 0 bytes, 0 left out", "Nothing to delete.")
