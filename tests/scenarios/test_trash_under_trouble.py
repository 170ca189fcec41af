"""The trash under trouble: each scenario is a fault that the simulator found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lethe.controller.core import trash
from lethe.controller.core.effects import ReadZnodes, Send, WriteZnodes
from lethe.controller.core.events import Answer, LogDirsDescribed, OffsetsRead, UpdateMetadataResponseReceived
from lethe.protocol.kafka.control import UpdateMetadataRequest, UpdateMetadataResponse
from lethe.protocol.kafka.group_offsets import CommittedOffset
from lethe.protocol.kafka.queries import DescribeLogDirsResponse, LogDir, LogDirPartition, LogDirTopic
from lethe.protocol.vocabulary import GROUP_METADATA_TOPIC, LEADER_DURING_DELETE, LeaderAndIsr, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, SetData, ZkError
from lethe.protocol.zookeeper.znodes import (
    ConfigChange,
    DeletionOrders,
    TrashPhase,
    encode_config,
    encode_config_change,
    encode_deletion_marker,
    encode_reassignment,
    encode_state,
    encode_trash,
)
from tests.fakes.consumer_groups import SlowGroups
from tests.fakes.forbidden_znodes import NO_AUTH
from tests.fakes.one_controller import OneController, consent, is_deletion
from tests.scenarios.plot import cluster, is_gone, led, refusals, with_topic
from tests.scenarios.test_debts_written import write_debt
from tests.scenarios.test_trash import (
    DAY_MS,
    FREEZE_MS,
    entry,
    made_by_another,
    mark,
    phase_of,
    purge,
    settings,
    state_written,
    trashed,
    with_offsets_left,
)
from tests.scenarios.test_undelete_marked import refused, request


def remove_by_hand(world: OneController, name: str, *, marker: bool = False) -> None:
    """Another process removes a topic with one partition, and its settings."""
    world.write(*(Delete(path) for path in tree(name)), *((Delete(paths.delete_topic(name)),) if marker else ()))
    world.run()


def tree(name: str) -> tuple[str, ...]:
    partition = paths.topic_partition(name, 0)
    parents = (paths.topic_partitions(name), paths.topic(name), paths.config_topic(name))
    return (paths.partition_state(name, 0), partition, *parents)


def configure(world: OneController, settings: dict[str, str]) -> None:
    path, data = paths.config_broker_default(), encode_config(settings)
    world.write(SetData(path, data, ANY_VERSION) if world.exists(path) else Create(path, data))
    change = encode_config_change(ConfigChange(f"brokers/{paths.DEFAULT_ENTITY}"))
    world.write(Create(paths.config_change(), change, sequential=True))
    world.run()


def test_brokers_get_their_time_from_when_the_notification_is_written() -> None:
    world = with_topic(cluster(), "orders", (1, 2))

    def slow(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes) and entry(world) is None:
            world.now_ms += FREEZE_MS - 1

    world.meanwhile = slow
    mark(world, "orders")
    world.advance(1)
    assert phase_of(world) is TrashPhase.FREEZING
    world.advance(FREEZE_MS)
    assert phase_of(world) is TrashPhase.TRASHED


def test_next_controller_has_brokers_forget_a_topic_whose_name_is_taken_meanwhile() -> None:
    world = trashed()
    world.crash()
    made_by_another(world)
    world.take_story()
    world.elect()
    story = world.take_story()
    assert "orders-0 leader -2" in story
    assert "StopReplica: orders-0 epoch -2" in story


@pytest.mark.parametrize("ask", [request, purge])
def test_request_is_refused_while_another_topic_has_the_name(ask: Callable[[OneController, str], None]) -> None:
    world = trashed()
    made_by_another(world)
    world.run()
    ask(world, "orders")
    assert refused(world, "orders") == trash.NAME_IS_TAKEN
    world.write(Delete(paths.topic("orders")), Delete(paths.request("orders")))
    world.run()
    ask(world, "orders")
    assert not world.exists(paths.request("orders"))


def test_reassignments_of_a_topic_in_the_trash_are_removed() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.stop_broker(3)
    world.run()
    target = {TopicPartition("orders", 0): (1, 3)}
    world.write(Create(paths.reassign_partitions(), encode_reassignment(target)))
    world.run()
    mark(world, "orders")
    assert world.exists(paths.reassign_partitions())
    world.advance(FREEZE_MS)
    assert phase_of(world) is TrashPhase.TRASHED
    assert not world.exists(paths.reassign_partitions())


def test_entry_goes_with_a_freezing_topic_that_is_removed_by_hand() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    mark(world, "orders")
    remove_by_hand(world, "orders", marker=True)
    assert is_gone(world, "orders")
    assert entry(world) is None


def test_settings_of_a_topic_that_was_just_removed_are_not_restored() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    mark(world, "orders")

    def removed(effect: ReadZnodes | WriteZnodes) -> None:
        if phase_of(world) is TrashPhase.RESTORING and world.exists(paths.topic("orders")):
            world.meanwhile = lambda _: None
            world.write(*(Delete(path) for path in tree("orders")))

    world.meanwhile = removed
    world.unmark("orders")
    world.run()
    world.advance(FREEZE_MS)
    assert not world.exists(paths.config_topic("orders"))
    assert entry(world) is None


def back_and_removed_at_once(
    world: OneController, *, refusal: ZkError | None = None, has_settings: bool = False
) -> None:
    """Another process removes the topic before the controller has read what it brought back."""
    paths_removed = tree("orders")[:-1] if has_settings else tree("orders")

    def removed(effect: ReadZnodes | WriteZnodes) -> None:
        if phase_of(world) is TrashPhase.RESTORING:
            world.meanwhile = lambda _: None
            if refusal is not None:
                world.refusals[paths.trashed("orders")] = refusal
            world.write(*(Delete(path) for path in paths_removed))

    world.meanwhile = removed
    request(world, "orders")
    assert world.meanwhile is not removed
    assert "orders" not in world.context.cluster.topics


@pytest.mark.parametrize("has_settings", [False, True])
@pytest.mark.parametrize("with_offsets", [False, True])
def test_entry_goes_with_a_topic_that_is_removed_before_it_is_read(with_offsets: bool, has_settings: bool) -> None:
    world = cluster()
    if with_offsets:
        with_topic(world, GROUP_METADATA_TOPIC, (1,))
    with_topic(world, "orders", (1, 2))
    world.groups.commit("readers", "orders", 0, 42)
    trashed(world)
    back_and_removed_at_once(world, has_settings=has_settings)
    assert entry(world) is None
    assert "orders" not in world.context.cluster.trash.topics


def test_entry_whose_removal_fails_is_kept_in_memory_until_it_is_gone() -> None:
    """Seeds 60714, 62587: the check of the topic failed in the next attempt, and the entry was forgotten."""
    world = trashed(with_topic(cluster(), "orders", (1, 2)))
    back_and_removed_at_once(world, refusal=ZkError.NO_AUTH)
    world.advance(60_000)
    assert phase_of(world) is TrashPhase.RESTORING
    assert world.context.cluster.trash.topics["orders"].phase is TrashPhase.RESTORING
    world.refusals.clear()
    world.advance(60_000)
    assert entry(world) is None
    assert "orders" not in world.context.cluster.trash.topics
    assert not world.exists(paths.config_topic("orders")), "there is no topic to restore settings of"


@pytest.mark.parametrize("is_whole", [False, True])
def test_topic_gets_its_settings_back_although_its_entry_is_removed_by_hand(is_whole: bool) -> None:
    world = with_topic(cluster(), GROUP_METADATA_TOPIC, (1,))
    with_topic(world, "orders", (1, 2))
    world.groups.commit("readers", "orders", 0, 42)
    trashed(world)

    def removed(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes) and phase_of(world) is TrashPhase.RESTORING:
            world.meanwhile = lambda _: None
            entry_too = (Delete(paths.trashed("orders")),) if is_whole else ()
            world.write(Delete(paths.trashed_offsets("orders", 0)), *entry_too)

    world.meanwhile = removed
    request(world, "orders")
    assert world.meanwhile is not removed
    assert settings(world) == {}
    assert entry(world) is None
    assert world.context.cluster.trash.topics == {}


def test_settings_of_a_topic_that_was_just_removed_are_not_frozen() -> None:
    """Seed 9372: they were created again, and were left over."""
    world = with_topic(cluster(), "orders", (1, 2))

    def removed(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, ReadZnodes) and any(each.path == paths.config_topic("orders") for each in effect.reads):
            world.meanwhile = lambda _: None
            world.write(*(Delete(path) for path in tree("orders")), Delete(paths.delete_topic("orders")))

    world.meanwhile = removed
    mark(world, "orders")
    assert world.meanwhile is not removed
    world.advance(FREEZE_MS)
    assert is_gone(world, "orders")


def test_entry_goes_with_a_topic_that_is_deleted_while_offsets_are_left() -> None:
    world = with_offsets_left()
    world.mark("orders")
    world.run()
    assert is_gone(world, "orders")
    assert entry(world) is None
    with_topic(world, "orders", (1, 2))
    assert led(world, "orders") == (1, 0, (1, 2))


def test_topic_that_is_marked_again_while_offsets_are_left_goes_into_the_trash_after_that() -> None:
    world = with_offsets_left()
    mark(world, "orders")
    assert phase_of(world) is TrashPhase.OFFSETS
    world.groups.with_members.clear()
    world.advance(30_000)
    assert phase_of(world) is TrashPhase.FREEZING
    world.advance(FREEZE_MS)
    assert phase_of(world) is TrashPhase.TRASHED


def test_topic_gets_its_settings_back_when_its_marker_is_refused() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    mark(world, "orders")
    assert phase_of(world) is TrashPhase.FREEZING
    configure(world, {"delete.topic.enable": "false"})
    assert not world.exists(paths.delete_topic("orders"))
    assert entry(world) is None
    assert settings(world) == {}


@pytest.mark.parametrize(
    "forbidding, why",
    [
        ({"delete.topic.enable": "false"}, "delete.topic.enable is false"),
        ({"lethe.protected.topics": "ord*"}, "the topic is protected"),
    ],
)
def test_topic_that_may_not_be_deleted_stays_in_the_trash(forbidding: dict[str, str], why: str) -> None:
    world = trashed()
    configure(world, forbidding)
    purge(world)
    assert refused(world, "orders") == why
    world.advance(DAY_MS)
    assert phase_of(world) is TrashPhase.TRASHED
    world.write(Delete(paths.request("orders")))
    configure(world, {})
    world.advance(DAY_MS)
    assert is_gone(world, "orders")


def third_refuses_topics(send: Send) -> Answer:
    """Broker 3 answers UpdateMetadata with an error if it is about topics."""
    answer = consent(send)
    is_third = send.broker == 3 and isinstance(send.request, UpdateMetadataRequest)
    if is_third and isinstance(answer, UpdateMetadataResponseReceived) and send.request.topics:
        return UpdateMetadataResponseReceived(*send[:3], UpdateMetadataResponse(-1))
    return answer


def test_second_tombstone_reaches_a_broker_that_has_refused_the_first() -> None:
    world = with_topic(cluster(), "orders", (1, 2))

    world.answer = third_refuses_topics
    trashed(world)
    purge(world)
    told = [send.request for send in world.take_sent() if send.broker == 3]
    topics = [request.topics for request in told if isinstance(request, UpdateMetadataRequest)][-1]
    assert [topic.topic for topic in topics] == ["orders"]
    assert all(row.leader == LEADER_DURING_DELETE for row in topics[0].partitions)
    assert world.exists(paths.topic("orders")), "broker 3 still shows it"
    world.answer = consent
    world.advance(60_000)
    assert is_gone(world, "orders")


def test_next_controller_sends_a_tombstone_again_that_a_broker_refuses() -> None:
    world = trashed()
    world.crash()

    world.answer = third_refuses_topics
    world.elect()
    assert list(world.context.cluster.owed) == [3], "its cache may show the topic still"
    world.answer = consent
    world.take_sent()
    world.advance(60_000)
    ((broker, topics),) = [
        (send.broker, [topic.topic for topic in send.request.topics])
        for send in world.take_sent()
        if isinstance(send.request, UpdateMetadataRequest)
    ]
    assert (broker, topics) == (3, ["orders"])
    assert not world.context.cluster.owed


def test_debt_of_a_topic_in_the_trash_is_not_paid() -> None:
    """A controller died between the debt and the removal; then the topic was marked anew, with a grace period."""
    world = with_topic(cluster(), "orders", (1, 2))
    world.stop_broker(2)
    world.run()
    found = world.read(paths.topic("orders"))
    topic_id = world.context.cluster.topics["orders"].id
    assert found is not None
    world.crash()
    write_debt(world, 2, "orders", found.stat.czxid, topic_id)
    world.write(Create(paths.delete_topic("orders"), encode_deletion_marker(DeletionOrders(grace_ms=DAY_MS))))
    world.elect()
    world.advance(FREEZE_MS)
    assert phase_of(world) is TrashPhase.TRASHED
    world.start_broker(2)
    world.run()
    assert not any(map(is_deletion, world.take_sent()))
    request(world, "orders")
    assert led(world, "orders") == (1, 2, (1,))


def test_offsets_are_read_again_where_a_coordinator_has_changed_meanwhile() -> None:
    """A broker that has just lost a partition of that topic does not list its groups, and gives no error."""
    world = with_topic(cluster(), GROUP_METADATA_TOPIC, (3, 1))
    with_topic(world, "orders", (1, 2))
    world.groups.commit("readers", "orders", 0, 42)

    before, slow = world.groups, SlowGroups()
    world.groups = slow
    trashed(world)
    world.groups = before
    world.stop_broker(3)
    world.run()
    world.feed(OffsetsRead(slow.asked[0], {}))
    world.run()
    assert led(world, GROUP_METADATA_TOPIC) == (1, 1, (1,))
    assert phase_of(world) is TrashPhase.FREEZING
    assert refusals(world, "topic/orders") == ["offsets of consumer groups: their coordinators have changed meanwhile"]
    world.advance(500)
    assert phase_of(world) is TrashPhase.TRASHED
    request(world, "orders")
    assert world.groups.committed["orders"]["readers"] == {0: CommittedOffset(42)}


def test_isr_that_a_leader_wrote_without_notifying_the_controller_is_read_before_the_topic_leaves_service() -> None:
    """Only replicas that were in sync may lead after the return. Brokers of an older protocol write ISRs themselves.

    A leader that dies in between leaves no notification (seed 5275): the topic waited until the next takeover."""
    world = with_topic(cluster(), "orders", (1, 2), (2, 1))
    mark(world, "orders")
    shrunk = encode_state(LeaderAndIsr(1, 0, (1,), 1))
    world.write(SetData(paths.partition_state("orders", 0), shrunk, ANY_VERSION))
    world.advance(FREEZE_MS)
    assert phase_of(world) is TrashPhase.FREEZING
    assert refusals(world, "topic/orders")[-1].endswith("/brokers/topics/orders/partitions/0/state: BAD_VERSION")
    assert led(world, "orders") == (1, 0, (1,)), "it is in service"
    world.advance(world.context.config.retry_max_ms)
    found = entry(world)
    assert found is not None
    assert found.phase is TrashPhase.TRASHED
    assert [found.partitions[number].isr for number in (0, 1)] == [(1,), (2, 1)]


def test_state_that_somebody_has_removed_is_named_and_the_next_controller_begins_it_anew() -> None:
    world = with_topic(cluster(), "orders", (1, 2), (2, 1))
    mark(world, "orders")
    world.write(Delete(paths.partition_state("orders", 1)))
    world.run()
    world.advance(FREEZE_MS)
    assert phase_of(world) is TrashPhase.FREEZING
    assert refusals(world, "topic/orders")[-1].endswith("/brokers/topics/orders/partitions/1/state: NO_NODE")
    world.crash()
    world.elect()
    world.advance(FREEZE_MS)
    assert phase_of(world) is TrashPhase.TRASHED


def test_time_is_not_over_early_because_the_clock_of_an_earlier_controller_was_slow() -> None:
    """A process reads the clock once: one that starts before the clock is set has the wrong time as long as it runs."""
    world = with_topic(cluster(), "orders", (1, 2))
    mark(world, "orders")
    world.advance(FREEZE_MS)
    found = entry(world)
    assert found is not None
    slow = replace(found, since_ms=found.since_ms - DAY_MS + 1)
    world.write(SetData(paths.trashed("orders"), encode_trash(slow), ANY_VERSION))
    world.crash()
    world.elect()
    world.advance(DAY_MS - 1)
    assert phase_of(world) is TrashPhase.TRASHED
    world.advance(1)
    assert is_gone(world, "orders")


@pytest.mark.parametrize("data", [b"?", None])
def test_unreadable_topic_under_the_name_of_one_in_the_trash_is_not_deleted_on_order(data: bytes | None) -> None:
    """Brokers would delete its replicas by name, and with them those of the topic in the trash."""
    world = trashed()
    if data is None:
        made_by_another(world)
    else:
        world.write(Create(paths.topic("orders"), data))
        for path in (paths.topic_partitions("orders"), paths.topic_partition("orders", 0)):
            world.write(Create(path, None))
    world.run()
    world.take_sent()
    orders = encode_deletion_marker(DeletionOrders(unreadable=True))
    world.write(Create(paths.delete_topic("orders"), orders))
    world.run()
    assert not any(map(is_deletion, world.take_sent()))
    why = "its name is reserved by a topic in the trash, and brokers would delete that one's replicas too"
    assert why in refusals(world, "topic/orders")
    assert world.context.cluster.marks["orders"].last_error == why
    assert phase_of(world) is TrashPhase.TRASHED


def test_partitions_that_nobody_asked_for_are_no_matter_of_a_return() -> None:
    world = trashed(with_topic(cluster(), "orders", (1, 2)))

    def strange(send: Send) -> Answer:
        answer = consent(send)
        if isinstance(answer, LogDirsDescribed):
            rows = tuple(LogDirPartition(number, 1, 0, False) for number in (-1, 0, 2**31 - 1))
            directory = LogDir(0, "/a", (LogDirTopic("orders", rows), LogDirTopic("bills", rows)))
            return LogDirsDescribed(*send[:3], DescribeLogDirsResponse((directory,)))
        return answer

    world.answer = strange
    request(world, "orders")
    assert led(world, "orders") == (1, 1, (1, 2))


def test_topic_whose_offsets_do_not_fit_stays_in_service() -> None:
    world = with_topic(cluster(), GROUP_METADATA_TOPIC, (1,))
    with_topic(world, "orders", (1, 2))
    for number in range(5_000):
        world.groups.commit(f"{number:0200}", "orders", 0, 42)
    trashed(world)
    assert phase_of(world) is TrashPhase.FREEZING
    assert led(world, "orders") == (1, 0, (1, 2))
    (why,) = refusals(world, "topic/orders")
    assert why.startswith("it does not fit with the offsets of 5,000 groups: ")


def test_topic_that_would_not_fit_on_its_way_back_stays_in_service() -> None:
    name = "o" * 150
    world = with_topic(cluster(), name, *((1, 2, 3) for _ in range(1_500)))
    mark(world, name)
    world.advance(FREEZE_MS)
    assert entry(world, name) is None
    assert settings(world, name) == {}, "its retention is never switched off"
    (why,) = refusals(world, f"topic/{name}")
    assert why.startswith("it does not fit with the offsets of 0 groups: ")


def test_topic_whose_states_were_written_too_often_to_come_back_stays_in_service() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    state_written(world, times=25_000)
    mark(world, "orders")
    world.advance(FREEZE_MS)
    assert entry(world) is None
    assert settings(world) == {}, "its retention is never switched off"
    assert led(world, "orders") == (1, 0, (1, 2))
    (why,) = refusals(world, "topic/orders")
    assert why.startswith(
        "the states of its partitions have been written 25,000 times, which its return has to repeat "
    )


def test_topic_whose_return_is_refused_by_zookeeper_is_tried_again_with_growing_waits() -> None:
    """Its grace period ends meanwhile, and deletes nothing that was requested back."""
    world = trashed()
    world.refusals[paths.topic("orders")] = ZkError.NO_AUTH
    attempts: list[int] = []
    world.meanwhile = lambda effect: attempts.append(world.now_ms) if isinstance(effect, WriteZnodes) else None
    request(world, "orders")
    for _ in range(60):
        world.advance(1_000)
    assert 3 < len(attempts) < 12
    assert refusals(world, "topic/orders") == [NO_AUTH]
    world.advance(DAY_MS)
    del world.refusals[paths.topic("orders")]
    world.advance(DAY_MS)
    assert phase_of(world) is not TrashPhase.TRASHED
    assert led(world, "orders") is not None
    assert not world.exists(paths.delete_topic("orders"))


def test_entry_that_was_removed_by_hand_does_not_keep_the_controller_busy() -> None:
    world = trashed()
    world.write(Delete(paths.trashed("orders")))
    request(world, "orders")
    assert refusals(world, "topic/orders") == ["NO_NODE"]


def test_topic_leaves_the_trash_by_its_own_marker_and_not_by_that_of_another_topic() -> None:
    """An operator removes the other topic with its marker just before the end is written."""
    world = trashed()
    made_by_another(world)
    mark(world, "orders")

    def too_late(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes):
            world.meanwhile = lambda _: None
            world.write(Delete(paths.delete_topic("orders")), Delete(paths.topic("orders")))

    world.meanwhile = too_late
    purge(world)
    assert is_gone(world, "orders")
    assert phase_of(world) is None
