"""`lethe topics alter`: replica assignment as Kafka's, what is refused, conflicts, settings with their notification,
waiting."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from lethe.admin import topic_znodes
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_alteration import TopicChangeRequest
from lethe.admin.topic_creation import TopicCreationRequest
from lethe.cli.answer import Answer
from lethe.cli.topics_alter import alteration, wanted_change
from lethe.cli.topics_create import creation
from lethe.protocol.vocabulary import TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Children, Create, Data, GetChildren, GetData, Operation, SetData
from lethe.protocol.zookeeper.znodes import encode_reassignment
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply, bring_online, elect


@pytest.fixture
async def cluster(session: FakeSession) -> FakeSession:
    await creation(session, TopicCreationRequest("orders", assignment=((2, 3), (3, 1)), config={"retention.ms": "5"}))
    await creation(session, TopicCreationRequest("bills", assignment=((1, 2),)))
    await elect(session, 1)
    return session


async def _znode(session: FakeSession, path: str) -> Any:
    (outcome,) = await session.read([GetData(path)])
    assert isinstance(outcome, Data)
    return json.loads(outcome.data or b"")


async def _notified(session: FakeSession) -> list[str]:
    (children,) = await session.read([GetChildren(paths.CONFIG_CHANGES)])
    assert isinstance(children, Children)
    return [(await _znode(session, f"{paths.CONFIG_CHANGES}/{name}"))["entity_path"] for name in children.names]


def _data(answer: Answer) -> Any:
    return answer.data


@pytest.mark.parametrize(
    "arguments,words",
    [
        ((["a b"], 2, None, None, None), "characters other than"),
        ((["a"], None, None, None, None), "nothing to change"),
        ((["a"], 0, None, None, None), "--partitions must be larger than 0, not 0"),
        ((["a"], 10**9, None, None, None), "--partitions is 1000000000, but a topic's znode has no room for more"),
        ((["a"], 3, "1:2,2:3", None, None), "lists 2 partitions, but --partitions is 3"),
        ((["a", "b"], None, "1:2", None, None), "for one topic, not for 2"),
        ((["a"], None, None, ["retention.ms=1"], ["retention.ms"]), "--config sets retention.ms, and --delete-config"),
        ((["a"], None, None, ["retention.m=1"], None), "Unknown topic config name: retention.m"),
    ],
)
def test_contradictory_command_lines(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        wanted_change(*arguments)


async def test_partitions_are_placed_by_kafkas_rule(cluster: FakeSession) -> None:
    """AdminUtils starts at the first broker of partition 0 (2, second of 1, 2, 3) and numbers on from the existing."""
    before = await _znode(cluster, paths.topic("orders"))
    answer = await alteration(cluster, TopicChangeRequest(("orders",), partitions=5))
    after = await _znode(cluster, paths.topic("orders"))
    assert _data(answer)[0]["added"] == {"2": [1, 3], "3": [2, 3], "4": [3, 1]}
    assert after["partitions"] == {"0": [2, 3], "1": [3, 1], "2": [1, 3], "3": [2, 3], "4": [3, 1]}
    assert {**after, "partitions": None} == {**before, "partitions": None}
    assert answer.lines[1] == "\tPartitions: 2 -> 5"


async def test_what_is_not_known_in_the_znode_stays(cluster: FakeSession) -> None:
    body = {"version": 3, "partitions": {"0": [1]}, "from_the_future": {"x": [1]}, "topic_id": "AAAAAAAAAAAAAAAAAAAACQ"}
    await apply(cluster, Create(paths.topic("odd"), json.dumps(body).encode()))
    await alteration(cluster, TopicChangeRequest(("odd",), partitions=2))
    assert await _znode(cluster, paths.topic("odd")) == {**body, "partitions": {"0": [1], "1": [2]}}


async def test_a_dry_run_writes_nothing_and_shows_what_will_be(cluster: FakeSession) -> None:
    wanted = TopicChangeRequest(("bills", "orders"), partitions=3, config={"segment.ms": "7"})
    dry = await alteration(cluster, wanted, dry_run=True)
    assert len((await _znode(cluster, paths.topic("bills")))["partitions"]) == 1
    assert await _notified(cluster) == []
    done = await alteration(cluster, wanted)
    assert [topic["added"] for topic in _data(dry)] == [topic["added"] for topic in _data(done)]
    assert [topic["altered"] for topic in _data(dry)] == [False, False]
    assert dry.lines[0] == "Would change topic bills:"


async def test_an_assignment_lists_all_partitions(cluster: FakeSession) -> None:
    await alteration(cluster, wanted_change(["orders"], None, "2:3,3:1,1:3", None, None))
    assert (await _znode(cluster, paths.topic("orders")))["partitions"]["2"] == [1, 3]
    for text, words in (
        ("2:3,1:3,1:2,1:2", r"gives partition 1 of topic orders the replicas \[1, 3\], but it has \[3, 1\]"),
        ("2:3,3:1,1:3,1:9", r"not registered: \[9\]"),
    ):
        with pytest.raises(Refusal, match=words):
            await alteration(cluster, wanted_change(["orders"], None, text, None, None))


@pytest.mark.parametrize(
    "wanted,words",
    [
        (TopicChangeRequest(("nothing",), partitions=3), "'nothing' does not exist"),
        (TopicChangeRequest(("orders",), partitions=2), "has 2 partitions already: .* not become 2"),
        (TopicChangeRequest(("leaving",), partitions=3), "leaving is marked for deletion"),
        (TopicChangeRequest(("leaving",), config={"segment.ms": "7"}), "leaving is marked for deletion"),
        (TopicChangeRequest(("moving",), partitions=3), "partitions 0 of topic moving are being reassigned"),
        (TopicChangeRequest(("waiting",), partitions=3), "reassignment of waiting-0 is requested"),
        (TopicChangeRequest(("gaps",), partitions=3), "partitions 0, 2 instead of 0 to 1"),
        (TopicChangeRequest(("__consumer_offsets",), partitions=3), "internal to Kafka"),
        (TopicChangeRequest(("poison",), partitions=3), "/brokers/topics/poison cannot be understood"),
        (TopicChangeRequest(("bills",), delete_config=("retention.ms",)), "does not override retention.ms"),
        (TopicChangeRequest(("short",), config={"max.compaction.lag.ms": "5"}), "min.compaction.lag.ms"),
    ],
)
async def test_refusals_change_no_topic_at_all(cluster: FakeSession, wanted: TopicChangeRequest, words: str) -> None:
    for name in ("leaving", "waiting", "__consumer_offsets"):
        await creation(cluster, TopicCreationRequest(name, assignment=((1,),)))
    await creation(cluster, TopicCreationRequest("short", assignment=((1,),), config={"min.compaction.lag.ms": "9"}))
    await apply(
        cluster,
        Create(paths.topic("moving"), b'{"version":3,"partitions":{"0":[2,1]},"adding_replicas":{"0":[2]}}'),
        Create(paths.topic("gaps"), b'{"version":3,"partitions":{"0":[1],"2":[1]}}'),
        Create(paths.topic("poison"), b"\x00"),
        Create(paths.REASSIGN_PARTITIONS, encode_reassignment({TopicPartition("waiting", 0): (2,)})),
    )
    await topic_znodes.mark_for_deletion(cluster, ["leaving"])
    both = TopicChangeRequest(("bills", *wanted.names), wanted.partitions, (), wanted.config, wanted.delete_config)
    for each in {wanted.names: wanted, both.names: both}.values():
        with pytest.raises(Refusal, match=words):
            await alteration(cluster, each)
    assert len((await _znode(cluster, paths.topic("bills")))["partitions"]) == 1


async def test_settings_go_with_a_notification(cluster: FakeSession) -> None:
    answer = await alteration(
        cluster, TopicChangeRequest(("orders",), config={"segment.ms": "7"}, delete_config=("retention.ms",))
    )
    assert (await _znode(cluster, paths.config_topic("orders")))["config"] == {"segment.ms": "7"}
    assert await _notified(cluster) == ["topics/orders"]
    assert answer.lines[1:] == ("\tretention.ms: 5 -> (default)", "\tsegment.ms: (default) -> 7")
    again = await alteration(cluster, TopicChangeRequest(("orders",), config={"segment.ms": "7"}))
    assert again.lines == ("Topic orders is already as requested.",)
    assert await _notified(cluster) == ["topics/orders"]


async def test_settings_of_which_we_know_nothing_stay(cluster: FakeSession) -> None:
    data = b'{"version":1,"config":{"from.the.future":"x"}}'
    await apply(cluster, SetData(paths.config_topic("bills"), data, 0))
    await alteration(cluster, TopicChangeRequest(("bills",), config={"segment.ms": "7"}))
    config = (await _znode(cluster, paths.config_topic("bills")))["config"]
    assert config == {"from.the.future": "x", "segment.ms": "7"}


class Racing:
    """A session in which somebody else changes the topic between our read and our write, a number of times."""

    def __init__(self, session: FakeSession, operation: Operation, times: int) -> None:
        self._session = session
        self._operation = operation
        self.times = times

    async def multis(self, multis: Any) -> Any:
        if self.times:
            self.times -= 1
            await apply(self._session, self._operation)
        return await self._session.multis(multis)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


async def test_who_writes_in_between_loses_nothing(cluster: FakeSession) -> None:
    other = SetData(paths.topic("bills"), b'{"version":3,"partitions":{"0":[3],"1":[1]},"kept":1}', -1)
    racing: Any = Racing(cluster, other, 1)
    answer = await alteration(racing, TopicChangeRequest(("bills",), partitions=3))
    assert await _znode(cluster, paths.topic("bills")) == {
        "version": 3, "partitions": {"0": [3], "1": [1], "2": [2]}, "kept": 1,
    }  # fmt: skip
    assert _data(answer)[0]["added"] == {"2": [2]}


async def test_who_takes_the_place_in_between_is_told_of(cluster: FakeSession) -> None:
    other = SetData(paths.topic("bills"), b'{"version":3,"partitions":{"0":[3],"1":[1],"2":[1]}}', -1)
    racing: Any = Racing(cluster, other, 1)
    answer = await alteration(racing, TopicChangeRequest(("bills",), partitions=3))
    assert answer.exit is Exit.NO
    assert "has 3 partitions already" in answer.lines[0]
    for_ever: Any = Racing(cluster, SetData(paths.topic("orders"), b'{"version":3,"partitions":{"0":[1]}}', -1), 99)
    restless = await alteration(for_ever, TopicChangeRequest(("orders",), partitions=3))
    assert "again and again" in restless.lines[0]


async def test_an_unknown_outcome_is_no_success(cluster: FakeSession) -> None:
    cluster.lose_next_reply(applied=True)
    answer = await alteration(cluster, TopicChangeRequest(("bills",), partitions=3))
    assert answer.exit is Exit.UNREACHABLE
    assert "unknown" in answer.lines[0]


async def test_waiting_for_leaders(cluster: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    await bring_online(cluster, "bills", {0: (1, 2)})
    late = await alteration(cluster, TopicChangeRequest(("bills",), partitions=2), timeout_ms=1)
    assert late.exit is Exit.TIMED_OUT
    assert late.lines[-1] == "\tPartition 1 has no leader yet."
    altering = asyncio.create_task(
        alteration(cluster, TopicChangeRequest(("bills",), partitions=3), timeout_ms=30_000, quiet=False)
    )
    while len((await _znode(cluster, paths.topic("bills")))["partitions"]) < 3:
        await asyncio.sleep(0)
    await bring_online(cluster, "bills", {2: (3, 1)})
    assert (await altering).exit is Exit.OK
    assert "new partitions with a leader: 1/1" in capsys.readouterr().err


async def test_the_leader_of_a_new_partition_may_be_unseen(cluster: FakeSession) -> None:
    await cluster.ensure_path(paths.partition_state("orders", 2))
    await apply(cluster, SetData(paths.partition_state("orders", 2), b"{", -1))
    answer = await alteration(cluster, TopicChangeRequest(("orders",), partitions=4), timeout_ms=1)
    assert answer.exit is Exit.TIMED_OUT
    assert answer.lines[-1] == "\tPartition 3 has no leader yet."
    assert answer.lines[-2].startswith(
        "\tThe leader of partition 2 is unseen: znode /brokers/topics/orders/partitions/2"
    )
