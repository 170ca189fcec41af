"""Removing the znodes of deleted topics in the background: what may happen between the write and its outcome."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lethe.controller.core.context import Role
from lethe.controller.core.effects import ReadZnodes, WriteZnodes
from lethe.controller.core.events import ResignationRequested, SessionLost
from lethe.controller.core.removal import GROUPS_AT_ONCE
from lethe.controller.core.slices import SLICES_AT_ONCE
from lethe.protocol.journal import EventRecordType
from lethe.protocol.vocabulary import ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    GetChildren,
    Operation,
    SetData,
    ZkError,
)
from lethe.protocol.zookeeper.packing import DEFAULT_MAX_BYTES, MultiPlan, PlannedMulti, group_bytes
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import cluster, is_gone, led, role, with_topic
from tests.scenarios.test_pause import pause, resume

PARTITIONS_PER_GROUP = 3
SMALL_GROUPS = 2 * PARTITIONS_PER_GROUP + 4


def being_removed(*names: str) -> OneController:
    """The znodes of these topics are removed, and the controller does not know it yet."""
    world = cluster()
    world.held = []
    for name in ("kept", *names):
        with_topic(world, name, (1, 2, 3))
    for name in names:
        world.mark(name)
    world.run()
    for name in names:
        assert not world.exists(paths.topic(name))
        assert name in world.context.cluster.deletions
    return world


def with_slices(slices: int) -> tuple[OneController, list[str]]:
    """As `being_removed`, with topics that fill so many slices."""
    world = cluster(world=OneController(max_operations_per_group=SMALL_GROUPS))
    world.held = []
    names = [f"t{number}" for number in range(slices * GROUPS_AT_ONCE)]
    for name in names:
        world.create_topic(name, *[(1, 2)] * PARTITIONS_PER_GROUP)
    world.run()
    world.write(*(Create(paths.delete_topic(name), None) for name in names))
    world.run()
    return world, names


def phases(world: OneController, name: str) -> list[object]:
    told = world.recorded(EventRecordType.DELETION_PHASE)
    return [record.data["phase"] for record in told if record.subject == f"topic/{name}"]


def removal_groups(world: OneController) -> Callable[[], list[list[tuple[Operation, ...]]]]:
    """Return a reader of the groups of each write in the background from now on."""
    writes: list[list[tuple[Operation, ...]]] = []

    def note(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes) and effect.in_background:
            writes.append(list(effect.groups))

    world.meanwhile = note
    return lambda: writes


def requests(groups: list[tuple[Operation, ...]]) -> list[PlannedMulti]:
    plan = MultiPlan(groups, Check(paths.controller_epoch(), 1))
    return list(iter(plan.next_multi, None))


@pytest.mark.parametrize("letters, partitions, multis", [(10, 200, 1), (10, 240, 3), (249, 38, 1), (249, 50, 3)])
def test_a_multi_of_a_removal_has_24_kib_at_most(letters: int, partitions: int, multis: int) -> None:
    """ZooKeeper keeps its last 500 in memory, however long the topics' names are (docs/decisions/0059)."""
    name = "t" * letters
    world = with_topic(cluster(), name, *[(1, 2)] * partitions)
    written = removal_groups(world)
    world.mark(name)
    world.run()
    assert is_gone(world, name)
    sent = [multi for write in written() for multi in requests(write)]
    assert len(sent) == multis
    assert max(group_bytes(multi.operations[1:]) for multi in sent) <= DEFAULT_MAX_BYTES
    assert sum(len(multi.operations) - 1 for multi in sent) == 2 * partitions + 4


@pytest.mark.parametrize("letters, children, largest", [(250, 300, DEFAULT_MAX_BYTES), (60_000, 3, 60_100)])
def test_strange_znodes_with_long_names_do_not_make_large_multis(letters: int, children: int, largest: int) -> None:
    world = with_topic(cluster(), "orders", *[(1, 2)] * 300)
    below = paths.topic_partition("orders", 0)
    world.write(*(Create(f"{below}/{n:03}{'x' * letters}", None) for n in range(children)))
    written = removal_groups(world)
    world.mark("orders")
    world.run()
    assert is_gone(world, "orders")
    searched = written()[-2]
    assert sum("xxx" in operation.path for group in searched for operation in group) == children
    assert max(map(group_bytes, searched)) <= largest


def test_a_slice_has_a_bounded_number_of_deletes() -> None:
    world = cluster(world=OneController(max_operations_per_group=100))
    names = [f"t{number}" for number in range(50)]
    for name in names:
        world.create_topic(name, *[(1, 2)] * 10)
    world.run()
    written = removal_groups(world)
    world.write(*(Create(paths.delete_topic(name), None) for name in names))
    world.run()
    assert all(is_gone(world, name) for name in names)
    assert [sum(map(len, write)) for write in written()] == [408, 408, 384]


def test_leaders_are_elected_while_znodes_are_removed() -> None:
    world = being_removed("orders")
    assert led(world, "kept") == (1, 0, (1, 2, 3))
    world.stop_broker(1)
    world.run()
    assert led(world, "kept") == (2, 1, (2, 3))
    assert "orders" in world.context.cluster.deletions
    world.release(1)
    assert is_gone(world, "orders")
    assert phases(world, "orders")[-2:] == ["removed", "done"]


def test_a_topic_that_is_made_again_meanwhile_is_another_one() -> None:
    world = being_removed("orders")
    world.take_sent()
    world.create_topic("orders", (2, 3))
    world.run()
    assert world.take_sent() == [], "nothing is sent about a name whose old topic may still be there"
    world.release(1)
    assert led(world, "orders") == (2, 0, (2, 3))
    assert phases(world, "orders")[-2:] == ["removed", "done"]


def test_a_topic_that_is_made_and_marked_again_meanwhile_is_deleted_again() -> None:
    world = being_removed("orders")
    world.create_topic("orders", (2, 3))
    world.run()
    world.mark("orders")
    world.run()
    world.release(1)
    world.release(1)
    assert is_gone(world, "orders")
    assert phases(world, "orders").count("done") == 2


def test_a_name_is_looked_for_again_where_its_topic_is_still_being_removed_when_another_outcome_comes() -> None:
    world, names = with_slices(2)
    world.create_topic(names[-1], (2, 3))
    world.run()
    world.release(1)
    assert is_gone(world, names[0])
    assert names[-1] in world.context.cluster.deletions
    world.release(1)
    assert led(world, names[-1]) == (2, 0, (2, 3))


def test_a_topic_under_way_is_neither_continued_nor_taken_for_vanished() -> None:
    world = being_removed("orders")
    assert world.held is not None
    world.stop_broker(3)
    world.start_broker(3)
    world.run()
    world.create_topic("new", (1,))
    world.run()
    world.advance(60_000)
    assert len(world.held) == 1
    world.release(1)
    assert is_gone(world, "orders")
    assert "vanished" not in phases(world, "orders")
    assert led(world, "new") == (1, 0, (1,))


@pytest.mark.parametrize("target", [(3, 1), (1, 2, 3)])
def test_a_reassignment_of_a_topic_that_is_made_again_meanwhile_is_kept_and_starts(target: tuple[int, ...]) -> None:
    world = being_removed("orders")
    world.create_topic("orders", (2,))
    request = {TopicPartition("orders", 0): target}
    world.write(Create(paths.REASSIGN_PARTITIONS, znodes.encode_reassignment(request)))
    world.run()
    assert world.exists(paths.REASSIGN_PARTITIONS), "it may be for the topic that was made again"
    world.release(1)
    assert world.context.cluster.reassignments[TopicPartition("orders", 0)].written.target == target


@pytest.mark.parametrize("successor_reads", [False, True])
def test_a_reassignment_older_than_the_topic_that_is_made_again_stays_void(successor_reads: bool) -> None:
    """The list also has a finished entry: a write that removes it would make the list younger than the new topic."""
    world = being_removed("orders")
    request = {TopicPartition("kept", 0): (1, 2, 3), TopicPartition("orders", 0): (3, 1)}
    world.write(Create(paths.REASSIGN_PARTITIONS, znodes.encode_reassignment(request)))
    world.create_topic("orders", (2, 3))
    world.run()
    if successor_reads:
        world.crash()
        world.held = None
        world.elect()
    else:
        world.release(1)
    assert led(world, "orders") == (2, 0, (2, 3))
    assert world.context.cluster.topics["orders"].partitions[0].assignment == ReplicaAssignment((2, 3))
    assert not world.exists(paths.REASSIGN_PARTITIONS), "both entries are removed then"


def test_a_reassignment_of_a_topic_that_is_being_removed_is_void_after_its_end() -> None:
    world = being_removed("orders")
    request = {TopicPartition("orders", 0): (3, 1)}
    world.write(Create(paths.REASSIGN_PARTITIONS, znodes.encode_reassignment(request)))
    world.run()
    world.release(1)
    assert is_gone(world, "orders")
    assert not world.exists(paths.REASSIGN_PARTITIONS)


def test_a_reassignment_does_not_have_a_topic_under_way_read_again() -> None:
    world = being_removed("orders")
    world.create_topic("orders", (2, 3), (2, 3))
    target = {TopicPartition("orders", 1): (3, 1)}
    world.write(Create(paths.REASSIGN_PARTITIONS, znodes.encode_reassignment(target)))
    world.run()
    assert list(world.context.cluster.removals.under_way) == ["orders"]
    world.release(1)
    world.run()
    assert "orders" not in world.context.cluster.deletions
    assert led(world, "orders", 1) is not None, "it was made again, and nobody wants it to go"


def test_a_topic_that_was_modified_meanwhile_and_is_left_is_read_again() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.held = []
    path = paths.topic("orders")
    world.refusals[path] = ZkError.NOT_EMPTY
    world.mark("orders")
    world.run()
    assert list(world.context.cluster.removals.under_way) == ["orders"]
    world.refusals.clear()
    found = world.read(path)
    assert found is not None
    before = znodes.decode_topic("orders", found.data)
    more = {**before.assignments, 1: ReplicaAssignment((2, 1))}
    world.write(SetData(path, znodes.encode_topic(znodes.TopicZnode(more, before.topic_id)), ANY_VERSION))
    world.run()
    pause(world)
    world.release(1)
    found = world.read(path)
    assert found is not None
    assert znodes.decode_topic("orders", found.data) == before
    assert ("adding partitions", "the topic is being deleted; its znode is written back") in [
        (record.data["what"], record.data["why"]) for record in world.recorded(EventRecordType.REFUSAL)
    ]
    assert world.context.cluster.removals.modified == {}
    resume(world)
    world.release(1)
    assert is_gone(world, "orders")


def test_a_topic_that_somebody_removed_first_is_done_all_the_same() -> None:
    world = cluster()
    world.held = []
    with_topic(world, "orders", (1, 2, 3))

    def first(_: object) -> None:
        if world.context.cluster.deletions and world.context.cluster.deletions["orders"].acknowledged_at_ms is not None:
            world.meanwhile = lambda _: None
            for path in (paths.partition_state("orders", 0), paths.topic_partition("orders", 0)):
                world.write(Delete(path))

    world.meanwhile = first
    world.mark("orders")
    world.run()
    world.release(1)
    world.release(1)
    assert is_gone(world, "orders")
    assert phases(world, "orders")[-2:] == ["removed", "done"]


def by_hand(world: OneController, name: str) -> None:
    """Another process removes the topic whole, with its settings and marker."""
    for path in reversed([path for path in world.zookeeper.paths() if name in path.split("/")]):
        world.write(Delete(path))


def removed_first(world: OneController, name: str) -> None:
    """Another process removes the topic whole, just before the controller's next write in the background."""

    def first(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes) and effect.in_background:
            world.meanwhile = lambda _: None
            by_hand(world, name)

    world.meanwhile = first


def test_topic_that_is_removed_by_hand_under_way_is_not_kept_during_a_pause() -> None:
    """A list that was read for another slice did not have it any more, and nothing reported its end again."""
    world, _ = with_slices(SLICES_AT_ONCE + 1)
    last = list(world.context.cluster.removals.waiting)[-1]
    removed_first(world, last)
    world.release(1)
    assert last in world.context.cluster.removals.missing
    pause(world)
    world.release(SLICES_AT_ONCE)
    assert last not in world.context.cluster.topics
    assert phases(world, last)[-1] == "vanished"


def test_topic_that_is_removed_by_hand_just_before_its_last_znodes_go_is_not_kept_until_the_next_attempt() -> None:
    """Seed 72609. Its tree was searched before, as its settings were gone. The lists are due for another topic, and are
    read without this one."""
    world, _ = with_slices(SLICES_AT_ONCE + 1)
    last = list(world.context.cluster.removals.waiting)[-1]
    world.write(Delete(paths.config_topic(last)))
    world.release(SLICES_AT_ONCE)
    for path in (paths.topic("other"), paths.delete_topic("other")):
        world.write(Create(path, None), Delete(path))
    world.run()
    removed_first(world, last)
    world.release(1)
    assert list(world.context.cluster.removals.under_way) == [last]
    assert last in world.context.cluster.removals.missing
    world.release(1)
    assert last not in world.context.cluster.topics
    assert phases(world, last)[-1] == "vanished"
    assert world.context.cluster.removals.missing == {}


def test_a_topic_that_somebody_has_removed_and_made_again_just_before_stays() -> None:
    world = cluster()
    with_topic(world, "orders", (1, 2, 3))

    def replace(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes) and effect.in_background:
            world.meanwhile = lambda _: None
            by_hand(world, "orders")
            world.create_topic("orders", (2, 3))

    world.meanwhile = replace
    world.mark("orders")
    world.run()
    assert led(world, "orders") == (2, 0, (2, 3))
    assert phases(world, "orders")[-1] == "vanished"


def test_a_topic_that_is_made_again_between_two_reads_is_another_one() -> None:
    """Its data watch was used up by the removal; the list, which is read next, has its name as before."""
    world = with_topic(cluster(), "orders", (1, 2))
    by_hand(world, "orders")

    def make_again(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, ReadZnodes) and GetChildren(paths.broker_topics(), watch=True) in effect.reads:
            world.meanwhile = lambda _: None
            world.create_topic("orders", (2, 3))

    world.meanwhile = make_again
    world.run()
    assert led(world, "orders") == (2, 0, (2, 3))


def test_the_request_to_move_a_topic_that_is_removed_and_made_again_by_hand_leaves_the_list() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    request = {TopicPartition("orders", 0): (1, 3)}
    world.write(Create(paths.REASSIGN_PARTITIONS, znodes.encode_reassignment(request)))
    world.run()
    by_hand(world, "orders")
    world.create_topic("orders", (2, 3))
    world.run()
    assert led(world, "orders") == (2, 0, (2, 3))
    assert not world.exists(paths.REASSIGN_PARTITIONS)


def test_trees_of_different_depth_are_searched_together() -> None:
    world = cluster()
    for name in ("orders", "bills"):
        with_topic(world, name, (1, 2, 3))
        world.write(Delete(paths.config_topic(name)))
    world.write(Delete(paths.partition_state("bills", 0)), Delete(paths.topic_partition("bills", 0)))
    world.write(*(Create(paths.delete_topic(name), None) for name in ("orders", "bills")))
    world.run()
    assert is_gone(world, "orders")
    assert is_gone(world, "bills")


@pytest.mark.parametrize("is_whole", [True, False])
def test_control_is_given_up_after_the_outcome(is_whole: bool) -> None:
    world = cluster()
    world.held = []
    with_topic(world, "orders", (1, 2, 3))
    if not is_whole:
        world.write(Delete(paths.config_topic("orders")))
    world.mark("orders")
    world.run()
    world.feed(ResignationRequested("asked"))
    world.run()
    assert role(world) is Role.ACTIVE
    world.release(1)
    if not is_whole:
        assert role(world) is Role.ACTIVE
        world.release(1)
    assert role(world) is not Role.ACTIVE
    assert phases(world, "orders")[-2:] == ["removed", "done"]
    assert not world.exists(paths.controller())


def test_the_outcome_of_an_earlier_term_counts_no_more() -> None:
    world = being_removed("orders")
    world.zookeeper.close_session(world.session)
    world.feed(SessionLost("it expired"))
    world.run()
    world.create_topic("orders", (2, 3))
    world.elect()
    assert role(world) is Role.ACTIVE
    before = phases(world, "orders")
    world.release(1)
    assert led(world, "orders") == (2, 0, (2, 3))
    assert phases(world, "orders") == before


@pytest.mark.parametrize("paused", [False, True])
def test_few_slices_are_under_way_at_once(paused: bool) -> None:
    world, names = with_slices(SLICES_AT_ONCE + 1)
    assert world.held is not None
    assert len(world.held) == SLICES_AT_ONCE
    assert sum(not world.exists(paths.topic(name)) for name in names) == SLICES_AT_ONCE * GROUPS_AT_ONCE
    if paused:
        pause(world)
    world.release(SLICES_AT_ONCE)
    assert len(world.held) == (0 if paused else 1)
    if paused:
        assert sum(world.exists(paths.topic(name)) for name in names) == GROUPS_AT_ONCE
        resume(world)
    world.release(1)
    assert all(is_gone(world, name) for name in names)
