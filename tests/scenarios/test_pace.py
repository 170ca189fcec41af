"""The pace of deletions: who begins when, and what waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from lethe.controller.core import pace
from lethe.controller.core.effects import BeginDeletions, ReadZnodes, Send, WriteZnodes
from lethe.controller.core.events import Answer, LogDirsDescribed
from lethe.controller.core.pace_memory import PaceLimits
from lethe.protocol.kafka.queries import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDir,
    LogDirPartition,
    LogDirTopic,
)
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete, Operation, SetData
from lethe.protocol.zookeeper.znodes import (
    ConfigChange,
    DeletionOrders,
    OfflineReplicas,
    decode_deletion_marker,
    encode_config,
    encode_config_change,
    encode_deletion_marker,
)
from tests.fakes.one_controller import OneController, consent
from tests.scenarios.plot import causes, cluster, is_gone, led, with_topic
from tests.scenarios.test_pause import pause, resume
from tests.scenarios.test_protected_topics import protect

NAMES = ("a", "b", "c", "d", "e")


class Disks:
    """Brokers that tell these sizes of a replica; None: they answer with an error, and missing ones are not listed."""

    def __init__(self, sizes: dict[str, int] | None) -> None:
        self.sizes = sizes
        self.asked: list[int] = []
        self.silent: tuple[int, ...] = ()

    def __call__(self, send: Send) -> Answer | None:
        if not isinstance(send.request, DescribeLogDirsRequest) or not send.request.topics:
            return consent(send)
        if send.broker in self.silent:
            return None
        self.asked.append(send.broker)
        topics = tuple(
            LogDirTopic(
                each.topic, tuple(LogDirPartition(p, self.sizes[each.topic], 0, False) for p in each.partitions)
            )
            for each in send.request.topics
            if self.sizes is not None and each.topic in self.sizes
        )
        error = 0 if self.sizes is not None else 56
        response = DescribeLogDirsResponse((LogDir(0, "/d", topics),), error)
        return LogDirsDescribed(send.broker, send.broker_epoch, send.request_id, response)


def paced(topics: float = 0, size: float = 0, brokers: Disks | None = None) -> OneController:
    """A cluster with topics a to e and these limits per second."""
    world = OneController()
    if brokers is not None:
        world.answer = brokers
    world.context.config = replace(world.context.config, pace=PaceLimits(int(topics * 1_000), int(size * 1_000)))
    cluster(world=world)
    for name in NAMES:
        with_topic(world, name, (1, 2))
    return world


def mark(world: OneController, *names: str) -> None:
    for name in names:
        world.mark(name)
    world.run()


def gone(world: OneController) -> str:
    return "".join(name for name in NAMES if is_gone(world, name))


def configure(world: OneController, **config: str) -> None:
    set_all(world, {f"lethe.deletion.{name}.per.second": value for name, value in config.items()})


def set_all(world: OneController, settings: dict[str, str]) -> None:
    """These settings, and no other, in one change."""
    path = paths.config_broker_default()
    if world.exists(path):
        world.write(Delete(path))
    world.write(Create(path, encode_config(settings)))
    entity = f"brokers/{paths.DEFAULT_ENTITY}"
    world.write(Create(paths.config_change(), encode_config_change(ConfigChange(entity)), sequential=True))
    world.run()


@pytest.mark.parametrize("refusing", [{"lethe.protected.topics": "*"}, {"delete.topic.enable": "false"}])
def test_topics_that_one_change_refuses_do_not_begin_because_it_ends_the_pace_too(refusing: dict[str, str]) -> None:
    world = paced()
    configure(world, topics="1")
    mark(world, *NAMES)
    assert gone(world) == "a"
    set_all(world, refusing)
    world.advance(60_000)
    assert gone(world) == "a"
    for name in "bcde":
        assert not world.exists(paths.delete_topic(name))
        assert led(world, name) == (1, 0, (1, 2))


def test_topics_that_wait_go_where_one_change_sends_them_and_ends_the_pace() -> None:
    world = paced()
    configure(world, topics="1")
    mark(world, *NAMES)
    set_all(world, {"lethe.protected.topics": "b"})
    assert gone(world) == "acde"
    assert led(world, "b") == (1, 0, (1, 2))


def test_topics_begin_as_the_bucket_fills_and_the_others_stay_in_service() -> None:
    world = paced(topics=2)
    mark(world, *NAMES)
    assert gone(world) == "ab"
    assert causes(world, "c") == [(None, None, "PACE")]
    assert led(world, "c") == (1, 0, (1, 2))
    found = []
    for _ in range(4):
        world.advance(500)
        found.append(gone(world))
    assert found == ["abc", "abcd", "abcde", "abcde"]
    assert BeginDeletions() not in world.context.timers


@pytest.mark.parametrize("is_taking_over", [False, True])
def test_topics_whose_turn_comes_while_the_notes_of_others_are_written_begin_too(is_taking_over: bool) -> None:
    world = paced(topics=2)
    world.stop_broker(2)

    def delay_notes(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes) and any(_is_note(group) for group in effect.groups):
            world.now_ms += 3_000

    world.meanwhile = delay_notes
    if is_taking_over:
        world.crash()
    mark(world, *NAMES)
    if is_taking_over:
        world.elect()
    assert list(world.context.cluster.deletions) == ["a", "b"]
    assert causes(world, "c") == [(None, None, "PACE")]
    for _ in range(3):
        world.advance(pace.MIN_WAIT_MS)
    assert list(world.context.cluster.deletions) == list(NAMES)
    assert BeginDeletions() not in world.context.timers


def _is_note(group: Sequence[Operation]) -> bool:
    parent = f"{paths.delete_topics()}/"
    return any(isinstance(each, SetData) and each.path.startswith(parent) for each in group)


def test_a_slow_limit_keeps_its_rest() -> None:
    world = paced(topics=0.1)
    mark(world, "a", "b")
    world.advance(9_999)
    assert gone(world) == "a"
    world.advance(1)
    assert gone(world) == "ab"


def test_a_topic_larger_than_the_bucket_begins_alone_and_the_next_waits_for_the_debt() -> None:
    disks = Disks({"a": 25_000, "b": 500, "c": 500})
    world = paced(size=10_000, brokers=disks)
    mark(world, "a", "b", "c")
    assert gone(world) == "a", "two replicas of 25,000 bytes: a debt of 40,000"
    assert disks.asked == [1, 2]
    view = pace.view(world.context, world.now_ms)
    assert (view.waiting, view.waiting_bytes, view.unknown_sizes, view.time_left_ms) == (2, 2_000, 0, 4_200)
    world.advance(4_099)
    assert gone(world) == "a"
    world.advance(1)
    assert gone(world) == "ab"
    world.advance(100)
    assert gone(world) == "abc"


@pytest.mark.parametrize("disks", [Disks(None), Disks({"b": 1}), Disks({})])
def test_of_a_topic_of_unknown_size_only_the_limit_on_topics_counts(disks: Disks) -> None:
    world = paced(topics=1, size=1, brokers=disks)
    mark(world, "a", "c")
    assert gone(world) == "a"
    view = pace.view(world.context, world.now_ms)
    assert (view.waiting, view.waiting_bytes, view.unknown_sizes, view.time_left_ms) == (1, None, 1, None)
    world.advance(1_000)
    assert gone(world) == "ac"


def test_a_broker_that_does_not_tell_sizes_delays_deletions_by_seconds_only() -> None:
    disks = Disks({"a": 1, "b": 1})
    disks.silent = (2,)
    world = paced(size=1_000_000, brokers=disks)
    mark(world, "a")
    world.advance(pace.SIZE_WAIT_MS - 1)
    assert gone(world) == ""
    world.advance(1)
    assert gone(world) == "a"


def test_the_limits_are_followed_at_once() -> None:
    world = paced(topics=0.001)
    mark(world, *NAMES)
    assert gone(world) == "a"
    configure(world, topics="many")
    assert gone(world) == "a"
    configure(world, topics="2")
    world.advance(500)
    assert gone(world) == "ab"
    configure(world, topics="0")
    assert gone(world) == "abcde"
    assert world.context.cluster.pacing.line == {}


def test_a_pause_holds_what_waits_and_the_line_is_the_same_afterwards() -> None:
    world = paced(topics=1)
    mark(world, "a", "b", "c")
    pause(world)
    mark(world, "d")
    world.advance(10_000)
    assert gone(world) == "a"
    assert causes(world, "c") == causes(world, "d") == [(None, None, "RESUMPTION")]
    assert pace.view(world.context, world.now_ms).time_left_ms is None
    resume(world)
    assert gone(world) == "ab"
    world.advance(1_000)
    assert gone(world) == "abc"


def test_a_marker_that_is_taken_back_leaves_the_line() -> None:
    world = paced(topics=1)
    mark(world, "a", "b", "c")
    world.write(Delete(paths.delete_topic("b")))
    world.run()
    assert list(world.context.cluster.pacing.line) == ["c"]
    world.advance(1_000)
    assert gone(world) == "ac"
    assert led(world, "b") is not None


def test_a_topic_that_is_protected_before_its_turn_stays() -> None:
    world = paced(topics=1)
    mark(world, "a", "b", "c")
    protect(world, "b")
    world.advance(2_000)
    assert gone(world) == "ac"
    assert not world.exists(paths.delete_topic("b"))


def test_a_deletion_that_had_begun_is_not_held_by_the_next_controller() -> None:
    world = paced(topics=1)
    world.stop_broker(2)
    mark(world, "a")
    assert causes(world, "a") == [(0, 2, "BROKER_TO_RETURN")]
    world.crash()
    mark(world, "b", "c")
    world.elect()
    assert world.context.cluster.is_queued("a")
    assert world.context.cluster.is_queued("b"), "the bucket is full"
    assert causes(world, "c") == [(None, None, "PACE")]


def test_a_deletion_that_had_begun_before_there_was_a_limit_is_not_held_by_the_next_controller_either() -> None:
    world = paced()
    world.stop_broker(2)
    mark(world, "a", "b")
    configure(world, topics="1")
    world.crash()
    world.elect()
    assert world.context.cluster.is_queued("a")
    assert world.context.cluster.is_queued("b")


def test_the_note_that_a_deletion_has_begun_keeps_the_orders_in_the_marker() -> None:
    world = paced(topics=1)
    world.stop_broker(2)
    orders = DeletionOrders(offline_replicas=OfflineReplicas.WAIT, grace_ms=0)
    world.write(Create(paths.delete_topic("a"), encode_deletion_marker(orders)))
    world.run()
    found = world.read(paths.delete_topic("a"))
    assert found is not None
    begun = decode_deletion_marker(found.data).begun
    assert begun == world.context.cluster.topics["a"].created_zxid
    assert decode_deletion_marker(found.data) == replace(orders, begun=begun)


def test_orders_that_cannot_be_understood_when_the_turn_has_come_hold_the_topic() -> None:
    world = paced(topics=1)
    mark(world, "a", "b")
    world.write(SetData(paths.delete_topic("b"), b'{"version":1,"offline_replicas":"perhaps"}', -1))
    world.advance(1_000)
    assert gone(world) == "a"
    assert causes(world, "b") == [(None, None, "ORDERS")]
    world.write(SetData(paths.delete_topic("b"), b'{"version":1,"offline_replicas":"owe"}', -1))
    world.run()
    assert gone(world) == "ab"


def test_a_reassignment_goes_on_until_the_turn_of_its_topic_has_come() -> None:
    world = paced(topics=1)
    mark(world, "a")
    data = b'{"version":1,"partitions":[{"topic":"b","partition":0,"replicas":[1,3]}]}'
    world.write(Create(paths.reassign_partitions(), data))
    world.run()
    assert world.context.cluster.reassignments
    mark(world, "b")
    assert world.context.cluster.reassignments
    assert causes(world, "b") == [(None, None, "PACE")]
    world.advance(1_000)
    assert gone(world) == "ab"
