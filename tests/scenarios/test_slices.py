"""Topics that are loaded and created slice by slice: ZooKeeper has one slice while another is announced."""

from __future__ import annotations

import pytest

from lethe.controller.core.context import Role
from lethe.controller.core.effects import ReadZnodes, WriteZnodes
from lethe.controller.core.gauges import gauges
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create
from tests.fakes.one_controller import Loss, OneController
from tests.scenarios.plot import another_is_elected, causes, cluster, led, role, text

TOPICS = ("a", "b", "c")


def sliced(*topics: str) -> OneController:
    """Brokers 1 and 2, and a controller that takes each topic as a slice of its own."""
    world = cluster(1, 2, world=OneController(partitions_per_slice=1))
    for name in topics:
        world.create_topic(name, (1, 2))
    return world


def outstanding(world: OneController) -> list[tuple[str, int]]:
    """The first path of each later read and write of partitions, and how many were outstanding when it was issued."""
    seen: list[tuple[str, int]] = []

    def note(effect: ReadZnodes | WriteZnodes) -> None:
        first = effect.reads[0] if isinstance(effect, ReadZnodes) else effect.groups[0][0]
        if "/partitions" in first.path:
            ids = [each.effect_id for each in world.context.awaited]
            seen.append((first.path, ids.index(effect.id) + 1))

    world.meanwhile = note
    return seen


def test_golden_story_of_a_takeover_in_slices() -> None:
    world = sliced(*TOPICS)
    world.run()
    world.crash()
    world.take_story()
    reads = outstanding(world)
    world.elect()
    assert reads == [
        (paths.partition_state("a", 0), 1),
        (paths.partition_state("b", 0), 2),
        (paths.partition_state("c", 0), 2),
    ]
    assert world.take_story() == text("""
        * SessionEstablished
        zk create /controller (ephemeral)
        zk set /controller_epoch at version 1: 2
        -> 1,2 UpdateMetadata brokers 1,2
        -> 1,2 LeaderAndIsr: a-0 leader 1 epoch 0 isr 1,2
        -> 1,2 UpdateMetadata brokers 1,2: a-0 leader 1 epoch 0 isr 1,2
        -> 1,2 LeaderAndIsr: b-0 leader 1 epoch 0 isr 1,2
        -> 1,2 UpdateMetadata brokers 1,2: b-0 leader 1 epoch 0 isr 1,2
        -> 1,2 LeaderAndIsr: c-0 leader 1 epoch 0 isr 1,2
        -> 1,2 UpdateMetadata brokers 1,2: c-0 leader 1 epoch 0 isr 1,2
        * ControllerChanged
        <- 1,2 UpdateMetadata ok
        <- 1,2 LeaderAndIsr ok
        <- 1,2 UpdateMetadata ok
        <- 1,2 LeaderAndIsr ok
        <- 1,2 UpdateMetadata ok
        <- 1,2 LeaderAndIsr ok
        <- 1,2 UpdateMetadata ok
    """)


def test_between_the_slices_of_a_takeover_no_metadata_cache_counts_as_compared() -> None:
    world = sliced(*TOPICS)
    world.run()
    world.crash()
    seen: list[int] = []

    def note(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, ReadZnodes) and "/partitions" in effect.reads[0].path:
            seen.append(gauges(world.context).unseen_cache_count)

    world.meanwhile = note
    world.elect()
    assert seen == [2, 2, 2]
    assert gauges(world.context).unseen_cache_count == 2, "the comparison begins"


def test_golden_story_of_a_creation_in_slices() -> None:
    world = sliced(*TOPICS)
    writes = outstanding(world)
    world.run()
    assert writes == [
        (paths.topic_partitions("a"), 1),
        (paths.topic_partitions("b"), 2),
        (paths.topic_partition("a", 0), 2),
        (paths.topic_partition("b", 0), 2),
        (paths.topic_partitions("c"), 2),
        (paths.topic_partition("c", 0), 1),
    ]
    assert world.take_story() == text("""
        * TopicsChanged
        zk set /brokers/topics/a at version 0
        zk set /brokers/topics/b at version 0
        zk set /brokers/topics/c at version 0
        zk create /brokers/topics/a/partitions
        zk create /brokers/topics/b/partitions
        zk create /brokers/topics/a/partitions/0
        zk create /brokers/topics/a/partitions/0/state: leader 1 epoch 0 isr 1,2
        zk create /brokers/topics/b/partitions/0
        zk create /brokers/topics/b/partitions/0/state: leader 1 epoch 0 isr 1,2
        -> 1,2 LeaderAndIsr: a-0 leader 1 epoch 0 isr 1,2 new
        -> 1,2 UpdateMetadata brokers 1,2: a-0 leader 1 epoch 0 isr 1,2
        zk create /brokers/topics/c/partitions
        -> 1,2 LeaderAndIsr: b-0 leader 1 epoch 0 isr 1,2 new
        -> 1,2 UpdateMetadata brokers 1,2: b-0 leader 1 epoch 0 isr 1,2
        zk create /brokers/topics/c/partitions/0
        zk create /brokers/topics/c/partitions/0/state: leader 1 epoch 0 isr 1,2
        -> 1,2 LeaderAndIsr: c-0 leader 1 epoch 0 isr 1,2 new
        -> 1,2 UpdateMetadata brokers 1,2: c-0 leader 1 epoch 0 isr 1,2
        <- 1,2 LeaderAndIsr ok
        <- 1,2 UpdateMetadata ok
        <- 1,2 LeaderAndIsr ok
        <- 1,2 UpdateMetadata ok
        <- 1,2 LeaderAndIsr ok
        <- 1,2 UpdateMetadata ok
    """)


def test_partitions_whose_own_znode_exists_are_completed_among_the_slices() -> None:
    """A controller has died between a partition's znode and its state."""
    world = sliced(*TOPICS)
    world.write(Create(paths.topic_partitions("b"), None), Create(paths.topic_partition("b", 0), None))
    world.run()
    assert [led(world, name) for name in TOPICS] == [(1, 0, (1, 2))] * 3


def test_control_lost_between_two_slices_ends_with_the_slice_that_was_written() -> None:
    world = sliced(*TOPICS)

    def elect(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes) and effect.groups[0][0].path == paths.topic_partition("b", 0):
            another_is_elected(world)

    world.meanwhile = elect
    world.run()
    assert role(world) is not Role.ACTIVE
    assert world.context.awaited == ()
    assert [line for line in world.take_story().splitlines() if "LeaderAndIsr:" in line] == [
        "-> 1,2 LeaderAndIsr: a-0 leader 1 epoch 0 isr 1,2 new"
    ]
    assert not world.exists(paths.topic_partition("b", 0))
    assert not world.exists(paths.topic_partition("c", 0))


@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize("name", TOPICS)
def test_slice_whose_outcome_is_not_known_is_loaded_anew_with_all_others(name: str, loss: Loss) -> None:
    world = sliced(*TOPICS)
    path = paths.topic_partition(name, 0)
    lost = [loss]
    world.losing = lambda effect: lost.pop() if lost and effect.groups[0][0].path == path else None
    world.run()
    assert len(world.renewals) == 1
    world.advance(60_000)
    assert role(world) is Role.ACTIVE
    assert [led(world, each) for each in TOPICS] == [(1, 0, (1, 2))] * 3


def test_no_slice_announces_a_topic_that_is_queued_for_deletion() -> None:
    world = sliced(*TOPICS)
    world.run()
    world.crash()
    world.stop_broker(2)
    world.mark("b")
    world.take_story()
    world.elect()
    told = "\n".join(line for line in world.take_story().splitlines() if "LeaderAndIsr:" in line)
    assert "a-0" in told
    assert "b-0" not in told
    assert "c-0" in told
    assert causes(world, "b") == [(0, 2, "BROKER_TO_RETURN")]
