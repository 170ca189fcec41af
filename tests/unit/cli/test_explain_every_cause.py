"""Every cause that a controller tells reaches `lethe explain`, `topics delete --wait`, the board and the metrics.

Each is arranged in a core, whose documents go the way that they go between processes: as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from lethe.admin.controllers import parse_explanation
from lethe.admin.refusal import Exit
from lethe.cli.explain_show import in_short, many, one
from lethe.controller.core.cluster_state import LastResponse
from lethe.controller.core.deletion_memory import HeldTopic
from lethe.controller.core.mutation import queue_deletion
from lethe.controller.core.waiting import waits
from lethe.controller.runtime.board.view import details
from lethe.controller.runtime.brokers import ChannelProblem
from lethe.controller.runtime.explanation import explain_topic, with_access
from lethe.controller.runtime.sources import oldest_view
from lethe.protocol.cause_groups import FROM_CONTROLLER, NOT_WAITED_FOR
from lethe.protocol.causes import HELD_BY, CauseKind, sentence
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.versions import InterBrokerProtocol
from lethe.protocol.vocabulary import BrokerId, Endpoint, SecurityProtocol, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete, ZkError
from lethe.protocol.zookeeper.znodes import ForgetRequest, OfflineReplicas, encode_forget_request
from lethe.survey.explain import DeletionVerdict, explain
from tests.fakes.marked_topic import ORDERS, evidence
from tests.fakes.one_controller import OneController, Refusing
from tests.scenarios.plot import cluster, with_topic

BEFORE_IDS = InterBrokerProtocol.parse("2.5")
World = Callable[[], OneController]


def stored() -> OneController:
    return with_topic(cluster(1, 2), "orders", (1, 2))


def marked(world: OneController) -> OneController:
    world.mark("orders")
    world.run()
    return world


def silent() -> OneController:
    world = stored()
    world.silent = {2: None}
    return world


def held(kind: CauseKind) -> World:
    def world() -> OneController:
        world = stored()
        world.context.cluster.marks["orders"] = HeldTopic(5, kind, "why")
        return world

    return world


def paused() -> OneController:
    world = stored()
    world.write(Create(paths.lethe(), None), Create(paths.deletions_paused(), b'{"version":1,"reason":"disk"}'))
    world.run()
    return marked(world)


def configuration_is_spoilt() -> OneController:
    world = stored()
    world.crash()
    world.write(Create(paths.config_broker_default(), b"{"))
    world.mark("orders")
    world.elect()
    return world


def away() -> OneController:
    world = marked(silent())
    world.stop_broker(2)
    world.run()
    return world


def epochs_unknown() -> OneController:
    world = cluster(1, 2, world=OneController(ibp=BEFORE_IDS, offline_replicas=OfflineReplicas.OWE))
    with_topic(world, "orders", (1, 2))
    world.stop_broker(2)
    world.run()
    world.crash()
    world.write(Delete(paths.partition_state("orders", 0)))
    world.mark("orders")
    world.elect()
    return world


def owed() -> OneController:
    world = cluster(1, 2, world=OneController(offline_replicas=OfflineReplicas.OWE))
    with_topic(world, "orders", (1, 2))
    world.silent = {1: None}
    world.stop_broker(2)
    world.run()
    return marked(world)


def given_up() -> OneController:
    """Broker 2 is given up while broker 1 is away too."""
    world = stored()
    world.stop_broker(1)
    world.stop_broker(2)
    marked(world)
    world.write(Create(paths.LETHE, None), Create(paths.FORGET, None))
    world.write(Create(paths.forget(2), encode_forget_request(ForgetRequest())))
    world.run()
    return world


def unreadable_registration() -> OneController:
    world = away()
    world.write(Create(paths.broker_id(BrokerId(2)), b"{"))
    world.run()
    return world


def shutting_down() -> OneController:
    world = silent()
    world.context.cluster.shutting_down[BrokerId(2)] = None
    return marked(world)


def on_a_failed_disk() -> OneController:
    world = stored()
    world.context.cluster.offline_dirs[BrokerId(2)] = {TopicPartition("orders", 0): None}
    return marked(world)


def answered(error: ErrorCode) -> World:
    def world() -> OneController:
        world = marked(silent())
        broker = world.context.cluster.brokers[BrokerId(2)]
        world.context.cluster.last_answers[broker.id] = LastResponse(broker.epoch, error, world.now_ms, world.now_ms)
        return world

    return world


def not_spoken() -> OneController:
    world = marked(silent())
    broker = world.context.cluster.brokers[BrokerId(2)]
    world.context.cluster.brokers[broker.id] = replace(
        broker, endpoints=(Endpoint("SSL", "b2", 1, SecurityProtocol.SSL),)
    )
    return world


def erring() -> OneController:
    world = stored()
    world.answer = Refusing(2, ErrorCode.UNKNOWN_SERVER_ERROR)
    return marked(world)


def owing_a_tombstone() -> OneController:
    world = with_topic(cluster(1, 2, 3), "orders", (1, 2))
    world.silent = {3: None}
    return marked(world)


def others_first() -> OneController:
    world = with_topic(cluster(1, 2, 3), "orders", (1, 2), (1, 3))
    world.silent = {2: None}
    world.stop_broker(3)
    marked(world)
    world.start_broker(3)
    world.run()
    return world


def not_begun() -> OneController:
    world = silent()
    queue_deletion(world.context.cluster, "orders", world.now_ms)
    return world


def znodes() -> OneController:
    world = stored()
    world.refusals[paths.config_topic("orders")] = ZkError.NO_AUTH
    return marked(world)


def never_led() -> OneController:
    world = marked(silent())
    world.context.cluster.topics["orders"].partitions[0].leader_and_isr = None
    return world


WORLDS: Mapping[CauseKind, World] = {
    CauseKind.RESUMPTION: paused,
    CauseKind.CONFIGURATION: configuration_is_spoilt,
    **{kind: held(kind) for kind in HELD_BY.values() if kind not in (CauseKind.RESUMPTION, CauseKind.CONFIGURATION)},
    CauseKind.HALF_DELETED: never_led,
    CauseKind.BROKER_TO_RETURN: away,
    CauseKind.CANNOT_BE_OWED: epochs_unknown,
    CauseKind.TO_BE_OWED: owed,
    CauseKind.BROKER_GIVEN_UP: given_up,
    CauseKind.REGISTRATION_UNREADABLE: unreadable_registration,
    CauseKind.BROKER_TO_FINISH_SHUTDOWN: shutting_down,
    CauseKind.LOG_DIRECTORY: on_a_failed_disk,
    CauseKind.BROKER_REFUSES_EPOCH: answered(ErrorCode.STALE_CONTROLLER_EPOCH),
    CauseKind.BROKER_REFUSES_CONTROLLER: answered(ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    CauseKind.BROKER_NOT_SPOKEN: not_spoken,
    CauseKind.BROKER_NO_ACCESS: silent,
    CauseKind.BROKER_ERROR: erring,
    CauseKind.ANSWER: silent,
    CauseKind.TOMBSTONE_ANSWER: owing_a_tombstone,
    CauseKind.OTHER_REPLICAS: others_first,
    CauseKind.TURN: not_begun,
    CauseKind.ZNODES: znodes,
    CauseKind.DONE: silent,
}
REFUSED = ChannelProblem("login", "broker:9092 refuses user lethe", 3, 1_000)
FOLLOWS = (CauseKind.OTHER_REPLICAS, CauseKind.TURN, *NOT_WAITED_FOR)
"""Named only where nothing else is."""


def opening(kind: CauseKind, broker: int) -> str:
    """The sentence as far as it is the same whatever is known of the case."""
    return sentence(kind, "orders", broker=broker, path="/x").split(" (in /x")[0].split(" /x")[0]


@pytest.mark.parametrize("kind", FROM_CONTROLLER, ids=lambda kind: kind.name)
def test_a_cause_is_told_everywhere(kind: CauseKind) -> None:
    world = WORLDS[kind]()
    if kind in (CauseKind.ANSWER, CauseKind.DONE, CauseKind.BROKER_NO_ACCESS):
        marked(world)
    problems = {BrokerId(2): REFUSED} if kind is CauseKind.BROKER_NO_ACCESS else {}
    document: Any = json.loads(json.dumps(explain_topic(world.context, "orders", problems, world.now_ms)))
    (topic,) = document["topics"]
    told_rows = (*topic["replicas"], *topic["causes"])
    rows = [row for row in told_rows if kind.name in (row.get("waiting_for"), row.get("cause"))]
    assert rows, "the controller's documents, and with them the board's dialog, do not tell it"
    assert all(row["unblock"] for row in rows) is (kind not in NOT_WAITED_FOR)
    broker = next((row["broker"] for row in rows if row["broker"] is not None), 0)

    is_topic_there = kind is not CauseKind.MARKER_WITHOUT_TOPIC
    tree = evidence(topic=ORDERS if is_topic_there else None, reported=parse_explanation(document), brokers=(1, 2, 3))
    if kind is CauseKind.HALF_DELETED:
        tree = evidence(topic=replace(ORDERS, states={}), reported=parse_explanation(document), brokers=(1, 2, 3))
    found = explain(tree, "orders")
    if kind not in FOLLOWS:
        assert kind in [cause.kind for cause in found.causes]
        assert opening(kind, broker) in "\n".join(one(tree, found).lines)
        assert any(opening(kind, broker) in text for text in in_short(found))
        if kind not in (CauseKind.HALF_DELETED, CauseKind.MARKER_WITHOUT_TOPIC):
            assert found.verdict is DeletionVerdict.WAITING
            assert one(tree, found).exit is many(tree, [found]).exit is Exit.WAITS

    if kind in (*NOT_WAITED_FOR, CauseKind.HALF_DELETED):
        return
    assert kind in [with_access(wait, problems).waiting_for for wait in waits(world.context, "orders")]
    if kind not in FOLLOWS:
        card = details(world.context, "orders", problems)
        assert card["cause"] == kind.name
        view = oldest_view(world.context, world.now_ms)
        assert view is not None
        # The metric has what the core knows.
        assert view.reason == (CauseKind.ANSWER if kind is CauseKind.BROKER_NO_ACCESS else kind).name


def test_every_cause_of_the_controller_is_arranged() -> None:
    assert set(WORLDS) == set(FROM_CONTROLLER)
