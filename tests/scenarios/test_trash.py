"""Topics that are deleted with a grace period: into the trash, and back."""

from __future__ import annotations

import pytest

from lethe.controller.core.effects import ReadZnodes, Send, WriteZnodes
from lethe.controller.core.events import Answer, LogDirsDescribed
from lethe.protocol.journal import EventRecordType
from lethe.protocol.journal_schema import schema_problems
from lethe.protocol.journal_trash import BACK, EXPIRED, PURGED, RESTORED, TRASHED
from lethe.protocol.kafka.control import LeaderAndIsrRequest
from lethe.protocol.kafka.group_offsets import CommittedOffset
from lethe.protocol.kafka.queries import DescribeLogDirsResponse, LogDir
from lethe.protocol.vocabulary import GROUP_METADATA_TOPIC, ReplicaAssignment
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, SetData
from lethe.protocol.zookeeper.znodes import (
    DeletionOrders,
    RequestedAction,
    TopicRequest,
    TopicZnode,
    TrashEntry,
    TrashPhase,
    decode_config,
    decode_topic,
    decode_trash,
    encode_config,
    encode_deletion_marker,
    encode_topic,
    encode_topic_request,
)
from tests.fakes.one_controller import OneController, consent
from tests.scenarios.plot import causes, cluster, is_gone, led, refusals, text, with_topic
from tests.scenarios.test_pause import pause, resume
from tests.scenarios.test_undelete_marked import refused, request

DAY_MS = 86_400_000
FREEZE_MS = 10_000


def mark(world: OneController, *names: str, grace_ms: int = DAY_MS) -> None:
    for name in names:
        world.write(Create(paths.delete_topic(name), encode_deletion_marker(DeletionOrders(grace_ms=grace_ms))))
    world.run()


def trashed(world: OneController | None = None, *names: str) -> OneController:
    """The world with these topics (`orders` if none are named) in the trash; its story is empty."""
    world = world or with_topic(cluster(), "orders", (1, 2), (2, 1))
    mark(world, *(names or ("orders",)))
    world.advance(FREEZE_MS)
    world.take_story()
    return world


def entry(world: OneController, name: str = "orders") -> TrashEntry | None:
    found = world.read(paths.trashed(name))
    return None if found is None else decode_trash(name, found.data)


def phase_of(world: OneController, name: str = "orders") -> TrashPhase | None:
    found = entry(world, name)
    return None if found is None else found.phase


def settings(world: OneController, name: str = "orders") -> dict[str, str]:
    found = world.read(paths.config_topic(name))
    assert found is not None
    return decode_config(paths.config_topic(name), found.data)


def state_written(world: OneController, *, times: int) -> None:
    """The state of orders-0 has been written so often, as by changes of its ISR, before the controller was elected."""
    path = paths.partition_state("orders", 0)
    before = world.read(path)
    assert before is not None
    for _ in range(times):
        world.write(SetData(path, before.data, ANY_VERSION))
    world.crash()
    world.elect()
    world.run()


def made_by_another(world: OneController) -> None:
    """Another client makes a topic under the name of the one in the trash."""
    world.write(Create(paths.topic("orders"), encode_topic(TopicZnode({0: ReplicaAssignment((3,))}))))


def told_of_trash(world: OneController) -> list[object]:
    """What the journal says of the trash; each line names partitions and incarnation."""
    lines = [line for line in world.recorded(EventRecordType.EVENT) if line.subject == "topic/orders"]
    of_trash = [line for line in lines if "topic_id" in line.data]
    assert all(line.data["partitions"] and line.data["topic_id"] for line in of_trash)
    assert not [problem for line in of_trash for problem in schema_problems(line)]
    return [line.data["what"] for line in of_trash]


def purge(world: OneController, name: str = "orders") -> None:
    found = entry(world, name)
    assert found is not None
    for path in (paths.lethe(), paths.requests()):
        if not world.exists(path):
            world.write(Create(path, None))
    asked = TopicRequest(RequestedAction.PURGE, found.topic_id)
    world.write(Create(paths.request(name), encode_topic_request(asked)))
    world.run()


def dies_as_it_leaves(world: OneController) -> None:
    """The controller has the topic deleted from the trash, and dies when that is written."""

    class CrashError(Exception):
        pass

    def die(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, ReadZnodes) and world.exists(paths.delete_topic("orders")):
            world.meanwhile = lambda _: None
            raise CrashError

    world.meanwhile = die
    with pytest.raises(CrashError):
        purge(world)
    world.crash()
    assert phase_of(world) is None


def with_offsets_left() -> OneController:
    """Topic orders is back, and a group with members has not taken its offsets yet."""
    world = with_topic(cluster(), GROUP_METADATA_TOPIC, (1,))
    with_topic(world, "orders", (1, 2))
    world.groups.commit("readers", "orders", 0, 42)
    trashed(world)
    world.groups.with_members["readers"] = None
    request(world, "orders")
    assert phase_of(world) is TrashPhase.OFFSETS
    return world


def test_topic_goes_into_the_trash_after_its_retention_is_off() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    mark(world, "orders")
    assert world.take_story() == text("""
        * TopicDeletionsRequested
        zk create /lethe
        zk create /lethe/trash
        zk set /config/topics/orders at version 0
        zk create /config/changes/config_change_
        zk create /lethe/trash/orders
        * ConfigurationChanged
    """)
    assert settings(world) == {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
    assert causes(world, "orders") == [(None, None, "TRASH")]
    assert led(world, "orders") == (1, 0, (1, 2)), "it is in service"
    world.advance(FREEZE_MS - 1)
    assert phase_of(world) is TrashPhase.FREEZING
    world.take_story()
    world.advance(1)
    story = world.take_story()
    assert "zk delete /brokers/topics/orders" in story
    assert "orders-0 leader -2" in story
    assert "StopReplica: orders-0 epoch -2" in story
    assert "delete: orders-0" not in story
    assert not world.exists(paths.topic("orders"))
    assert not world.exists(paths.delete_topic("orders"))
    assert "orders" not in world.context.cluster.topics
    found = entry(world)
    assert found is not None
    assert (found.phase, found.until_ms) == (TrashPhase.TRASHED, world.now_ms + DAY_MS)
    (line,) = (line for line in world.recorded(EventRecordType.EVENT) if line.data["what"] == TRASHED)
    assert line.data["until_ms"] == found.until_ms
    assert settings(world)["retention.ms"] == "-1"


def test_topic_comes_back_as_the_same_incarnation_at_the_next_leader_epoch() -> None:
    world = with_topic(cluster(), "orders", (1, 2), (2, 1))
    before = world.read(paths.topic("orders"))
    trashed(world)
    request(world, "orders")
    after = world.read(paths.topic("orders"))
    assert before is not None
    assert after is not None
    assert decode_topic("orders", after.data) == decode_topic("orders", before.data)
    assert led(world, "orders") == (1, 1, (1, 2))
    assert led(world, "orders", 1) == (2, 1, (2, 1))
    story = world.take_story()
    assert "-> 1,2 LeaderAndIsr: orders-0 leader 1 epoch 1 isr 1,2, orders-1 leader 2 epoch 1 isr 2,1" in story
    assert settings(world) == {}
    assert entry(world) is None
    assert not world.exists(paths.request("orders"))
    assert told_of_trash(world) == [TRASHED, BACK, RESTORED]
    world.stop_broker(1)
    world.run()
    assert led(world, "orders") == (2, 2, (2,)), "it is led as if it had never been away"


def test_state_comes_back_at_the_version_that_its_brokers_know() -> None:
    """They take a LeaderAndIsr with a lower one for old news, and do not say so."""
    world = with_topic(cluster(), "orders", (1, 2))
    state_written(world, times=7)
    trashed(world)
    world.take_sent()
    request(world, "orders")
    after = world.read(paths.partition_state("orders", 0))
    assert after is not None
    assert after.stat.version == 7
    assert led(world, "orders") == (1, 1, (1, 2))
    told = [send.request for send in world.take_sent() if isinstance(send.request, LeaderAndIsrRequest)]
    assert {row.partition_epoch for each in told for topic in each.topics for row in topic.partitions} == {7}


def test_settings_come_back_and_later_ones_stay() -> None:
    world = cluster()
    world.create_topic("orders", (1, 2))
    own = {"retention.ms": "1000", "cleanup.policy": "compact", "segment.bytes": "1048576"}
    world.write(SetData(paths.config_topic("orders"), encode_config(own), ANY_VERSION))
    world.run()
    trashed(world)
    frozen = settings(world)
    assert frozen == {**own, "retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
    changed = {**frozen, "segment.bytes": "2097152", "retention.bytes": "7"}
    world.write(SetData(paths.config_topic("orders"), encode_config(changed), ANY_VERSION))
    request(world, "orders")
    world.advance(FREEZE_MS)
    assert settings(world) == {**own, "segment.bytes": "2097152", "retention.bytes": "7"}


def test_committed_offsets_come_back_and_newer_ones_stay() -> None:
    world = with_topic(cluster(), GROUP_METADATA_TOPIC, (1,), (2,))
    with_topic(world, "orders", (1, 2), (2, 1))
    world.groups.commit("readers", "orders", 0, 42)
    world.groups.commit("readers", "orders", 1, 7)
    world.groups.commit("readers", GROUP_METADATA_TOPIC, 0, 1)
    trashed(world)
    assert "orders" not in world.groups.committed
    world.groups.commit("readers", "orders", 1, 9)
    request(world, "orders")
    assert world.groups.committed["orders"]["readers"] == {0: CommittedOffset(42), 1: CommittedOffset(9)}
    assert entry(world) is None
    assert [path for path in world.zookeeper.paths() if "trash/" in path] == []


def test_topic_stays_in_service_while_offsets_are_unseen() -> None:
    world = with_topic(cluster(), GROUP_METADATA_TOPIC, (1,))
    with_topic(world, "orders", (1, 2))
    world.groups.problem = "broker 1 does not answer"
    trashed(world)
    assert phase_of(world) is TrashPhase.FREEZING
    assert led(world, "orders") == (1, 0, (1, 2))
    assert refusals(world, "topic/orders") == ["offsets of consumer groups: broker 1 does not answer"]
    mark_now = world.context.cluster.marks["orders"]
    assert mark_now.last_error == "offsets of consumer groups: broker 1 does not answer"
    world.groups.problem = None
    world.advance(500)
    assert phase_of(world) is TrashPhase.TRASHED


def test_topic_stays_in_service_while_a_coordinator_is_missing() -> None:
    world = with_topic(cluster(), GROUP_METADATA_TOPIC, (3,))
    with_topic(world, "orders", (1, 2))
    world.stop_broker(3)
    world.run()
    trashed(world)
    assert phase_of(world) is TrashPhase.FREEZING
    assert refusals(world, "topic/orders") == ["partition 0 of __consumer_offsets has no live leader"]


def test_group_with_members_gets_its_offsets_when_it_is_empty_and_retention_does_not_wait() -> None:
    world = with_offsets_left()
    assert settings(world) == {}
    assert led(world, "orders") == (1, 1, (1, 2))
    world.groups.with_members.clear()
    world.advance(30_000)
    assert world.groups.committed["orders"]["readers"] == {0: CommittedOffset(42)}
    assert entry(world) is None


def test_topic_with_a_grace_of_zero_is_deleted_at_once() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    mark(world, "orders", grace_ms=0)
    assert is_gone(world, "orders")


def test_topic_without_an_id_is_held() -> None:
    from lethe.protocol.kafka.versions import InterBrokerProtocol

    world = with_topic(cluster(world=OneController(ibp=InterBrokerProtocol.parse("2.7"))), "orders", (1, 2))
    mark(world, "orders")
    assert refusals(world, "topic/orders")[0].startswith("it has no id")
    assert causes(world, "orders") == [(None, None, "TRASH")]
    world.advance(FREEZE_MS)
    assert led(world, "orders") == (1, 0, (1, 2))


def test_topic_whose_marker_goes_before_it_is_in_the_trash_gets_its_settings_back() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    mark(world, "orders")
    world.unmark("orders")
    world.run()
    assert entry(world) is None
    assert settings(world) == {}
    world.advance(FREEZE_MS)
    assert led(world, "orders") == (1, 0, (1, 2))


def test_topic_that_is_requested_back_while_it_is_freezing_stays() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    mark(world, "orders")
    request(world, "orders")
    assert not world.exists(paths.request("orders"))
    assert entry(world) is None
    assert settings(world) == {}
    assert led(world, "orders") == (1, 0, (1, 2))


def test_topic_is_deleted_when_its_time_is_over() -> None:
    world = trashed()
    world.advance(DAY_MS - 1)
    assert phase_of(world) is TrashPhase.TRASHED
    world.take_story()
    world.advance(1)
    story = world.take_story()
    assert "leader 1" not in story, "nobody serves it meanwhile"
    assert "StopReplica" in story
    assert is_gone(world, "orders")
    assert told_of_trash(world) == [TRASHED, EXPIRED]


def test_expired_topic_waits_for_a_broker_that_is_away() -> None:
    world = trashed()
    world.stop_broker(2)
    world.run()
    world.advance(DAY_MS)
    assert entry(world) is None
    assert (0, 2, "BROKER_TO_RETURN") in causes(world, "orders")
    world.start_broker(2)
    world.run()
    assert is_gone(world, "orders")


def test_purge_on_request() -> None:
    world = trashed()
    purge(world)
    assert is_gone(world, "orders")
    assert told_of_trash(world) == [TRASHED, PURGED]


def test_purge_of_another_incarnation_or_during_a_pause_is_refused() -> None:
    world = trashed()
    pause(world)
    purge(world)
    assert refused(world, "orders") == "deletions are paused"
    world.write(Delete(paths.request("orders")))
    world.advance(DAY_MS)
    assert phase_of(world) is TrashPhase.TRASHED, "a pause keeps what is in the trash"
    request(world, "orders")
    assert led(world, "orders") == (1, 1, (1, 2))
    resume(world)
    assert led(world, "orders") == (1, 1, (1, 2))


def test_name_of_a_topic_in_the_trash_is_reserved_until_it_is_purged() -> None:
    world = trashed()
    made_by_another(world)
    world.run()
    assert "orders" not in world.context.cluster.topics
    assert world.context.cluster.quarantined_topics["orders"].reason.startswith("its name is reserved")
    request(world, "orders")
    assert phase_of(world) is TrashPhase.TRASHED
    world.write(Delete(paths.topic("orders")))
    world.run()
    world.advance(30_000)
    world.write(Delete(paths.request("orders")))
    world.run()
    request(world, "orders")
    assert led(world, "orders") == (1, 1, (1, 2))


def test_marker_for_a_topic_in_the_trash_is_dropped_and_its_settings_stay() -> None:
    world = trashed()
    world.crash()
    world.write(Create(paths.delete_topic("orders"), None))
    world.elect()
    assert not world.exists(paths.delete_topic("orders"))
    assert settings(world)["retention.ms"] == "-1"
    assert phase_of(world) is TrashPhase.TRASHED


def test_partition_that_is_on_no_disk_is_not_brought_back_empty() -> None:
    world = trashed()

    def empty(send: Send) -> Answer:
        answer = consent(send)
        if isinstance(answer, LogDirsDescribed):
            return LogDirsDescribed(*send[:3], DescribeLogDirsResponse((LogDir(0, "/a", ()),)))
        return answer

    world.answer = empty
    request(world, "orders")
    told = refused(world, "orders")
    assert told is not None
    assert told.startswith("partition 0 is not on the disks of broker 1, 2, or was not seen there")
    assert phase_of(world) is TrashPhase.TRASHED


def test_replica_that_has_lost_its_directory_does_not_lead() -> None:
    world = trashed()

    def first_is_empty(send: Send) -> Answer:
        answer = consent(send)
        if isinstance(answer, LogDirsDescribed) and send.broker == 1:
            return LogDirsDescribed(*send[:3], DescribeLogDirsResponse((LogDir(0, "/a", ()),)))
        return answer

    world.answer = first_is_empty
    request(world, "orders")
    assert led(world, "orders") == (2, 1, (2,))


def test_silent_broker_does_not_delay_a_return_for_ever() -> None:
    world = trashed()
    world.silent = {1: None}
    request(world, "orders")
    assert phase_of(world) is TrashPhase.TRASHED
    world.advance(10_000)
    assert led(world, "orders") == (2, 1, (2,))


def test_topic_of_brokers_that_are_away_comes_back_without_a_leader() -> None:
    world = trashed()
    for broker in (1, 2):
        world.stop_broker(broker)
    world.run()
    request(world, "orders")
    assert led(world, "orders") == (-1, 2, (2,))
    world.start_broker(2)
    world.run()
    assert led(world, "orders") == (2, 3, (2,))


@pytest.mark.parametrize("way", ["freezing", "trashed", "restored"])
def test_next_controller_goes_on(way: str) -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    mark(world, "orders")
    if way != "freezing":
        world.advance(FREEZE_MS)
    if way == "restored":
        world.silent = {1: None, 2: None}
        request(world, "orders")
    world.crash()
    world.silent = {}
    world.take_story()
    world.elect()
    if way == "freezing":
        world.advance(FREEZE_MS)
    story = world.take_story()
    if way != "restored":
        assert "orders-0 leader -2" in story
        assert "StopReplica: orders-0 epoch -2" in story
        assert phase_of(world) is TrashPhase.TRASHED
        request(world, "orders")
    assert led(world, "orders") == (1, 1, (1, 2))
    assert entry(world) is None
    assert settings(world) == {}


def test_controller_between_that_deletes_a_freezing_topic_leaves_nothing_behind() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    mark(world, "orders")
    world.crash()
    for path in (
        paths.partition_state("orders", 0),
        paths.topic_partition("orders", 0),
        paths.topic_partitions("orders"),
        paths.topic("orders"),
        paths.config_topic("orders"),
        paths.delete_topic("orders"),
    ):
        world.write(Delete(path))
    world.elect()
    assert is_gone(world, "orders")


def test_entry_that_cannot_be_understood_is_kept_and_reserves_its_name() -> None:
    world = trashed()
    world.crash()
    world.write(SetData(paths.trashed("orders"), b"?", ANY_VERSION))
    made_by_another(world)
    world.elect()
    assert "orders" in world.context.cluster.quarantined_topics
    world.write(Create(paths.delete_topic("orders"), None))
    world.run()
    assert causes(world, "orders") == [(None, None, "READABLE_TRASH")]
    assert "cannot be understood" in (world.context.cluster.marks["orders"].last_error or "")
    world.advance(2 * DAY_MS)
    assert world.exists(paths.trashed("orders"))
