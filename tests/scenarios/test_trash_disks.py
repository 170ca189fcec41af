"""The trash gives way to full disks, oldest first, one topic at a time; by default it never does."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lethe.controller.core.effects import Send
from lethe.controller.core.events import Answer, LogDirsDescribed
from lethe.controller.core.pace_memory import PaceLimits
from lethe.controller.core.trash_disks import AWAY, BYTES_GO_MS, NAMELESS, SILENT, UNTOLD
from lethe.controller.core.trash_view import size_bytes
from lethe.protocol.journal import EventRecord, EventRecordType
from lethe.protocol.journal_trash import GAVE_WAY
from lethe.protocol.kafka.queries import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDir,
    LogDirPartition,
    LogDirTopic,
)
from lethe.protocol.vocabulary import ReplicaAssignment
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete
from lethe.protocol.zookeeper.znodes import (
    ConfigChange,
    TopicZnode,
    encode_config,
    encode_config_change,
    encode_topic,
)
from tests.fakes.one_controller import OneController, consent, is_deletion
from tests.scenarios.plot import cluster, is_gone, led, with_topic
from tests.scenarios.test_pause import pause, resume
from tests.scenarios.test_protected_topics import EVERYWHERE
from tests.scenarios.test_trash import DAY_MS, FREEZE_MS, entry, mark
from tests.scenarios.test_undelete_marked import request

MINUTE_MS = 60_000
STEP_MS = 10_000
SIZE = 30
TOTAL = 1_000


@dataclass
class Disks:
    """Every broker has one disk; each topic's replica there has SIZE bytes until the broker has removed them."""

    usable: dict[int, int] = field(default_factory=lambda: {1: 500, 2: 500, 3: 500})
    removed: list[str] = field(default_factory=list)
    """Topics that brokers do not list any more."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Topics whose replicas have another size than SIZE."""
    failed: tuple[int, ...] = ()
    """Brokers of which one more disk has failed."""
    silent_about_dirs: tuple[int, ...] = ()
    """Brokers that name no disk that they can read."""
    busy: tuple[int, ...] = ()
    """Brokers that do not answer requests to delete."""

    def __call__(self, send: Send) -> Answer | None:
        if not isinstance(send.request, DescribeLogDirsRequest):
            return None if send.broker in self.busy and is_deletion(send) else consent(send)
        topics = tuple(
            LogDirTopic(
                name, tuple(LogDirPartition(number, self.sizes.get(name, SIZE), 0, False) for number in numbers)
            )
            for name, numbers in send.request.topics or ()
            if name not in self.removed
        )
        usable = self.usable[send.broker]
        here = LogDir(0, "/d", topics, -1 if usable < 0 else TOTAL, usable)
        broken = (LogDir(56, "/e", (), -1, -1),) if send.broker in self.failed else ()
        response = DescribeLogDirsResponse((*broken, *(() if send.broker in self.silent_about_dirs else (here,))))
        return LogDirsDescribed(send.broker, send.broker_epoch, send.request_id, response)


def trash(disks: Disks, free_percent: int = 10, **topics: tuple[int, ...]) -> OneController:
    """A cluster with these topics in the trash, one after the other; the controller has been active for long."""
    world = OneController()
    world.answer = disks
    world.context.config = replace(world.context.config, trash_free_percent=free_percent)
    cluster(world=world)
    world.advance(BYTES_GO_MS)
    for name, replicas in topics.items():
        with_topic(world, name, replicas)
        mark(world, name)
        world.advance(FREEZE_MS)
    wait(world, MINUTE_MS)
    return world


def left(world: OneController) -> list[str]:
    return [name for name in ("a", "b", "c") if entry(world, name) is not None]


def wait(world: OneController, ms: int) -> None:
    """Let time pass, ten seconds at a time."""
    for _ in range(ms // STEP_MS):
        world.advance(STEP_MS)


def gave_way(world: OneController) -> list[EventRecord]:
    return [each for each in world.recorded(EventRecordType.EVENT) if each.data["what"] == GAVE_WAY]


def test_by_default_the_trash_never_gives_way() -> None:
    disks = Disks()
    world = trash(disks, 0, a=(1, 2))
    disks.usable[1] = 0
    wait(world, BYTES_GO_MS)
    assert left(world) == ["a"]
    assert size_bytes(world.context, "a") == (2 * SIZE, ())


def test_oldest_topic_with_a_replica_on_the_full_disk_gives_way_and_the_next_waits_for_its_bytes() -> None:
    disks = Disks()
    world = trash(disks, a=(2, 3), b=(1, 2), c=(1, 3))
    assert left(world) == ["a", "b", "c"], "there is room enough"
    disks.usable[1] = 99
    wait(world, MINUTE_MS)
    assert left(world) == ["a", "c"], "topic a is older, and not on that disk"
    assert is_gone(world, "b")
    (why,) = gave_way(world)
    assert why.subject == "topic/b"
    assert {key: why.data[key] for key in ("broker", "path", "usable_bytes", "total_bytes")} == {
        "broker": 1,
        "path": "/d",
        "usable_bytes": 99,
        "total_bytes": TOTAL,
    }
    wait(world, 4 * MINUTE_MS)
    assert left(world) == ["a", "c"], "the broker still lists it"
    disks.removed.append("b")
    wait(world, MINUTE_MS)
    assert left(world) == ["a", "c"], "its bytes are not free yet"
    disks.usable[1] = 99 + SIZE
    wait(world, MINUTE_MS)
    assert left(world) == ["a", "c"], "they are, and that is enough"
    disks.usable[1] = 50
    wait(world, MINUTE_MS)
    assert left(world) == ["a"]


def test_bytes_that_others_take_at_once_are_not_waited_for_without_limit() -> None:
    disks = Disks()
    world = trash(disks, a=(1, 2), b=(1, 2))
    disks.usable[1] = 50
    wait(world, MINUTE_MS)
    assert left(world) == ["b"]
    disks.removed.append("a")
    wait(world, BYTES_GO_MS)
    assert left(world) == ["b"]
    wait(world, 2 * MINUTE_MS)
    assert left(world) == []


def test_nothing_gives_way_to_a_disk_that_is_not_seen() -> None:
    disks = Disks()
    world = trash(disks, a=(1, 2))
    disks.usable |= {1: -1, 2: -1}
    wait(world, MINUTE_MS)
    seen = world.context.cluster.trash.disks.seen
    assert [seen[broker].problem for broker in seen] == [UNTOLD, UNTOLD]
    world.stop_broker(1)
    world.silent = {2: None}
    world.run()
    disks.usable |= {1: 0, 2: 0}
    wait(world, 2 * MINUTE_MS)
    seen = world.context.cluster.trash.disks.seen
    assert {broker: each.problem for broker, each in seen.items()} == {1: AWAY, 2: SILENT}
    assert left(world) == ["a"]
    assert size_bytes(world.context, "a") == (2 * SIZE, ()), "the bytes are what they were"
    world.silent = {}
    world.start_broker(1)
    world.run()
    wait(world, MINUTE_MS)
    assert left(world) == []


def test_bytes_on_a_failed_disk_are_unseen() -> None:
    disks = Disks(failed=(1,))
    world = trash(disks, a=(1, 2))
    assert size_bytes(world.context, "a") == (2 * SIZE, (1,))
    disks.silent_about_dirs = (1, 2)
    wait(world, MINUTE_MS)
    seen = world.context.cluster.trash.disks.seen
    assert {broker: each.problem for broker, each in seen.items()} == {1: "KAFKA_STORAGE_ERROR", 2: NAMELESS}


def test_pause_keeps_the_trash_as_it_is() -> None:
    disks = Disks()
    world = trash(disks, a=(1, 2))
    pause(world)
    disks.usable[2] = 0
    wait(world, 5 * MINUTE_MS)
    assert left(world) == ["a"]
    resume(world)
    wait(world, MINUTE_MS)
    assert left(world) == []


def test_next_controller_waits_for_the_bytes_of_a_topic_that_gave_way_under_the_one_before() -> None:
    disks = Disks()
    world = trash(disks, a=(1, 2), b=(1, 2))
    disks.usable[1] = 50
    wait(world, MINUTE_MS)
    assert left(world) == ["b"]
    world.crash()
    world.elect()
    wait(world, BYTES_GO_MS - STEP_MS)
    assert left(world) == ["b"]
    wait(world, 2 * MINUTE_MS)
    assert left(world) == []


def test_limit_is_followed_live() -> None:
    disks = Disks()
    world = trash(disks, 0, a=(1, 2))
    disks.usable[1] = 50
    for text, names in (("5x", ["a"]), ("5", ["a"]), ("6", [])):
        path = paths.config_broker_default()
        if world.exists(path):
            world.write(Delete(path))
        world.write(Create(path, encode_config({"lethe.trash.free.percent": text})))
        world.write(Create(paths.config_change(), encode_config_change(ConfigChange(EVERYWHERE)), sequential=True))
        world.run()
        wait(world, MINUTE_MS)
        assert left(world) == names, text


def test_topic_that_comes_back_instead_is_not_waited_for() -> None:
    disks = Disks()
    world = trash(disks, a=(1, 2), b=(1, 2))
    request(world, "a")
    assert led(world, "a") == (1, 1, (1, 2))
    disks.usable[1] = 50
    wait(world, MINUTE_MS)
    assert left(world) == []
    assert [each.subject for each in gave_way(world)] == ["topic/b"]


def test_protected_topic_and_one_whose_name_is_taken_do_not_give_way() -> None:
    disks = Disks()
    world = trash(disks, a=(1, 2), b=(1, 2), c=(1, 2))
    world.context.config = replace(world.context.config, protected_topics=("a",))
    world.write(Create(paths.topic("b"), encode_topic(TopicZnode({0: ReplicaAssignment((3,))}))))
    world.run()
    disks.usable[1] = 50
    wait(world, 2 * MINUTE_MS)
    assert left(world) == ["a", "b"]
    assert [each.subject for each in gave_way(world)] == ["topic/c"]


def test_topic_whose_time_is_over_is_no_matter_of_the_disk() -> None:
    world = trash(Disks(), a=(1, 2))
    world.advance(DAY_MS)
    assert is_gone(world, "a")
    assert gave_way(world) == []


def test_topic_with_nothing_on_the_full_disk_does_not_give_way() -> None:
    disks = Disks(sizes={"a": 0})
    world = trash(disks, a=(1, 2), b=(1, 2))
    disks.usable[1] = 50
    wait(world, MINUTE_MS)
    assert left(world) == ["a"]
    disks.removed.append("b")
    wait(world, 2 * BYTES_GO_MS)
    assert left(world) == ["a"]


def test_nothing_gives_way_to_a_broker_that_has_left_since_its_answer() -> None:
    disks = Disks()
    world = trash(disks, a=(1, 2))
    disks.usable[1] = 50
    world.silent = {2: None}
    while not world.context.cluster.trash.disks.waiting:
        world.advance(STEP_MS)
    world.stop_broker(1)
    world.run()
    wait(world, 2 * MINUTE_MS)
    assert left(world) == ["a"]


def test_broker_of_the_full_disk_that_restarts_costs_no_second_topic() -> None:
    disks = Disks()
    world = trash(disks, a=(1, 2), b=(1, 2), c=(2, 3))
    disks.usable[1] = 50
    disks.busy = (1,)
    wait(world, MINUTE_MS)
    assert left(world) == ["b", "c"]
    for _ in range(2):
        world.stop_broker(1)
        world.run()
        wait(world, 2 * MINUTE_MS)
        world.start_broker(1)
        world.run()
        wait(world, 2 * MINUTE_MS)
        assert left(world) == ["b", "c"], "the bytes of topic a are still there"
    world.stop_broker(1)
    world.run()
    disks.usable[2] = 50
    wait(world, BYTES_GO_MS - MINUTE_MS)
    assert left(world) == ["b", "c"]
    wait(world, 3 * MINUTE_MS)
    assert left(world) == ["c"], "another disk does not wait for a broker for ever"


def test_topic_gives_way_before_its_turn() -> None:
    """A full disk does not wait for the pace of deletions; what goes by itself does."""
    disks = Disks()
    world = trash(disks, a=(1, 2), b=(1, 2))
    world.context.config = replace(world.context.config, pace=PaceLimits(1, 0))
    with_topic(world, "z", (3,))
    world.mark("z")
    world.run()
    disks.usable[1] = 50
    wait(world, MINUTE_MS)
    assert left(world) == ["b"]
    assert is_gone(world, "a")
