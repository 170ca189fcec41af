"""An agent's ISR proposals over real sockets and on a fake ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lethe.adapters.kafka.reach import PLAINTEXT_REACH, BrokerReach
from lethe.adapters.kafka.server import Close
from lethe.adapters.security.channel import ChannelSecurity
from lethe.adapters.security.login import SaslLogin
from lethe.broker.core.effects import IsrChange, ProposeIsr
from lethe.broker.core.inputs import IsrVerdict
from lethe.broker.runtime import isr_changes
from lethe.broker.runtime.isr_changes import IsrChanges
from lethe.protocol.kafka.control import Addressed
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from lethe.protocol.security.scram import ScramMechanism
from lethe.protocol.vocabulary import BrokerEpoch, Endpoint, LeaderAndIsr, SecurityProtocol, TopicId, TopicPartition
from lethe.protocol.zookeeper.operations import Create, Operation, SetData
from lethe.protocol.zookeeper.paths import isr_change_notifications, partition_state, topic
from lethe.protocol.zookeeper.znodes import TopicZnode, decode_isr_change, decode_state, encode_state, encode_topic
from tests.fakes.agents import agent_config, connected, running
from tests.fakes.listed_controller import listed_controller
from tests.fakes.runtime import reach
from tests.fakes.secure_broker import SecureBroker, scram
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.unit.broker.core.driver import ME, X, become, live, metadata

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
EPOCH = BrokerEpoch(77)


def change(topic_partition: TopicPartition = T0, topic_id: TopicId | None = X, leader_epoch: int = 5) -> IsrChange:
    return IsrChange(topic_partition, topic_id, leader_epoch, 0, (1, 2))


def altered(*rows: AlteredPartition, topic_id: TopicId | None = X) -> AlterPartitionResponse:
    name = "t" if topic_id is None else None
    return AlterPartitionResponse(0, (AlteredTopic(name, topic_id, rows),))


def created(
    zookeeper: FakeZooKeeper, *partitions: int, topic_id: TopicId | None = X, isr: tuple[int, ...] = (1,)
) -> None:
    """Topic `t`, led by broker 1 under epoch 5."""
    operations: list[Operation] = [
        *(Create(path, None) for path in ("/brokers", "/brokers/topics")),
        Create(topic("t"), encode_topic(TopicZnode({}, X))),
        Create(topic("t") + "/partitions", None),
    ]
    for partition in partitions:
        path = partition_state("t", partition)
        operations += [Create(path.rpartition("/")[0], None), Create(path, encode_state(LeaderAndIsr(1, 5, (1,), 3)))]
    model = zookeeper.model
    model.multi(model.open_session(), operations)


def state_of(zookeeper: FakeZooKeeper, partition: int = 0) -> LeaderAndIsr:
    node = zookeeper.model.node(partition_state("t", partition))
    assert node is not None
    state = decode_state("t", partition, node.data, node.version)
    assert state is not None
    return state


def notified(zookeeper: FakeZooKeeper) -> list[TopicPartition]:
    """What the notifications name; there may be none of them, and no place for them."""
    model, parent = zookeeper.model, isr_change_notifications()
    if model.node(parent) is None:
        return []
    found: list[TopicPartition] = []
    for name in model.children(parent):
        node = model.node(f"{parent}/{name}")
        assert node is not None
        found += decode_isr_change(name, node.data)
    return found


# --- through the controller ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("speaks,topic_id,version", [(3, X, 3), (2, X, 2), (0, X, 0), (3, None, 1)])
async def test_the_controller_is_asked_once_for_all(speaks: int, topic_id: TopicId | None, version: int) -> None:
    async with listed_controller(speaks) as controller:
        rows = (AlteredPartition(0, 0, ME, 5, (1, 2), 0, 8), AlteredPartition(1, ErrorCode.FENCED_LEADER_EPOCH))
        controller.answers += [altered(*rows, topic_id=topic_id if version > 1 else None)] * 2
        changes = IsrChanges(ME, PLAINTEXT_REACH, lambda: None)
        proposal = ProposeIsr((change(T0, topic_id), change(T1, topic_id)), EPOCH, controller.endpoint)
        for _ in range(2):
            first, second = await changes.propose(proposal)
            assert first.reason == ""
            assert (first.verdict, first.isr, first.partition_epoch) == (IsrVerdict.ACCEPTED, (1, 2), 8)
            assert second.verdict is IsrVerdict.GIVEN_UP
        header, request = controller.asked[0]
        assert (header.version, header.client_id) == (version, "1")
        assert isinstance(request, AlterPartitionRequest)
        assert (request.broker_id, request.broker_epoch) == (ME, EPOCH)
        assert len(controller.peers) == 1, "the connection is kept"
        await changes.close()


async def test_who_is_no_controller_any_more_is_connected_to_anew() -> None:
    async with listed_controller() as controller:
        controller.answers += [
            AlterPartitionResponse(ErrorCode.NOT_CONTROLLER),
            Close("it has lost control"),
            altered(AlteredPartition(0, 0, ME, 5, (1, 2), 0, 8)),
        ]
        changes = IsrChanges(ME, PLAINTEXT_REACH, lambda: None)
        found = [await changes.propose(ProposeIsr((change(),), EPOCH, controller.endpoint)) for _ in range(3)]
        assert [outcome.verdict for (outcome,) in found] == [
            IsrVerdict.UNANSWERED,
            IsrVerdict.UNANSWERED,
            IsrVerdict.ACCEPTED,
        ]
        assert "NOT_CONTROLLER" in found[0][0].reason
        assert len(controller.peers) == 3
        await changes.close()


async def test_a_controller_that_is_not_there() -> None:
    nowhere = Endpoint("PLAINTEXT", "127.0.0.1", 1)
    changes = IsrChanges(ME, PLAINTEXT_REACH, lambda: None)
    (outcome,) = await changes.propose(ProposeIsr((change(),), EPOCH, nowhere))
    assert outcome.verdict is IsrVerdict.UNANSWERED
    assert "cannot connect to 127.0.0.1:1" in outcome.reason


async def test_a_refused_right_or_login_is_logged_once_with_the_remedy(caplog: pytest.LogCaptureFixture) -> None:
    async def propose(endpoint: Endpoint, brokers: BrokerReach) -> None:
        changes = IsrChanges(ME, brokers, lambda: None)
        for _ in range(3):
            (outcome,) = await changes.propose(ProposeIsr((change(),), EPOCH, endpoint))
            assert outcome.verdict is IsrVerdict.UNANSWERED
        await changes.close()

    async with listed_controller() as controller:
        controller.answers += [AlterPartitionResponse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)] * 3
        await propose(controller.endpoint, PLAINTEXT_REACH)
        where = f"{controller.endpoint.host}:{controller.endpoint.port}"
    login = SaslLogin.scram(ScramMechanism.SHA_512, "agent", lambda: "wrong")
    secured = BrokerReach(None, {SecurityProtocol.SASL_PLAINTEXT: ChannelSecurity(login=login)})
    async with SecureBroker(mechanisms=scram(ScramMechanism.SHA_512, "agent", "right")).running() as port:
        await propose(Endpoint("INTERNAL", "127.0.0.1", port, SecurityProtocol.SASL_PLAINTEXT), secured)
    right, password = [record.getMessage() for record in caplog.records if record.name == isr_changes.__name__]
    beginning = "the controller takes no ISR changes of this agent: "
    remedy = "CLUSTER_AUTHORIZATION_FAILED for User:ANONYMOUS; grant it ClusterAction on the cluster"
    assert right == f"{beginning}{where}: {remedy}"
    assert password.startswith(f"{beginning}127.0.0.1:{port} (SASL_PLAINTEXT) refuses user agent with SCRAM-SHA-512: ")
    assert "wrong" not in password


# --- through ZooKeeper --------------------------------------------------------------------------------------------


async def proposed(
    zookeeper: FakeZooKeeper, *changes: IsrChange, before: Callable[[FakeSession], None] | None = None
) -> list[IsrVerdict]:
    async with zookeeper.open_session(lambda fired: None) as session:
        if before is not None:
            before(session)
        outcomes = await IsrChanges(ME, PLAINTEXT_REACH, lambda: session).propose(ProposeIsr(changes, EPOCH, None))
        return [outcome.verdict for outcome in outcomes]


async def test_states_are_written_and_the_controller_is_notified_once() -> None:
    zookeeper = FakeZooKeeper()
    created(zookeeper, 0, 1)
    gone = change(TopicPartition("gone", 0))
    verdicts = await proposed(zookeeper, change(T0), gone, change(T1, leader_epoch=4))
    assert verdicts == [IsrVerdict.ACCEPTED, IsrVerdict.GIVEN_UP, IsrVerdict.GIVEN_UP]
    assert state_of(zookeeper) == LeaderAndIsr(1, 5, (1, 2), 3, 1)
    assert state_of(zookeeper, 1).isr == (1,)
    assert notified(zookeeper) == [T0]
    assert zookeeper.model.node(topic("gone")) is None


async def test_nothing_changed_means_no_notification() -> None:
    zookeeper = FakeZooKeeper()
    created(zookeeper, 0)
    assert await proposed(zookeeper, change(leader_epoch=9)) == [IsrVerdict.GIVEN_UP]
    assert notified(zookeeper) == []


class Interfering(FakeSession):
    """Somebody writes the state between our reading and our writing, so often."""

    times = 0
    content = b""

    async def write(self, plan):  # type: ignore[no-untyped-def]
        if self.times:
            self.times -= 1
            model = self._zookeeper.model
            model.multi(model.open_session(), [SetData(partition_state("t", 0), self.content, -1)])
        return await super().write(plan)


@pytest.mark.parametrize(
    "times,content,verdict,isr",
    [
        (2, LeaderAndIsr(1, 5, (1, 3), 4), IsrVerdict.ACCEPTED, (1, 3, 2)),
        (1, LeaderAndIsr(3, 6, (3,), 4), IsrVerdict.GIVEN_UP, (3,)),
        (99, LeaderAndIsr(1, 5, (1, 3), 4), IsrVerdict.UNANSWERED, (1, 3)),
    ],
)
async def test_a_state_that_somebody_wrote_in_between_is_read_again(
    times: int, content: LeaderAndIsr, verdict: IsrVerdict, isr: tuple[int, ...]
) -> None:
    zookeeper = FakeZooKeeper()
    created(zookeeper, 0)
    session = Interfering(zookeeper, lambda fired: None)
    zookeeper.sessions[session.session_id] = session
    session.times, session.content = times, encode_state(content)
    (outcome,) = await IsrChanges(ME, PLAINTEXT_REACH, lambda: session).propose(ProposeIsr((change(),), EPOCH, None))
    assert outcome.verdict is verdict
    assert state_of(zookeeper).isr == isr
    await session.close()


@pytest.mark.parametrize("applied", [True, False])
async def test_a_lost_reply_is_found_out_by_the_next_proposal(applied: bool) -> None:
    zookeeper = FakeZooKeeper()
    created(zookeeper, 0)
    assert await proposed(zookeeper, change(), before=lambda s: s.lose_next_reply(applied=applied)) == [
        IsrVerdict.UNANSWERED
    ]
    assert notified(zookeeper) == []
    assert await proposed(zookeeper, change()) == [IsrVerdict.ACCEPTED]
    assert state_of(zookeeper) == LeaderAndIsr(1, 5, (1, 2), 3, 1)
    assert notified(zookeeper) == [T0]


async def test_without_a_session_nothing_is_written() -> None:
    zookeeper = FakeZooKeeper()
    created(zookeeper, 0)
    (none,) = await IsrChanges(ME, PLAINTEXT_REACH, lambda: None).propose(ProposeIsr((change(),), EPOCH, None))
    assert (none.verdict, none.reason) == (IsrVerdict.UNANSWERED, "there is no ZooKeeper session")
    assert await proposed(zookeeper, change(), before=lambda s: s.end("expired")) == [IsrVerdict.UNANSWERED]
    assert state_of(zookeeper).isr == (1,)


# --- the whole agent ----------------------------------------------------------------------------------------------


async def test_a_leader_without_a_listed_controller_grows_its_isr_in_zookeeper(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    created(zookeeper, 0)
    config = agent_config(tmp_path, replica_catch_up_delay_ms=20)
    async with running(config, zookeeper.open_session) as app, connected(app) as connection:
        epoch = app.loop.state.broker_epoch
        await connection.ask(Addressed(metadata("u", brokers=live(1, 2)), epoch))
        await connection.ask(Addressed(become(replicas=(1, 2), leader_epoch=5), epoch))
        await reach(lambda: app.loop.state.replicas[T0].isr == (1, 2))
        assert app.loop.state.replicas[T0].partition_epoch == 1
    assert state_of(zookeeper).isr == (1, 2)
    assert notified(zookeeper) == [T0]


async def test_a_leader_with_a_listed_controller_asks_it(tmp_path: Path) -> None:
    zookeeper = FakeZooKeeper()
    # Three tries to leave in order would be five seconds apart, for the controller has nothing more to say.
    config = agent_config(
        tmp_path,
        replica_catch_up_delay_ms=20,
        inter_broker_protocol_version="2.7-IV2",
        controlled_shutdown_enable="false",
    )
    async with (
        listed_controller() as controller,
        running(config, zookeeper.open_session) as app,
        connected(app) as connection,
    ):
        controller.answers += [
            AlterPartitionResponse(ErrorCode.NOT_CONTROLLER),
            altered(AlteredPartition(0, 0, ME, 5, (1, 2), 0, 8)),
        ]
        epoch = app.loop.state.broker_epoch
        brokers = (*live(1, 2), controller.as_broker)
        await connection.ask(Addressed(metadata("u", brokers=brokers), epoch))
        await connection.ask(Addressed(become(replicas=(1, 2), leader_epoch=5), epoch))
        await reach(lambda: app.loop.state.replicas[T0].isr == (1, 2))
        assert app.loop.state.isr_outcomes[IsrVerdict.UNANSWERED] == 1
        assert app.loop.state.replicas[T0].partition_epoch == 8
        assert notified(zookeeper) == []
