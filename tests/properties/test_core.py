"""Whatever happens to a controller, in whatever order: the invariants hold, nothing is forgotten, and a step is a
function of context and event.

The world answers at once (`tests.fakes.one_controller`); delays and reordering are the simulator's.
"""

from __future__ import annotations

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.controller.core import controller
from lethe.controller.core.context import Role
from lethe.controller.core.effects import WriteZnodes
from lethe.controller.core.gauges import gauges
from lethe.controller.core.waiting import waits
from lethe.protocol.causes import CauseKind
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import (
    AlterPartition,
    AlterPartitionRequest,
    AlterPartitionTopic,
    ControlledShutdownRequest,
)
from lethe.protocol.vocabulary import NO_EPOCH, BrokerId, RecoveryState
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Delete
from tests.fakes.one_controller import Loss, OneController, Refusing, consent

BROKERS = (1, 2, 3)
TOPICS = ("a", "b", "c")
ASSIGNMENTS = (((1, 2, 3),), ((2,), (3, 1)), ((3, 2), (1, 3), (2, 1)))

ACTIONS = st.one_of(
    st.tuples(st.just("create"), st.sampled_from(TOPICS), st.sampled_from(ASSIGNMENTS)),
    st.tuples(st.just("mark"), st.sampled_from((*TOPICS, "ghost")), st.none()),
    st.tuples(st.just("remove by hand"), st.sampled_from(TOPICS), st.none()),
    st.tuples(
        st.sampled_from(("stop", "start", "bounce", "silence", "hear", "fail")), st.sampled_from(BROKERS), st.none()
    ),
    st.tuples(st.sampled_from(("crash", "mend", "lose", "lose applied")), st.none(), st.none()),
    st.tuples(st.sampled_from(("ask to stop", "alter")), st.sampled_from(BROKERS), st.sampled_from(TOPICS)),
    st.tuples(st.just("wait"), st.sampled_from((100, 1_000, 60_000)), st.none()),
)


def act(world: OneController, action: tuple[str, object, object]) -> None:
    """Do one thing to the cluster, if it can be done now."""
    match action:
        case ("create", str(name), tuple(partitions)) if not world.exists(paths.topic(name)):
            if world.exists(paths.config_topic(name)):
                world.write(Delete(paths.config_topic(name)))
            world.create_topic(name, *partitions)
        case ("mark", str(name), _) if not world.exists(paths.delete_topic(name)):
            world.mark(name)
        case ("remove by hand", str(name), _) if world.exists(paths.topic(name)):
            under = [
                p for p in world.zookeeper.paths() if p.startswith(paths.topic(name) + "/") or p == paths.topic(name)
            ]
            world.write(*(Delete(path) for path in reversed(under)))
            # A topic that is removed and made again between two looks is not noticed, by Kafka's controller neither.
            world.run()
        case ("stop", int(broker), _) if broker in world.sessions:
            world.stop_broker(broker)
        case ("start", int(broker), _) if broker not in world.sessions:
            world.start_broker(broker)
        case ("bounce", int(broker), _) if broker in world.sessions:
            world.stop_broker(broker)
            world.start_broker(broker)
        case ("silence", int(broker), _):
            world.silent[broker] = None
        case ("hear", int(broker), _):
            world.silent.pop(broker, None)
        case ("fail", int(broker), _):
            world.answer = Refusing(broker, ErrorCode.KAFKA_STORAGE_ERROR)
        case ("mend", _, _):
            world.answer = consent
        case ("lose" | "lose applied" as how, _, _):
            lost: list[WriteZnodes] = []

            def lose(effect: WriteZnodes) -> Loss | None:
                lost.append(effect)
                return (Loss.APPLIED if how == "lose applied" else Loss.NOT_APPLIED) if len(lost) == 1 else None

            world.losing = lose
        case ("crash", _, _):
            world.crash()
            world.elect()
        case ("ask to stop", int(broker), _):
            world.request(ControlledShutdownRequest(BrokerId(broker), NO_EPOCH))
        case ("alter", int(broker), str(name)):
            epoch = next((b.epoch for b in world.context.cluster.brokers.values() if b.id == broker), NO_EPOCH)
            row = AlterPartition(0, 0, (broker,), RecoveryState.RECOVERED, 0)
            rows = (AlterPartitionTopic(name, None, (row,)),)
            world.request(AlterPartitionRequest(BrokerId(broker), epoch, rows), version=1)
        case ("wait", int(ms), _):
            world.advance(ms)
        case _:
            pass


def played(actions: list[tuple[str, object, object]], batched: list[bool]) -> OneController:
    """A world in which all this has happened; invariants are checked after every event."""
    world = OneController()
    for broker in BROKERS:
        world.start_broker(broker)
    world.elect()
    for number, action in enumerate(actions):
        act(world, action)
        if not batched[number % len(batched)]:
            world.run()
    world.run()
    return world


def heal(world: OneController) -> None:
    """Everything is repaired, and time passes. Who was silent has lost what it was asked, so it is started again."""
    world.answer, world.losing = consent, lambda _: None
    for broker in BROKERS:
        if broker in world.silent and broker in world.sessions:
            world.stop_broker(broker)
        if broker not in world.sessions:
            world.start_broker(broker)
    world.silent.clear()
    for broker in BROKERS:
        cluster = world.context.cluster
        # A broker that has asked to stop leads nothing until it is registered anew.
        is_to_restart = bool(cluster.outstanding) or broker in cluster.shutting_down
        if broker in world.sessions and broker in cluster.brokers and is_to_restart:
            world.stop_broker(broker)
            world.start_broker(broker)
    world.run()
    for _ in range(4):
        world.advance(120_000)


@settings(max_examples=100, deadline=None)
@given(actions=st.lists(ACTIONS, max_size=14), batched=st.lists(st.booleans(), min_size=1, max_size=4))
def test_every_request_of_a_broker_is_answered_exactly_once(
    actions: list[tuple[str, object, object]], batched: list[bool]
) -> None:
    world = played(actions, batched)
    assert world.context.cluster.unanswered == {}
    assert [len(answers) for answers in world.replies.values()] == [1] * len(world.replies)


@settings(max_examples=150, deadline=None)
@given(actions=st.lists(ACTIONS, max_size=14), batched=st.lists(st.booleans(), min_size=1, max_size=4))
def test_after_any_trouble_every_deletion_is_done_and_memory_agrees_with_the_znodes(
    actions: list[tuple[str, object, object]], batched: list[bool]
) -> None:
    world = played(actions, batched)
    heal(world)
    assert world.context.role is Role.ACTIVE
    assert world.zookeeper.children(paths.delete_topics()) == ()
    assert world.context.cluster.deletions == {}
    assert sorted(world.context.cluster.topics) == list(world.zookeeper.children(paths.broker_topics()))
    assert gauges(world.context).offline_partitions_count == 0
    for tp, partition in world.context.cluster.all_partitions():
        found = world.read(paths.partition_state(*tp))
        assert found is not None
        assert partition.leader_and_isr is not None
        assert partition.leader_and_isr.leader in partition.leader_and_isr.isr
        assert partition.leader_and_isr.partition_epoch == found.stat.version


@settings(max_examples=100, deadline=None)
@given(actions=st.lists(ACTIONS, max_size=12), batched=st.lists(st.booleans(), min_size=1, max_size=4))
def test_a_topic_that_is_not_done_says_why_and_names_somebody_who_is_to_blame(
    actions: list[tuple[str, object, object]], batched: list[bool]
) -> None:
    world = played(actions, batched)
    for topic in world.context.cluster.deletions:
        found = waits(world.context, topic)
        assert found
        for wait in found:
            match wait.waiting_for:
                case CauseKind.BROKER_TO_RETURN:
                    assert wait.broker not in world.sessions
                case CauseKind.BROKER_ERROR:
                    assert wait.last_error
                case CauseKind.TURN:
                    raise AssertionError("nothing is outstanding, and yet its turn has not come")
                case _:
                    assert wait.broker in world.sessions


@settings(max_examples=60, deadline=None)
@given(actions=st.lists(ACTIONS, max_size=10), batched=st.lists(st.booleans(), min_size=1, max_size=4))
def test_the_same_life_tells_the_same_story(actions: list[tuple[str, object, object]], batched: list[bool]) -> None:
    one, two = played(actions, batched), played(actions, batched)
    assert one.take_story() == two.take_story()
    assert one.records == two.records
    assert one.context == two.context
    assert one.zookeeper.digest() == two.zookeeper.digest()


@settings(max_examples=40, deadline=None)
@given(actions=st.lists(ACTIONS, max_size=8))
def test_a_copy_of_a_context_stepped_the_same_way_stays_equal(actions: list[tuple[str, object, object]]) -> None:
    stepped: list[object] = []
    original = controller.step

    def step_both(context: object, event: object, now_ms: int) -> object:
        twin = copy.deepcopy(context)
        effects = original(context, event, now_ms)  # type: ignore[arg-type]
        assert original(twin, event, now_ms) == effects  # type: ignore[arg-type]
        assert twin == context
        stepped.append(event)
        return effects

    controller.step = step_both  # type: ignore[assignment]
    try:
        played(actions, [False])
    finally:
        controller.step = original
    assert stepped
