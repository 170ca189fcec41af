"""What deletions wait for, in the log: once for each cause, however many topics wait for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from lethe.controller.core.context import Context
from lethe.controller.core.waiting import Wait, goes_on, is_undisturbed, marked_topics, waits
from lethe.controller.runtime.blockers import (
    LASTS_MS,
    Blocked,
    Blocker,
    BlockerLog,
    collect,
    collect_owed,
    examine_slice,
    log_pass,
)
from lethe.controller.runtime.brokers import ChannelProblem
from lethe.controller.runtime.recorder import LEVELS
from lethe.protocol import causes
from lethe.protocol.causes import CauseKind
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import BrokerId, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ZkError
from tests.fakes.one_controller import OneController, Refusing, consent
from tests.fakes.runtime import ManualClock
from tests.scenarios.plot import cluster, with_topic

NOW_MS = 1_000_000
THREE = Blocker(CauseKind.BROKER_TO_RETURN, BrokerId(3))


def away(topic: str, since_ms: int = NOW_MS - LASTS_MS, partition: int = 0) -> Wait:
    return Wait(topic, CauseKind.BROKER_TO_RETURN, since_ms, partition, BrokerId(3))


def collected(*topics: str) -> dict[Blocker, Blocked]:
    found: dict[Blocker, Blocked] = {}
    for topic in topics:
        collect(found, [away(topic), away(topic, partition=1)], NOW_MS)
    return found


def test_a_cause_is_told_once_and_its_end_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = BlockerLog()
    topics = [f"t-{number}" for number in range(1_500)]
    log.tell(collected(*topics))
    log.tell(collected(*topics, "one-more"))
    (warned,) = caplog.records
    assert warned.levelno == logging.WARNING
    assert warned.getMessage().startswith(
        "1,500 topics (t-0, t-1, t-2, …): each waits for broker 3, which is not registered in ZooKeeper: start broker 3"
    )
    log.tell({})
    log.tell({})
    assert len(caplog.records) == 2
    assert (
        caplog.records[1]
        .getMessage()
        .startswith("no topic has this cause any more: waits for broker 3, which is not registered")
    )
    log.tell(collected("again"))
    assert caplog.records[2].getMessage().startswith("topic again waits for broker 3")


def test_topics_are_counted_and_replicas_are_not() -> None:
    found = collected("a", "b")
    assert (found[THREE].topics, found[THREE].names) == (2, ["a", "b"])


def test_what_has_not_lasted_is_no_blocker() -> None:
    found: dict[Blocker, Blocked] = {}
    collect(found, [away("a", NOW_MS - LASTS_MS + 1)], NOW_MS)
    collect(found, [Wait("a", CauseKind.OTHER_REPLICAS, 0, 0, BrokerId(1)), Wait("a", CauseKind.DONE, 0)], NOW_MS)
    assert found == {}


def test_a_broker_that_left_in_a_deletion_is_a_blocker() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    world.silent[2] = None
    world.mark("t")
    world.run()
    world.stop_broker(2)
    world.run()
    found: dict[Blocker, Blocked] = {}
    collect(found, waits(world.context, "t"), world.now_ms + LASTS_MS)
    assert list(found) == [Blocker(CauseKind.BROKER_TO_RETURN, BrokerId(2))]


def test_an_error_has_not_ended_while_the_request_is_repeated(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = BlockerLog()
    world = with_topic(cluster(), "t", (1, 2))

    def look() -> list[str]:
        found: dict[Blocker, Blocked] = {}
        collect(found, waits(world.context, "t"), world.now_ms)
        log.tell(found)
        return [record.getMessage() for record in caplog.records]

    world.answer = Refusing(2, ErrorCode.UNKNOWN_SERVER_ERROR)
    world.mark("t")
    world.run()
    assert look() == []
    world.now_ms += LASTS_MS
    (warned,) = look()
    assert warned.startswith("topic t waits for broker 2, which answers with an error")

    world.silent[2] = None
    world.advance(world.context.config.retry_max_ms)
    assert [(wait.waiting_for, wait.broker) for wait in waits(world.context, "t")] == [(CauseKind.ANSWER, 2)]
    assert look() == [warned], "the repeated request has no answer"
    world.stop_broker(2)
    world.run()
    assert look() == [warned], "no answer can be seen while the broker is away"

    world.silent.clear()
    world.answer = consent
    world.start_broker(2)
    world.run()
    assert waits(world.context, "t") == ()
    assert look()[1:] == [
        "no topic has this cause any more: waits for broker 2, which answers with an error (UNKNOWN_SERVER_ERROR)"
    ]


def test_another_controller_tells_from_its_election_on(caplog: pytest.LogCaptureFixture) -> None:
    log = BlockerLog()
    log.begin(1)
    log.tell(collected("a"))
    log.begin(None)
    log.begin(1)
    log.tell(collected("a"))
    assert len(caplog.records) == 2


def test_a_controller_that_is_elected_again_says_of_no_cause_that_it_has_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    world, log, clock = with_topic(cluster(1, 2), "t", (1, 3)), BlockerLog(), ManualClock()

    async def context() -> Context:
        return world.context

    def look(_: object = None) -> None:
        # A pass seldom falls into the moment in which nobody leads.
        if world.context.is_leading:
            clock.ms = world.now_ms
            asyncio.run(log_pass(log, context, dict, clock))

    world.mark("t")
    world.run()
    world.advance(LASTS_MS)
    look()
    world.crash()
    world.meanwhile = look
    world.elect()
    look()
    world.advance(LASTS_MS)
    look()
    assert [record.getMessage()[:29] for record in caplog.records] == ["topic t waits for broker 3, w"] * 2


def test_a_broker_where_the_login_fails_is_not_called_silent(caplog: pytest.LogCaptureFixture) -> None:
    world = with_topic(cluster(), "t", (1, 2))
    world.silent[2] = None
    world.mark("t")
    world.run()
    world.advance(LASTS_MS)
    clock = ManualClock()
    clock.ms = world.now_ms

    async def context() -> Context:
        return world.context

    problem = ChannelProblem("login", "b:9092 refuses user lethe; check its password", 4, 9_000)
    asyncio.run(log_pass(BlockerLog(), context, lambda: {BrokerId(2): problem}, clock))
    assert [record.getMessage() for record in caplog.records] == [
        f"topic t waits for broker 2, where TLS or the login of the controller fails ({problem.what}): "
        + causes.remedy(CauseKind.BROKER_NO_ACCESS, "t", broker=2)
    ]


def test_phases_of_each_topic_are_for_debugging() -> None:
    assert LEVELS[EventRecordType.DELETION_PHASE] == logging.DEBUG


def test_the_znode_that_has_to_be_repaired_is_named(caplog: pytest.LogCaptureFixture) -> None:
    found = {Blocker(CauseKind.CONFIGURATION, None): Blocked(1, ["a"], "not JSON", "/config/brokers/<default>")}
    BlockerLog().tell(found)
    assert caplog.records[0].getMessage().count("/config/brokers/<default>") == 2


def test_a_broker_that_still_owes_is_told_when_its_topics_no_longer_wait(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = with_topic(cluster(), "t", (1,))
    world.silent[2] = None
    world.mark("t")
    world.run()
    world.advance(world.context.config.tombstone_timeout_ms)
    found: dict[Blocker, Blocked] = {}
    collect_owed(found, world.context)
    log = BlockerLog()
    log.tell({Blocker(CauseKind.TOMBSTONE_ANSWER, BrokerId(2)): Blocked(1, ["t"])})
    log.tell(found)
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warned[1].startswith("topic t is gone from ZooKeeper, but broker 2 has not confirmed"), warned
    log.tell({})
    assert caplog.records[-1].getMessage() == "ended: broker 2 has confirmed what it owed, or is no longer registered"


def silent(world: OneController) -> None:
    world.silent[2] = None


def unregistered(world: OneController) -> None:
    world.stop_broker(2)


def failing(world: OneController) -> None:
    world.answer = Refusing(2, ErrorCode.UNKNOWN_SERVER_ERROR)


def without_rights(world: OneController) -> None:
    world.answer = Refusing(2, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def shutting_down(world: OneController) -> None:
    silent(world)
    world.context.cluster.shutting_down[BrokerId(2)] = None


def unremovable(world: OneController) -> None:
    world.refusals[paths.config_topic("t")] = ZkError.NO_AUTH


def waiting_for_the_tombstone(world: OneController) -> None:
    world.silent[3] = None


def on_a_failed_disk(world: OneController) -> None:
    world.context.cluster.offline_dirs[BrokerId(2)] = {TopicPartition("t", 0): None}


TROUBLES: list[Callable[[OneController], None]] = [
    *(silent, unregistered, failing, without_rights, shutting_down, unremovable),
    *(waiting_for_the_tombstone, on_a_failed_disk),
]


@pytest.mark.parametrize("later_ms", [0, LASTS_MS - 1, LASTS_MS])
@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda each: each.__name__)
def test_passing_over_topics_that_go_on_loses_no_blocker(
    trouble: Callable[[OneController], None], later_ms: int
) -> None:
    world = with_topic(with_topic(cluster(), "t", (1, 2), (2, 3)), "u", (1, 3))
    trouble(world)
    world.mark("t")
    world.mark("u")
    world.run()
    world.advance(later_ms)
    expected: dict[Blocker, Blocked] = {}
    for topic in marked_topics(world.context):
        collect(expected, waits(world.context, topic), world.now_ms)
    found: dict[Blocker, Blocked] = {}
    assert not examine_slice(found, world.context, iter(marked_topics(world.context)), {}, world.now_ms)
    assert found == expected
    if later_ms == LASTS_MS:
        assert found, "after this time each of these troubles blocks"


def test_topics_that_go_on_take_little_of_a_slice() -> None:
    world = cluster()
    silent(world)
    names = [f"t-{number}" for number in range(30)]
    for name in names:
        with_topic(world, name, *[(1, 2, 3)] * 100)
        world.mark(name)
    world.run()
    assert is_undisturbed(world.context)
    assert all(goes_on(world.context, name, world.now_ms - 1) for name in names)
    topics = iter(marked_topics(world.context))
    assert not examine_slice({}, world.context, topics, {}, world.now_ms)
    topics = iter(marked_topics(world.context))
    assert examine_slice({}, world.context, topics, {}, world.now_ms + LASTS_MS)
    assert len(list(topics)) == 30 - 7, "seven topics have more than 2,000 replicas"
