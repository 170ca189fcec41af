"""`lethe explain` names the right cause, each of them set up for real: with the controller's word, and without it."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Awaitable, Callable

import pytest

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.controllers import ask_controller
from lethe.admin.refusal import Exit
from lethe.admin.topic_plans import TopicPlan
from lethe.cli.answer import Answer
from lethe.cli.explain import explained
from lethe.cluster.daemons import ControllerDaemon
from lethe.cluster.local import ClusterSettings, LocalCluster
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, ReplicaAssignment, TopicId, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Data, Delete, Exists, GetData, Present, SetData
from lethe.protocol.zookeeper.znodes import (
    DeletionOrders,
    DeletionsPaused,
    TopicZnode,
    encode_broker,
    encode_config,
    encode_deletion_marker,
    encode_deletions_paused,
    encode_reassignment,
    encode_topic,
)
from lethe.survey.evidence import ControllerReport
from lethe.survey.explain import CLEAN
from tests.fakes.broken_broker import ErringBroker, TombstoneRefuser
from tests.fakes.command_line import Lethe
from tests.fakes.zookeeper_cluster import apply

pytestmark = [pytest.mark.zookeeper, pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(600)]

LIMIT_S = 120.0
Named = tuple[str, int | None]


async def until(condition: Callable[[], Awaitable[bool]], what: Callable[[], str]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not await condition():
        assert time.monotonic() < deadline, f"not within {LIMIT_S:g} s: {what()}"
        await asyncio.sleep(0.05)


async def there_is(session: ZooKeeperSession, path: str) -> bool:
    (found,) = await session.read([Exists(path)])
    return isinstance(found, Present)


async def create(session: ZooKeeperSession, cluster: LocalCluster, **topics: tuple[tuple[int, ...], ...]) -> None:
    """Creates them and waits until every one has its states, and its directories on this cluster's agents."""
    plans = [TopicPlan(name, TopicId(uuid.uuid4()), assignment) for name, assignment in topics.items()]
    assert [outcome.problem for outcome in await topic_znodes.create_topics(session, plans)] == [None] * len(plans)
    wanted = {
        (broker, f"{plan.name}-{partition}")
        for plan in plans
        for partition, replicas in enumerate(plan.assignment)
        for broker in replicas
    }
    dirs = cluster.log_dirs

    async def is_everywhere() -> bool:
        on_disk = {(broker, d.name) for broker, roots in dirs.items() for root in roots for d in root.glob("*-*")}
        states = [await there_is(session, paths.partition_state(plan.name, 0)) for plan in plans]
        return all(states) and {each for each in wanted if each[0] in dirs} <= on_disk

    await until(is_everywhere, lambda: f"{[*topics]} are everywhere")


async def mark(session: ZooKeeperSession, *topics: str) -> None:
    await apply(session, *(Create(paths.delete_topic(topic), None) for topic in topics))


async def answer_for(session: ZooKeeperSession, topic: str, controller: ControllerDaemon | None) -> Answer:
    reported = ControllerReport(problem="it was not to be asked")
    if controller is not None:
        assert controller.http_url is not None
        reported = await ask_controller(controller.http_url, topic, 60_000)
        assert reported.is_known, reported.problem
    return await explained(session, PLAINTEXT_REACH, topic, reported=reported, timeout_ms=500)


def causes_in(answer: Answer) -> dict[Named, str]:
    """The causes named in the JSON document, each with its sentence."""
    document = json.loads(json.dumps(answer.data))
    (topic,) = document["topics"]
    return {(cause["cause"], cause["broker"]): cause["sentence"] for cause in topic["causes"]}


async def names(
    session: ZooKeeperSession, topic: str, *wanted: Named, controller: ControllerDaemon | None = None
) -> Answer:
    """Waits until exactly these causes are named; each has its sentence in the readable text too."""
    answers: list[Answer] = []

    async def is_named() -> bool:
        answers[:] = [await answer_for(session, topic, controller)]
        return set(causes_in(answers[0])) == set(wanted)

    await until(is_named, lambda: f"{wanted}, but {[*causes_in(answers[0])]}: {answers[0].lines}")
    text = "\n".join(answers[0].lines)
    for said in causes_in(answers[0]).values():
        assert said.split(" (")[0] in text
    return answers[0]


async def has_gone(session: ZooKeeperSession, topic: str) -> bool:
    return (await explained(session, PLAINTEXT_REACH, topic)).exit is Exit.NO


async def test_causes_that_are_brokers(zookeeper_chroot: str) -> None:
    settings = ClusterSettings(
        controllers=1,
        brokers=3,
        zookeeper_connect=zookeeper_chroot,
        session_timeout_ms=12_000,
        broker_properties={"log.segment.delete.delay.ms": "600000"},
    )
    async with LocalCluster(settings) as cluster, cluster.session() as session, ErringBroker() as erring:
        registration = encode_broker(Broker(BrokerId(4), BrokerEpoch(-1), (erring.endpoint,)), timestamp_ms=1)
        await apply(session, Create(paths.broker_id(4), registration, ephemeral=True))
        controller = await cluster.active_controller()
        await create(session, cluster, erring=((4,),), disk=((1,),) * 4, silent=((2,),), dead=((2, 3),))

        await mark(session, "erring")
        wanted = ("broker_error", 4)
        await names(session, "erring", wanted, controller=controller)

        async def is_tried_again() -> bool:
            answer = await answer_for(session, "erring", controller)
            (replica,) = json.loads(json.dumps(answer.data))["topics"][0]["replicas"]
            return replica["attempts"] > 1 and "UNKNOWN_SERVER_ERROR" in replica["last_error"]

        await until(is_tried_again, lambda: "the controller tells of its attempts and the error")
        await names(session, "erring", wanted)

        lost = next(path for path in cluster.log_dirs[1] if list(path.glob("disk-*")))
        lost.rename(lost.with_name("elsewhere"))
        lost.write_text("a file where a directory was")
        await mark(session, "disk")
        for asked_controller in (controller, None):
            answer = await names(session, "disk", ("log_directory", 1), controller=asked_controller)
            assert str(lost) in "\n".join(answer.lines)

        cluster.broker(2).pause()
        try:
            await mark(session, "silent")
            await names(session, "silent", ("broker_silent", 2), controller=controller)
            await names(session, "silent", ("broker_silent", 2))
        finally:
            cluster.broker(2).resume()

        await cluster.broker(3).kill()
        await mark(session, "dead")
        for asked_controller in (controller, None):
            await names(session, "dead", ("broker_to_return", 3), controller=asked_controller)
        lethe = Lethe(cluster.zookeeper_connect)
        ran = await lethe("explain", "dead", "--without-controller")
        assert ran.code == Exit.WAITS
        assert "dead waits for broker 3, which is not registered in ZooKeeper: start broker 3 with its disks" in ran.out
        backlog = await lethe("explain", "--all", "--json")
        assert {"erring", "disk", "dead"} <= {topic["topic"] for topic in backlog.data["topics"]}
        assert backlog.data["controller"]["told"] is True
        await cluster.broker(3).start()
        # Deleted, and the bytes stay for log.segment.delete.delay.ms. What lay on broker 2 has waited since before.
        await names(session, "dead", ("reclaiming", 2), ("reclaiming", 3))


async def test_causes_that_hold_everything(zookeeper_chroot: str) -> None:
    settings = ClusterSettings(
        controllers=1,
        brokers=1,
        zookeeper_connect=zookeeper_chroot,
        session_timeout_ms=4_000,
        broker_properties={"log.segment.delete.delay.ms": "1"},
    )
    async with LocalCluster(settings) as cluster, cluster.session() as session:
        controller = await cluster.active_controller()
        await create(
            session, cluster, plain=((1,),), paused=((1,),), moving=((1,),), half=((1,), (1,)), waiting=((1,),)
        )
        await mark(session, "plain")
        await until(lambda: has_gone(session, "plain"), lambda: "plain is gone")
        gone = await Lethe(cluster.zookeeper_connect)("explain", "plain")
        assert (gone.code, gone.out) == (Exit.NO, f"There is no topic plain, and no trace of one: {CLEAN}.\n")

        await session.ensure_path(paths.lethe())
        pause = Create(paths.deletions_paused(), encode_deletions_paused(DeletionsPaused(1, "an audit")))
        await apply(session, pause)
        await mark(session, "paused")
        answer = await names(session, "paused", ("resumption", None), controller=controller)
        assert "an audit" in "\n".join(answer.lines)
        assert "resume-deletions" in "\n".join(answer.lines)

        await apply(session, Create(paths.topic("unreadable"), b"nonsense"))
        await mark(session, "unreadable")
        both: tuple[Named, ...] = (("resumption", None), ("readable_znode", None))
        await names(session, "unreadable", *both, controller=controller)
        await apply(session, Delete(paths.deletions_paused()))
        await names(session, "unreadable", ("readable_znode", None), controller=controller)
        await names(session, "unreadable", ("readable_znode", None))
        await names(session, "paused", controller=controller)

        await controller.kill()

        async def is_free() -> bool:
            return not await there_is(session, paths.CONTROLLER)

        await until(is_free, lambda: "/controller is free")
        none: Named = ("no_controller", None)
        await mark(session, "waiting", "moving", "half", "ghost")
        order = encode_deletion_marker(DeletionOrders(unreadable=True))
        await apply(session, Delete(paths.delete_topic("unreadable")), Create(paths.delete_topic("unreadable"), order))
        answer = await names(session, "unreadable", none, ("unreadable_ordered", None))
        assert "lethe controller" in "\n".join(answer.lines)
        await names(session, "waiting", none)
        await names(session, "ghost", none, ("marker_without_topic", None))
        await apply(session, pause)
        await names(session, "waiting", none, ("resumption", None))
        await apply(session, Delete(paths.deletions_paused()))
        # As a controller leaves it that died while it moved a replica to a broker that is not there.
        await apply(session, *await _half_moved(session, "moving"))
        answer = await names(session, "moving", none, ("reassignment", None), ("broker_to_return", 9))
        assert "brokers 9" in "\n".join(answer.lines)
        for partition in (0, 1):
            await apply(session, Delete(paths.partition_state("half", partition)))
        answer = await names(session, "half", none, ("half_deleted", None))
        assert "partitions 0, 1 have no state" in "\n".join(answer.lines)

        # The next controller ends what no broker that never was is needed for.
        await controller.start()
        for topic in ("waiting", "half", "ghost", "unreadable"):
            await names(session, topic)


async def _half_moved(session: ZooKeeperSession, topic: str) -> tuple[Create | SetData, ...]:
    (found,) = await session.read([GetData(paths.topic(topic))])
    assert isinstance(found, Data)
    znode = TopicZnode({0: ReplicaAssignment((9, 1), (9,), (1,))}, None)
    return (
        SetData(paths.topic(topic), encode_topic(znode), ANY_VERSION),
        Create(paths.REASSIGN_PARTITIONS, encode_reassignment({TopicPartition(topic, 0): (9,)})),
    )


async def test_a_deletion_that_is_disabled(zookeeper_chroot: str) -> None:
    settings = ClusterSettings(
        controllers=1,
        brokers=1,
        zookeeper_connect=zookeeper_chroot,
        controller_properties={"delete.topic.enable": "false"},
    )
    async with LocalCluster(settings) as cluster, cluster.session() as session:
        controller = await cluster.active_controller()
        await create(session, cluster, orders=((1,),))
        await mark(session, "orders")
        disabled: Named = ("disabled", None)
        await names(session, "orders", disabled, controller=controller)
        assert not await there_is(session, paths.delete_topic("orders"))
        # From outside only the dynamic configuration is to be seen.
        await names(session, "orders", ("not_marked", None))
        config = encode_config({"delete.topic.enable": "false"})
        await apply(session, Create(paths.config_broker_default(), config))
        answer = await names(session, "orders", disabled)
        assert paths.config_broker_default() in "\n".join(answer.lines)


@pytest.mark.parametrize("where", ["default", pytest.param("own", marks=pytest.mark.long)])
async def test_a_pause_that_the_controller_holds_itself(zookeeper_chroot: str, where: str) -> None:
    settings = ClusterSettings(
        controllers=1,
        brokers=1,
        zookeeper_connect=zookeeper_chroot,
        session_timeout_ms=4_000,
        broker_properties={"log.segment.delete.delay.ms": "100"},
    )
    async with LocalCluster(settings) as cluster, cluster.session() as session:
        controller = await cluster.active_controller()
        await create(session, cluster, orders=((1,),))
        await controller.stop()
        path = paths.config_broker_default() if where == "default" else paths.config_broker(controller.id)
        await session.ensure_path(path)
        await apply(session, SetData(path, b"{", ANY_VERSION))
        await controller.start()
        await cluster.active_controller()
        lethe = Lethe(cluster.zookeeper_connect)
        said = f"wait for the brokers' configuration {path} to be readable"
        helps = (
            f"save a copy of the znode {path}, then repair it, or remove it with all settings in it; then have the "
            "controller read it again: lethe controller-resign. All marked topics are deleted then, unless "
            "delete.topic.enable is false; that znode may have set it"
        )

        waited = await lethe("topics", "delete", "--topic", "orders", "--wait", "--timeout-ms", "2000")
        assert waited.code == Exit.TIMED_OUT
        one, backlog, resumed = [
            await lethe(*words)
            for words in (("explain", "orders"), ("explain", "--all", "--json"), ("topics", "resume-deletions"))
        ]
        assert (one.code, backlog.code, resumed.code) == (Exit.WAITS, Exit.WAITS, Exit.WAITS)
        for text in (waited.out, waited.err, one.out, resumed.out):
            shown = " ".join(text.split()).replace("waits for", "wait for")
            assert said in shown
            assert helps in shown
        (topic,) = backlog.data["topics"]
        assert [cause["cause"] for cause in topic["causes"]] == ["configuration"]
        unasked = await lethe("explain", "orders", "--without-controller")
        assert "orders may " + said in unasked.out
        assert unasked.code == Exit.WAITS

        await apply(session, Delete(path))
        resigned = await lethe("controller-resign")
        assert resigned.code == 0, resigned.err
        await until(lambda: has_gone(session, "orders"), lambda: "orders is gone")


@pytest.mark.parametrize(
    "error", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.STALE_CONTROLLER_EPOCH], ids=lambda error: error.name
)
async def test_an_error_that_answers_the_tombstone_is_no_silence(zookeeper_chroot: str, error: ErrorCode) -> None:
    settings = ClusterSettings(controllers=1, brokers=2, zookeeper_connect=zookeeper_chroot)
    async with LocalCluster(settings) as cluster, cluster.session() as session, TombstoneRefuser(error) as refuser:
        registration = encode_broker(Broker(BrokerId(4), BrokerEpoch(-1), (refuser.endpoint,)), timestamp_ms=1)
        await apply(session, Create(paths.broker_id(4), registration, ephemeral=True))
        await cluster.active_controller()
        await create(session, cluster, orders=((1, 2),))
        await mark(session, "orders")
        lethe = Lethe(cluster.zookeeper_connect)
        said: list[str] = []

        async def is_told() -> bool:
            ran = await lethe("explain", "orders")
            said[:] = [" ".join(ran.out.split())]
            return ran.code == Exit.WAITS and error.name in said[0]

        await until(is_told, lambda: f"the error is told: {said}")
        assert "waits for broker 4" in said[0]
        assert "has not answered" not in said[0]
