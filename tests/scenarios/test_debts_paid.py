"""Brokers that return delete what they still have of deleted topics, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lethe.controller.core.effects import Send
from lethe.controller.core.events import Answer, LeaderAndIsrResponseReceived, StopReplicaResponseReceived
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.control import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    TopicError,
    TopicIdError,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.versions import LATEST, InterBrokerProtocol
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, SetData, ZkError
from lethe.protocol.zookeeper.znodes import OfflineReplicas
from tests.fakes.forbidden_znodes import NO_AUTH
from tests.fakes.one_controller import OneController, consent
from tests.scenarios.plot import cluster, is_gone, led, refusals, text, with_topic
from tests.scenarios.test_debts_written import debts, without

BEFORE_IDS = InterBrokerProtocol.parse("2.5")
Rule = Callable[[Send], bool]


def owing(*partitions: tuple[int, ...], ibp: InterBrokerProtocol | None = None) -> OneController:
    """`orders` is deleted, and broker 3 owes it."""
    world = OneController(offline_replicas=OfflineReplicas.OWE, ibp=ibp or LATEST)
    with_topic(cluster(world=world), "orders", *(partitions or ((1, 3),)))
    without(world, 3)
    world.mark("orders")
    world.run()
    assert set(debts(world)) == {"3/orders"}
    world.take_story()
    world.take_sent()
    return world


def back(world: OneController, broker: int = 3) -> list[Send]:
    """The broker returns; what it is sent, but for UpdateMetadata."""
    world.take_sent()
    world.start_broker(broker)
    world.run()
    return to(world, broker)


def to(world: OneController, broker: int) -> list[Send]:
    wanted = (LeaderAndIsrRequest, StopReplicaRequest)
    return [each for each in world.take_sent() if each.broker == broker and isinstance(each.request, wanted)]


def told(sends: list[Send]) -> list[str]:
    """Each request in short: `compare orders`, `announce orders`, `delete orders`, `stop orders`."""
    found = []
    for send in sends:
        for topic in send.request.topics or ():
            match send.request:
                case LeaderAndIsrRequest():
                    is_compare = all(row.leader == -1 for row in topic.partitions)  # type: ignore[union-attr]
                    found.append(f"{'compare' if is_compare else 'announce'} {topic.topic}")
                case StopReplicaRequest():
                    is_delete = all(row.delete for row in topic.partitions)  # type: ignore[union-attr]
                    found.append(f"{'delete' if is_delete else 'stop'} {topic.topic}")
                case _:
                    pass
    return found


def answering(error: int, *, to_compare: bool, times: int = 1) -> Callable[[Send], Answer]:
    """The first compares (or deletions) of orders on broker 3 get this error for each partition."""
    left = [None] * times

    def rule(send: Send) -> Answer:
        request = send.request
        names = {topic.topic for topic in request.topics or ()}
        kind = LeaderAndIsrRequest if to_compare else StopReplicaRequest
        if send.broker != 3 or not left or "orders" not in names or not isinstance(request, kind):
            return consent(send)
        left.pop()
        if isinstance(request, LeaderAndIsrRequest):
            rows = [
                TopicIdError(None, t.topic_id, row.partition, error) for t in request.topics for row in t.partitions
            ]
            return LeaderAndIsrResponseReceived(*send[:3], LeaderAndIsrResponse.of_rows(0, rows))
        assert isinstance(request, StopReplicaRequest)
        stopped = [TopicError(t.topic, row.partition, error) for t in request.topics for row in t.partitions]
        return StopReplicaResponseReceived(*send[:3], StopReplicaResponse.of_rows(0, stopped))

    return rule


def closed(world: OneController) -> list[tuple[object, object]]:
    """(what, partitions) of the records about debts that are closed."""
    lines = world.recorded(EventRecordType.DEBT)
    return [(line.data["what"], line.data["partitions"]) for line in lines if line.data["what"] != "written"]


def test_a_broker_that_returns_compares_and_then_deletes_what_it_owes() -> None:
    world = owing()
    before = debts(world)["3/orders"]
    sends = back(world)
    assert told(sends) == ["compare orders", "delete orders"]
    compare = sends[0].request
    assert isinstance(compare, LeaderAndIsrRequest)
    assert compare.topics[0].topic_id == before.topic_id
    (row,) = compare.topics[0].partitions
    assert (row.leader, row.leader_epoch, row.replicas, row.isr, row.is_new) == (
        -1,
        before.last_leader_epoch,
        (3,),
        (3,),
        False,
    )
    assert debts(world) == {}
    assert closed(world) == [("paid", "0")]


def test_the_story_of_a_debt_that_is_paid() -> None:
    world = owing()
    world.start_broker(3)
    world.run()
    assert world.take_story() == text(
        """
        * BrokersChanged
        -> 1,2,3 UpdateMetadata brokers 1,2,3
        -> 3 LeaderAndIsr: orders-0 leader -1 epoch 1 isr 3
        <- 1,2,3 UpdateMetadata ok
        <- 3 LeaderAndIsr ok
        -> 3 StopReplica: orders-0 epoch -1 delete
        <- 3 StopReplica ok
        zk delete /lethe/debts/3/orders@35
        """
    )


def test_a_topic_of_that_name_is_announced_to_the_broker_only_after_the_debt_is_paid() -> None:
    world = owing()
    world.create_topic("orders", (1, 3))
    world.create_topic("others", (1, 3))
    world.run()
    sends = told(back(world))
    assert sends.index("delete orders") < sends.index("announce orders")
    assert sends.index("announce others") < sends.index("announce orders")
    assert sends.count("announce orders") == 1


def test_another_topics_directory_makes_the_debt_void_and_nothing_is_deleted() -> None:
    world = owing()
    world.create_topic("orders", (1, 3))
    world.run()
    world.answer = answering(ErrorCode.INCONSISTENT_TOPIC_ID, to_compare=True)
    assert told(back(world)) == ["compare orders", "announce orders"]
    assert debts(world) == {}
    assert closed(world) == [("void", "0")]


def test_a_broken_disk_keeps_the_debt_open_and_it_is_tried_again() -> None:
    world = owing()
    world.create_topic("orders", (1, 3))
    world.run()
    world.answer = answering(ErrorCode.KAFKA_STORAGE_ERROR, to_compare=True, times=3)
    assert told(back(world)) == ["compare orders"]
    assert set(debts(world)) == {"3/orders"}
    for _ in range(6):
        world.advance(10_000)
    assert told(to(world, 3)) == [
        "compare orders",
        "compare orders",
        "compare orders",
        "delete orders",
        "announce orders",
    ]
    assert debts(world) == {}


def test_a_deletion_that_fails_is_compared_again_with_a_higher_epoch() -> None:
    world = owing()
    world.answer = answering(ErrorCode.KAFKA_STORAGE_ERROR, to_compare=False)
    assert told(back(world)) == ["compare orders", "delete orders"]
    world.advance(10_000)
    sends = to(world, 3)
    assert told(sends) == ["compare orders", "delete orders"]
    request = sends[0].request
    assert isinstance(request, LeaderAndIsrRequest)
    assert request.topics[0].partitions[0].leader_epoch == 2, "one above the last one, for the second attempt"
    assert debts(world) == {}


def test_an_answer_of_an_earlier_incarnation_counts_for_nothing() -> None:
    world = owing()
    held: list[Answer] = []

    def hold(send: Send) -> Answer | None:
        answer = consent(send)
        if send.broker == 3 and isinstance(send.request, LeaderAndIsrRequest):
            held.append(answer)
            return None
        return answer

    world.answer = hold
    assert told(back(world)) == ["compare orders"]
    world.stop_broker(3)
    world.run()
    assert told(back(world)) == ["compare orders"]
    world.feed(held[0])
    world.run()
    assert told(to(world, 3)) == []
    world.feed(held[1])
    world.run()
    assert told(to(world, 3)) == ["delete orders"]


def test_the_debt_of_a_topic_that_exists_is_never_paid() -> None:
    world = owing()
    (path,) = (path for path in world.zookeeper.paths() if "orders@" in path)
    data = world.read(path)
    assert data is not None
    world.crash()
    topic_id = znodes.decode_debt(3, path.rsplit("/", 1)[1], data.data).topic_id
    world.create_topic("orders", (1, 3), topic_id=topic_id)
    world.start_broker(3)
    world.elect()
    assert told(to(world, 3)) == ["announce orders"]
    assert closed(world) == [("void", "0")], "the same incarnation was brought back"


def test_the_debt_of_a_topic_whose_deletion_was_called_off_is_void_at_the_takeover() -> None:
    world = owing()
    (path,) = (path for path in world.zookeeper.paths() if "orders@" in path)
    data = world.read(path)
    assert data is not None
    world.crash()
    world.write(Delete(path))
    world.create_topic("orders", (1, 3))
    topic = world.read(paths.topic("orders"))
    assert topic is not None
    world.write(Create(paths.debt(3, "orders", topic.stat.czxid), data.data))
    world.elect()
    assert debts(world) == {}
    assert closed(world) == [("void", "0")]
    assert told(back(world)) == ["announce orders"]


def test_a_debt_is_paid_at_the_takeover_to_a_broker_that_is_registered() -> None:
    world = owing()
    world.create_topic("orders", (1, 3))
    world.run()
    world.crash()
    world.start_broker(3)
    world.take_sent()
    world.elect()
    sends = told(to(world, 3))
    assert sends.index("delete orders") < sends.index("announce orders")
    assert debts(world) == {}


def paid_by_itself(world: OneController, *topics: str) -> None:
    """Broker 3 deletes what it owes of these topics, and removes the debts: agents do so before they register."""
    for path in [path for path in world.zookeeper.paths() if path.startswith(f"{paths.debts_of(3)}/")]:
        if path.rsplit("/", 1)[1].split("@")[0] in topics:
            world.write(Delete(path))


def test_what_a_broker_has_paid_before_it_registered_is_not_compared() -> None:
    """The compare would create an empty directory, which stays if the controller ends before it has that deleted."""
    world = owing()
    world.create_topic("orders", (1, 3))
    world.run()
    paid_by_itself(world, "orders")
    assert told(back(world)) == ["announce orders"]
    assert list(world.context.cluster.debts.all()) == []
    assert closed(world) == [("paid", "0")]


def test_only_debts_whose_znodes_are_left_are_compared() -> None:
    world = owing()
    with_topic(world, "others", (1, 3))
    world.mark("others")
    world.run()
    paid_by_itself(world, "orders")
    assert told(back(world)) == ["compare others", "delete others"]
    assert debts(world) == {}
    assert closed(world) == [("paid", "0"), ("paid", "0")]


def test_a_broker_that_restarts_before_anybody_notices_may_have_paid_too() -> None:
    world = owing()
    world.answer = answering(ErrorCode.KAFKA_STORAGE_ERROR, to_compare=True)
    assert told(back(world)) == ["compare orders"]
    world.stop_broker(3)
    paid_by_itself(world, "orders")
    assert told(back(world)) == []
    world.advance(60_000)
    assert told(to(world, 3)) == []
    assert list(world.context.cluster.debts.all()) == []


def test_debts_that_cannot_be_listed_are_compared_as_they_are_known() -> None:
    world = owing()
    world.refusals[paths.debts_of(3)] = ZkError.NO_AUTH
    assert told(back(world)) == ["compare orders", "delete orders"]
    assert debts(world) == {}
    assert refusals(world, "broker/3") == [NO_AUTH]


def test_the_whole_parent_of_the_debts_may_be_gone() -> None:
    world = owing()
    paid_by_itself(world, "orders")
    world.write(Delete(paths.debts_of(3)))
    assert told(back(world)) == []
    without(world, 3)
    with_topic(world, "orders", (1, 3))
    world.mark("orders")
    world.run()
    assert is_gone(world, "orders")
    assert set(debts(world)) == {"3/orders"}


def test_a_name_that_nobody_can_read_keeps_the_debt_open_until_it_is_repaired() -> None:
    world = owing()
    world.write(Create(paths.topic("orders"), b"{"))
    world.run()
    assert told(back(world)) == []
    world.write(SetData(paths.topic("orders"), b'{"version":2,"partitions":{"0":[1]}}', ANY_VERSION))
    world.run()
    assert told(to(world, 3)) == ["compare orders", "delete orders"]
    assert debts(world) == {}


def test_two_incarnations_are_paid_one_after_the_other() -> None:
    world = owing()
    with_topic(world, "orders", (1, 3))
    world.mark("orders")
    world.run()
    children = [path for path in world.zookeeper.paths() if "orders@" in path]
    assert len(children) == 2
    assert told(back(world)) == ["compare orders", "delete orders"] * 2
    assert debts(world) == {}


def test_nothing_is_paid_while_deletions_are_paused() -> None:
    world = owing()
    world.write(Create(paths.DELETIONS_PAUSED, None))
    world.run()
    assert told(back(world)) == []
    world.write(Delete(paths.DELETIONS_PAUSED))
    world.run()
    assert told(to(world, 3)) == ["compare orders", "delete orders"]


def test_a_name_that_is_owed_begins_above_the_last_epoch() -> None:
    world = owing()
    with_topic(world, "orders", (1, 3), (2, 1))
    assert [led(world, "orders", number) for number in (0, 1)] == [(1, 2, (1,)), (2, 2, (2, 1))]


def test_a_broker_that_owes_does_not_lead_while_another_can() -> None:
    world = owing()
    world.answer = answering(ErrorCode.KAFKA_STORAGE_ERROR, to_compare=True, times=99)
    back(world)
    with_topic(world, "orders", (3, 1))
    assert led(world, "orders") == (1, 2, (1,))


def test_a_partition_on_a_broken_disk_does_not_hold_up_the_others() -> None:
    world = owing((1, 3), (1, 3))
    left = [None]

    def one_disk_is_broken(send: Send) -> Answer:
        request = send.request
        if send.broker != 3 or not isinstance(request, LeaderAndIsrRequest) or not left:
            return consent(send)
        left.pop()
        errors = {0: ErrorCode.KAFKA_STORAGE_ERROR, 1: ErrorCode.NONE}
        numbers = [(topic.topic_id, row.partition) for topic in request.topics for row in topic.partitions]
        rows = [TopicIdError(None, topic_id, number, errors[number]) for topic_id, number in numbers]
        return LeaderAndIsrResponseReceived(*send[:3], LeaderAndIsrResponse.of_rows(0, rows))

    world.answer = one_disk_is_broken
    sends = back(world)
    stops = [each.request for each in sends if isinstance(each.request, StopReplicaRequest)]
    assert [[row.partition for row in stop.topics[0].partitions] for stop in stops] == [[1]]
    assert set(debts(world)) == {"3/orders"}
    for _ in range(8):
        world.advance(20_000)
    assert debts(world) == {}
    assert closed(world) == [("paid", "0-1")]


# --- without ids --------------------------------------------------------------------------------------------------


def test_without_ids_a_free_name_is_deleted_after_the_broker_has_reached_the_directory() -> None:
    world = owing(ibp=BEFORE_IDS)
    assert told(back(world)) == ["compare orders", "delete orders"]
    assert debts(world) == {}


def test_without_ids_a_name_that_exists_again_is_never_deleted_and_voids_the_debt() -> None:
    world = owing(ibp=BEFORE_IDS)
    with_topic(world, "orders", (1, 3))
    assert told(back(world)) == ["announce orders"]
    assert debts(world) == {}
    assert closed(world) == [("void", "0")]


def test_without_ids_partitions_that_the_later_topic_does_not_have_there_are_deleted() -> None:
    world = owing((1, 3), (1, 3), ibp=BEFORE_IDS)
    with_topic(world, "orders", (1, 3))
    sends = back(world)
    assert sorted(told(sends)) == ["announce orders", "compare orders", "delete orders"]
    (stop,) = (each.request for each in sends if isinstance(each.request, StopReplicaRequest))
    assert [row.partition for row in stop.topics[0].partitions] == [1]
    assert closed(world) == [("paid", "1"), ("void", "0")]


def test_without_ids_a_topic_that_another_controller_began_too_low_is_withheld() -> None:
    world = owing(ibp=BEFORE_IDS)
    world.crash()
    world.create_topic("orders", (1, 3))
    state = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
    world.write(
        Create(paths.topic_partitions("orders"), None),
        Create(paths.topic_partition("orders", 0), None),
        Create(paths.partition_state("orders", 0), state),
    )
    world.elect()
    assert told(back(world)) == []
    assert set(debts(world)) == {"3/orders"}


def test_without_ids_a_name_that_appears_between_compare_and_deletion_is_spared() -> None:
    world = owing(ibp=BEFORE_IDS)
    held: list[Answer] = []

    def hold(send: Send) -> Answer | None:
        answer = consent(send)
        if send.broker == 3 and isinstance(send.request, LeaderAndIsrRequest) and not held:
            held.append(answer)
            return None
        return answer

    world.answer = hold
    assert told(back(world)) == ["compare orders"]
    with_topic(world, "orders", (1, 3))
    world.feed(held[0])
    world.run()
    assert "delete orders" not in told(to(world, 3))


@pytest.mark.parametrize("replicas", [(3, 1), (1, 3), (3,)])
def test_without_ids_a_broker_with_old_records_is_not_in_the_first_isr(replicas: tuple[int, ...]) -> None:
    """It cuts them off as a follower: as the leader it would serve them, and in sync it could become the leader."""
    world = owing(ibp=BEFORE_IDS)

    def silent(send: Send) -> Answer | None:
        return None if send.broker == 3 and isinstance(send.request, LeaderAndIsrRequest) else consent(send)

    world.answer = silent
    assert told(back(world)) == ["compare orders"]
    world.create_topic("orders", replicas)
    world.run()
    found = world.read(paths.partition_state("orders", 0))
    if 1 not in replicas:
        assert found is None, "nobody else can lead"
        assert told(to(world, 3)) == []
        return
    assert found is not None
    state = znodes.decode_state("orders", 0, found.data, 0)
    assert state is not None
    assert (state.leader, state.isr, state.leader_epoch) == (1, (1,), 2)
    (request,) = (each.request for each in to(world, 3))
    assert isinstance(request, LeaderAndIsrRequest)
    (row,) = request.topics[0].partitions
    assert (row.leader, row.isr, row.leader_epoch, row.is_new) == (1, (1,), 2, False)


def test_an_unreadable_debt_withholds_the_name_only_where_nothing_compares_ids() -> None:
    for ibp, expected in ((BEFORE_IDS, []), (None, ["announce orders"])):
        world = owing(ibp=ibp)
        (path,) = (path for path in world.zookeeper.paths() if "orders@" in path)
        world.write(SetData(path, b"{", ANY_VERSION))
        world.crash()
        world.elect()
        with_topic(world, "orders", (1, 3))
        assert told(back(world)) == expected


@pytest.mark.parametrize("again", [False, True])
def test_a_topic_of_that_name_can_be_deleted_while_the_debt_is_open(again: bool) -> None:
    world = owing()
    world.answer = answering(ErrorCode.KAFKA_STORAGE_ERROR, to_compare=True, times=2)
    with_topic(world, "orders", (1, 3))
    if again:
        back(world)
    world.mark("orders")
    world.run()
    if not again:
        back(world)
    for _ in range(8):
        world.advance(20_000)
    assert is_gone(world, "orders")
    assert debts(world) == {}
