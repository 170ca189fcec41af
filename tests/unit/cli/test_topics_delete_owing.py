"""`lethe topics delete --owe`: what will be owed, the order in the marker, and the end of the wait."""

from __future__ import annotations

from functools import partial

import pytest

from lethe.admin.debt_forecast import forecast
from lethe.admin.deletion_look import look, targets
from lethe.admin.deletion_wait import wait_until_gone
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_creation import TopicCreationRequest
from lethe.cli.topics_create import creation
from lethe.cli.topics_delete import deletion, demand_sense
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.vocabulary import Broker, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Data, Delete, GetData, SetData
from lethe.protocol.zookeeper.znodes import (
    Debt,
    DeletionOrders,
    OfflineReplicas,
    decode_deletion_marker,
    encode_debt,
    encode_deletion_marker,
)
from lethe.survey.brokers import AskAbout, AskBroker, QueryScope
from lethe.survey.views import BrokerAnswers, Directory, LogDirSource, LogDirView
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply, complete_deletion, elect

OWE = DeletionOrders(offline_replicas=OfflineReplicas.OWE)


@pytest.fixture
async def cluster(session: FakeSession) -> FakeSession:
    """Lethe's controller, and broker 2 away."""
    for name in ("orders", "bills"):
        await creation(session, TopicCreationRequest(name, assignment=((1, 2), (2, 1), (1, 3))))
    await elect(session, 1, admin="http://localhost:1")
    await apply(session, Delete(paths.broker_id(2)))
    return session


def brokers(sizes: dict[tuple[int, str], int]) -> AskAbout:
    """Brokers that have replicas of these sizes, by broker and directory, and cache nothing."""

    def about(scope: QueryScope) -> AskBroker:
        async def ask(broker: Broker) -> BrokerAnswers:
            found = tuple(
                Directory(name, DirectoryKind.REPLICA, TopicPartition(*_split(name)), size)
                for (number, name), size in sizes.items()
                if number == broker.id
            )
            return BrokerAnswers(broker.id, {}, None, (LogDirView(broker.id, "/a", LogDirSource.BROKER, found),))

        return ask

    return about


def _split(name: str) -> tuple[str, int]:
    topic, _, partition = name.rpartition("-")
    return topic, int(partition)


async def orders_of(session: FakeSession, name: str) -> DeletionOrders | None:
    (marker,) = await session.read([GetData(paths.delete_topic(name))])
    return decode_deletion_marker(marker.data) if isinstance(marker, Data) else None


async def test_it_says_before_what_will_be_owed(cluster: FakeSession) -> None:
    sizes = {(1, "orders-0"): 100, (1, "orders-1"): 20, (3, "orders-2"): 7, (1, "bills-0"): 5}
    expected = await forecast(cluster, ["orders", "bills"], brokers(sizes))
    assert expected.lines() == (
        (
            "broker 2, which is not registered, will owe 4 partitions of 2 topics "
            "(about 125 bytes, as their other replicas; the size of 1 is unknown)"
        ),
    )
    unasked = await forecast(cluster, ["orders"], None)
    assert unasked.lines() == (
        (
            "broker 2, which is not registered, will owe 2 partitions of 1 topic "
            "(no other replica was seen, so their size is unknown)"
        ),
    )


async def test_where_nobody_is_absent_that_is_said(cluster: FakeSession) -> None:
    await creation(cluster, TopicCreationRequest("near", assignment=((1, 3),)))
    assert (await forecast(cluster, ["near"], None)).lines() == (
        "every broker with a replica is registered: nothing will be owed, unless one fails meanwhile",
    )


async def test_a_topic_that_cannot_be_read_is_not_called_safe(cluster: FakeSession) -> None:
    await apply(cluster, SetData(paths.topic("orders"), b"?", ANY_VERSION))
    (line,) = (await forecast(cluster, ["orders"], None)).lines()
    assert line.startswith("which brokers have topic orders is not known: ")


async def test_the_marker_has_the_order(cluster: FakeSession) -> None:
    answer = await deletion(cluster, ["orders"], owe=True)
    assert answer.lines == ("Topic orders is marked for deletion.",)
    assert await orders_of(cluster, "orders") == OWE
    again = await deletion(cluster, ["orders"], owe=True)
    assert again.lines == ("Topic orders is already marked for deletion.",)


async def test_an_older_marker_gets_the_order_and_keeps_its_own(cluster: FakeSession) -> None:
    before = encode_deletion_marker(DeletionOrders(begun=77, offline_replicas=OfflineReplicas.WAIT))
    await apply(cluster, Create(paths.delete_topic("orders"), before), Create(paths.delete_topic("bills"), None))
    await deletion(cluster, ["orders", "bills"], owe=True)
    assert await orders_of(cluster, "orders") == DeletionOrders(begun=77, offline_replicas=OfflineReplicas.OWE)
    assert await orders_of(cluster, "bills") == OWE


async def test_orders_that_are_not_understood_are_not_overwritten(cluster: FakeSession) -> None:
    unknown = b'{"version":1,"offline_replicas":"sell"}'
    await apply(cluster, Create(paths.delete_topic("orders"), unknown))
    answer = await deletion(cluster, ["orders"], owe=True)
    assert answer.exit is Exit.NO
    assert "orders that are not understood" in answer.lines[0]
    assert (await cluster.read([GetData(paths.delete_topic("orders"))]))[0].data == unknown  # type: ignore[union-attr]


async def test_kafkas_controller_is_given_no_order_that_it_would_ignore(session: FakeSession) -> None:
    await creation(session, TopicCreationRequest("orders", assignment=((1, 2),)))
    await elect(session, 1)
    with pytest.raises(Refusal, match="lethe rescue --owe"):
        await deletion(session, ["orders"], owe=True)
    assert await orders_of(session, "orders") is None


UNDER_LETHE = "they are deleted when it is back"
UNDER_KAFKA = "Kafka's controllers leave them when it is back: then lethe brokers settle 2 has them deleted"
UNSEEN = "it is not registered, and whether a controller of Lethe's is active is not known"


@pytest.mark.parametrize("leader, then", [("lethe", UNDER_LETHE), ("kafka", UNDER_KAFKA), ("?", UNSEEN)])
async def test_the_wait_ends_with_what_is_owed(cluster: FakeSession, leader: str, then: str) -> None:
    """Control may have gone back to Kafka's controller meanwhile, as after a rescue."""
    (target,) = await targets(cluster, ["orders"])
    assert target.czxid is not None
    stage = brokers({})

    def about(scope: QueryScope) -> AskBroker:
        async def ask(broker: Broker) -> BrokerAnswers:
            if broker.id == 1 and await orders_of(cluster, "orders") == OWE:
                debt = Debt(target.topic_id, (0, 1), 0, 1_000, 120)
                await cluster.ensure_path(paths.debts_of(2))
                await apply(cluster, Create(paths.debt(2, "orders", target.czxid or 0), encode_debt(debt)))
                await complete_deletion(cluster, "orders")
                if leader != "lethe":
                    await apply(cluster, Delete(paths.CONTROLLER))
                if leader == "kafka":
                    await elect(cluster, 1)
                elif leader == "?":
                    await apply(cluster, Create(paths.CONTROLLER, b"?"))
            return await stage(scope)(broker)

        return ask

    answer = await deletion(cluster, ["orders"], owe=True, ask=about, timeout_ms=60_000)
    assert answer.exit is Exit.OK
    assert answer.lines[0].startswith("1 of 1 topic deleted after ")
    owed = "2 partitions of 1 deleted topic, 120 bytes, since 1970-01-01T00:00:01.000Z"
    assert answer.lines[1] == f"broker 2 owes {owed}: {then}"
    (row,) = answer.tables[0].rows
    assert row[:2] == ("orders", "deleted, the rest is owed")
    assert (row[2] != "", row[4]) == (True, ""), "its log directories are not clean"
    assert isinstance(answer.data, list)
    (body,) = answer.data
    assert isinstance(body, dict)
    assert (body["deleted"], body["unseen"], len(body["owed"])) == (True, [], 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("data", [None, b"{}"])
async def test_an_absent_broker_without_a_debt_that_can_be_read_is_unseen(
    cluster: FakeSession, data: bytes | None
) -> None:
    (target,) = await targets(cluster, ["orders"])
    await deletion(cluster, ["orders"], owe=True)
    if data is not None:
        await cluster.ensure_path(paths.debts_of(2))
        await apply(cluster, Create(paths.debt(2, "orders", target.czxid or 0), data))
    wanted = [target]
    await complete_deletion(cluster, "orders")
    waited = await wait_until_gone(
        partial(look, cluster, brokers({})), wanted, timeout_ms=1_000, display=lambda _: None
    )
    (progress,) = waited.progress
    assert not progress.is_done
    assert [each.broker for each in progress.unseen] == [2]
    assert ("cannot be read" in progress.unseen[0].why) is (data is not None)


def test_what_does_not_go_together() -> None:
    with pytest.raises(ValueError, match="--owe cannot follow"):
        demand_sense(["a"], unreadable=True, owe=True, wait=False, for_candidates={})
