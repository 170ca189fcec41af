"""`lethe brokers list` and `describe`: what is counted, who is missing, who does not answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.deletion_requests import pause_deletions
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_creation import TopicCreationRequest
from lethe.cli.answer import Answer
from lethe.cli.brokers_describe import broker_description
from lethe.cli.brokers_list import broker_list
from lethe.cli.topics_create import creation
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.vocabulary import Broker, BrokerId, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete, Exists, Present, SetData
from lethe.protocol.zookeeper.znodes import (
    Debt,
    DeletionOrders,
    SavedPartition,
    TrashPhase,
    encode_debt,
    encode_deletion_marker,
)
from lethe.survey.evidence import ControllerReport, ReportedTopic
from lethe.survey.views import BrokerAnswers, BrokerFailure, Directory, LogDirSource, LogDirView, UnansweredQuestion
from tests.fakes.forbidden_znodes import forbidding
from tests.fakes.trash import ENTRY, in_trash
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply, bring_online, elect


@pytest.fixture
async def cluster(session: FakeSession) -> FakeSession:
    """Brokers 1, 2, 3; orders also lies on 9, which is not there, and is marked for deletion."""
    await creation(session, TopicCreationRequest("bills", assignment=((1, 2), (2, 3), (1, 3))))
    await creation(session, TopicCreationRequest("orders", assignment=((1, 2),)))
    await apply(session, SetData(paths.topic("orders"), b'{"version":3,"partitions":{"0":[9,1],"1":[1,9]}}', -1))
    await bring_online(session, "bills", {0: (2, 1), 1: (2,), 2: (1, 3)})
    await bring_online(session, "orders", {0: (1,), 1: (1,)})
    await topic_znodes.mark_for_deletion(session, ["orders"])
    await elect(session, 2)
    return session


async def _ask(broker: Broker) -> BrokerAnswers:
    if broker.id == 3:
        return BrokerAnswers(broker.id, unseen=(UnansweredQuestion(BrokerFailure.SILENT, "no answer within 5 s"),))
    directory = Directory("bills-0", DirectoryKind.REPLICA, TopicPartition("bills", 0), 1_234)
    good = LogDirView(broker.id, "/good", LogDirSource.BROKER, (directory,))
    bad = LogDirView(broker.id, "/bad", LogDirSource.BROKER, (), "the broker says KAFKA_STORAGE_ERROR", has_failed=True)
    return BrokerAnswers(broker.id, {}, BrokerId(7), (good, bad))


def _data(answer: Answer) -> Any:
    return answer.data


async def test_what_zookeeper_alone_tells(cluster: FakeSession) -> None:
    answer = await broker_list(cluster, None)
    assert answer.exit is Exit.OK
    assert answer.lines == (
        "3 brokers are registered; the active controller 2 is not Lethe's, as far as can be seen.",
        "Broker 9 is not registered: dead or decommissioned. 2 replicas are assigned to it; 1 deletion waits for it.",
    )
    assert [row[0:3] + row[4:] for row in answer.tables[0].rows] == [
        ("1", "PLAINTEXT://127.0.0.1:9092", "a", "3", "1", "0", "33 %", "", ""),
        ("2", "PLAINTEXT://127.0.0.1:9092", "b", "2", "0", "0", "0 %", "", "controller"),
        ("3", "PLAINTEXT://127.0.0.1:9092", "c", "0", "2", "1", "0 %", "", ""),
    ]
    assert [(one["id"], one["registered"]) for one in _data(answer)["missing"]] == [(9, False)]


async def test_what_brokers_tell(cluster: FakeSession) -> None:
    answer = await broker_list(cluster, _ask)
    assert answer.exit is Exit.UNREACHABLE
    assert answer.tables[0].rows[0][-2:] == ("1,234", "log directory /bad has failed")
    assert answer.tables[0].rows[2][-2:] == ("", "no answer within 5 s")
    brokers = _data(answer)["brokers"]
    assert [one["answered"] for one in brokers] == [True, True, False]
    assert [d["failed"] for d in brokers[0]["log_dirs"]] == [False, True]


async def test_one_broker(cluster: FakeSession) -> None:
    answer = await broker_description(cluster, 1, _ask)
    assert answer.exit is Exit.OK
    assert answer.lines[0].startswith("Broker 1, epoch ")
    assert answer.lines[0].endswith(", since 1970-01-01 00:00:00 UTC")
    assert answer.lines[1:3] == ("\tEndpoint: PLAINTEXT://127.0.0.1:9092 (PLAINTEXT)", "\tRack: a")
    assert "\tPreferred, but led by others: bills-0, 33% of 3 (lethe partitions elect --preferred)" in answer.lines
    assert "\tMarked for deletion, with replicas here: orders" in answer.lines
    assert "It takes 7 for the controller" in answer.lines[-1]
    assert answer.tables[0].rows == (("/good", "1", "1,234", ""), ("/bad", "0", "0", "FAILED"))
    third = await broker_description(cluster, 3, _ask)
    assert third.lines[3:] == (
        "\tPartitions: 2 replicas, leads 0, follows 2",
        "\tNot in sync: bills-1",
        "\tNo living partition depends on its disks; look again once it is stopped.",
        "It did not answer all: no answer within 5 s",
    )
    assert third.exit is Exit.UNREACHABLE
    assert (await broker_description(cluster, 3, None)).exit is Exit.OK


async def test_an_unseen_controller_is_no_broker(cluster: FakeSession) -> None:
    await apply(cluster, SetData(paths.CONTROLLER, b"{", -1))
    answer = await broker_list(cluster, None)
    assert answer.exit is Exit.UNREACHABLE
    assert answer.lines[0].startswith("3 brokers are registered; the active controller is unseen: znode /controller")
    data = _data(answer)
    assert (data["controller"], data["controller_is_lethe"]) == (None, None)
    assert data["controller_problem"].startswith("znode /controller cannot be understood")
    assert [one["is_controller"] for one in data["brokers"]] == [None, None, None]
    described = await broker_description(cluster, 1, _ask)
    assert described.lines[2].startswith("\tWhether it is the active controller is not known: znode /controller")
    assert described.lines[-1].startswith("It takes 7 for the controller, but the active controller is unseen: ")


async def test_a_broker_without_controller_agrees_that_there_is_none(cluster: FakeSession) -> None:
    async def ask(broker: Broker) -> BrokerAnswers:
        return BrokerAnswers(broker.id, {}, BrokerId(-1), ())

    lines = (await broker_description(cluster, 1, ask)).lines
    assert lines[-1].startswith("It takes no broker for the controller, but the active controller 2 is not Lethe's")
    await apply(cluster, Delete(paths.CONTROLLER))
    assert not any("for the controller" in line for line in (await broker_description(cluster, 1, ask)).lines)


async def test_a_broker_that_is_not_there(cluster: FakeSession) -> None:
    gone = await broker_description(cluster, 9, _ask)
    assert gone.exit is Exit.NO
    assert gone.lines[0].startswith("Broker 9 is not registered: dead or decommissioned")
    assert "\tNot in sync: orders-0, orders-1" in gone.lines
    assert gone.lines[-1] == "\tAn empty broker may take the id 9: no living partition depends on its disks."
    with pytest.raises(Refusal, match=r"broker 8 is not registered.*registered: 1, 2, 3"):
        await broker_description(cluster, 8, _ask)


async def test_a_registration_that_cannot_be_understood_is_no_absence(cluster: FakeSession) -> None:
    await apply(cluster, Create(paths.broker_id(9), b"rubbish"))
    answer = await broker_list(cluster, None)
    assert not any("dead or decommissioned" in line for line in answer.lines)
    assert answer.tables[0].rows[-1][-1] == "its registration cannot be understood"
    described = await broker_description(cluster, 9, None)
    assert described.exit is Exit.NO
    assert "cannot be understood" in described.lines[0]


async def test_no_empty_broker_in_the_place_of_a_last_copy(session: FakeSession) -> None:
    """Kafka elects it, cleanly, and has the other replicas cut down to nothing."""
    await creation(session, TopicCreationRequest("bills", assignment=((1, 2), (2, 3), (1, 3), (3, 1))))
    text = b'{"version":3,"partitions":{"0":[1,9],"1":[9,2],"2":[9],"3":[9,3]}}'
    await apply(session, SetData(paths.topic("bills"), text, -1))
    # The last one is as it is before a controller has noticed that 9 is away: it would be in sync as it returns.
    await bring_online(session, "bills", {0: (1,), 1: (9,), 3: (3, 9)})
    gone = await broker_description(session, 9, None)
    assert gone.lines[-2] == "\tIn sync on no other live broker: bills-1, bills-2, bills-3"
    assert gone.lines[-1].startswith("\tNO EMPTY BROKER may take the id 9")
    assert _data(gone)["only_here"] == 3
    running = await broker_description(session, 1, None)
    assert "\tIn sync on no other live broker: bills-0" in running.lines
    behind = await broker_description(session, 2, None)
    assert "\tIn sync on no other live broker: bills-1" in behind.lines, "the best copy that is left"


MAY_TAKE = "\tAn empty broker may take the id 9: no living partition depends on its disks."
NOT_KNOWN = "\tWhether an empty broker may take the id 9 is not known: "


@pytest.fixture
async def last_copy(cluster: FakeSession) -> FakeSession:
    """The marked topic orders has a partition that only broker 9, which is away, had in sync."""
    state = b'{"controller_epoch":1,"leader":-1,"version":1,"leader_epoch":1,"isr":[9]}'
    await apply(cluster, SetData(paths.partition_state("orders", 0), state, -1))
    return cluster


async def lethe(session: FakeSession) -> FakeSession:
    await apply(session, Delete(paths.CONTROLLER))
    await elect(session, 1001, admin="http://localhost:1")
    return session


async def mark(session: FakeSession, orders: DeletionOrders) -> None:
    await apply(session, SetData(paths.delete_topic("orders"), encode_deletion_marker(orders), -1))


async def replaceable(session: FakeSession, phase: str | None = None) -> tuple[int, str]:
    """The count of partitions that only broker 9 has, and what is said of an empty one. `phase`: of orders, as Lethe's
    controller answers; None: it does not answer."""

    async def ask(_: ZooKeeperSession) -> ControllerReport:
        if phase is None:
            return ControllerReport(problem="no answer")
        return ControllerReport({"orders": ReportedTopic("orders", phase=phase)})

    answer = await broker_description(session, 9, None, ask)
    demand_same_verdict(answer)
    return _data(answer)["only_here"], answer.lines[-1]


def demand_same_verdict(answer: Answer) -> None:
    """A script that reads the JSON learns what the text says."""
    said, data = answer.lines[-1], _data(answer)
    allowed = True if "An empty broker may" in said else False if "NO EMPTY BROKER" in said else None
    assert data["may_be_replaced_by_empty"] is allowed
    assert bool(data["why_not_replaced_by_empty"]) is (allowed is not True)


async def test_the_json_says_of_every_broker_whether_an_empty_one_may_replace_it(cluster: FakeSession) -> None:
    for number in (1, 2, 3, 9):
        demand_same_verdict(await broker_description(cluster, number, None))
    await apply(cluster, SetData(paths.partition_state("bills", 2), b"{", -1))
    unclear = await broker_description(cluster, 3, None)
    demand_same_verdict(unclear)
    assert _data(unclear)["why_not_replaced_by_empty"] == ["see topics bills"]
    listed = _data(await broker_list(cluster, None))
    found = [each["may_be_replaced_by_empty"] for each in (*listed["brokers"], *listed["missing"])]
    assert found == [None, False, None, True], "the last copy of bills-1 is on 2; nothing of bills is on 9"


async def test_a_broker_whose_registration_cannot_be_understood_may_run(cluster: FakeSession) -> None:
    await apply(cluster, Create(paths.broker_id(9), b"{"))
    answer = await broker_description(cluster, 9, None)
    assert answer.lines[-1] == "\tNo living partition depends on its disks; look again once it is stopped."
    assert _data(answer)["may_be_replaced_by_empty"] is None


async def test_the_list_has_what_the_trash_names_and_what_of_it_is_unseen(cluster: FakeSession) -> None:
    await in_trash(cluster, precious=replace(ENTRY, partitions={0: SavedPartition((12,), 12, 0, (12,))}))
    missing = {each["id"]: each for each in _data(await broker_list(cluster, None))["missing"]}
    assert (missing[12]["may_be_replaced_by_empty"], missing[12]["only_here_in_trash"]) == (False, ["precious"])
    await apply(cluster, SetData(paths.trashed("precious"), b"?", -1))
    for session, where in ((cluster, paths.trashed("precious")), (forbidding(cluster, paths.TRASH), paths.TRASH)):
        answer = await broker_list(session, None)
        assert [problem["where"] for problem in _data(answer)["problems"]] == [where]
        assert answer.exit is Exit.UNREACHABLE
        assert any(line.startswith(f"{where}: ") for line in answer.lines)
        assert {each["may_be_replaced_by_empty"] for each in _data(answer)["brokers"]} <= {None, False}


async def test_marked_topics_depend_on_a_broker_where_they_are_kept(last_copy: FakeSession) -> None:
    """A topic that does not fit into the trash stays in service, and an empty broker 9 would empty it."""
    assert await replaceable(last_copy) == (0, MAY_TAKE), "Kafka's controller deletes what is marked"
    await lethe(last_copy)
    await mark(last_copy, DeletionOrders(grace_ms=86_400_000))
    count, said = await replaceable(last_copy)
    assert (count, said.startswith("\tNO EMPTY BROKER may take the id 9")) == (1, True)
    await apply(last_copy, SetData(paths.delete_topic("orders"), b'{"version":1,"grace_ms":"a day"}', -1))
    assert (await replaceable(last_copy))[0] == 1, "it may order to keep something"
    czxid = await topic_czxid(last_copy)
    await mark(last_copy, DeletionOrders(topic_czxid=czxid + 1))
    assert (await replaceable(last_copy))[0] == 1, "its marker names another topic, and is refused"
    await mark(last_copy, DeletionOrders(begun=czxid + 1, grace_ms=1))
    assert (await replaceable(last_copy))[0] == 1, "another topic's deletion has begun"
    await mark(last_copy, DeletionOrders(begun=czxid, grace_ms=1))
    assert await replaceable(last_copy) == (0, MAY_TAKE)


async def test_a_marked_topic_without_orders_may_be_kept_by_the_configuration(last_copy: FakeSession) -> None:
    await lethe(last_copy)
    for orders in (DeletionOrders(), DeletionOrders(grace_ms=0, topic_czxid=await topic_czxid(last_copy))):
        await mark(last_copy, orders)
        assert await replaceable(last_copy) == (0, f"{NOT_KNOWN}see topics orders")
        assert await replaceable(last_copy, "started") == (0, MAY_TAKE)
        assert (await replaceable(last_copy, "held"))[0] == 1
    answer = await broker_description(last_copy, 9, None)
    assert answer.lines[-2].endswith("and whether the deletion has begun is not known: orders-0")
    assert _data(answer)["perhaps_only_here"] == 1
    await in_trash(last_copy, orders=ENTRY.entering(TrashPhase.FREEZING, 0))
    assert (await replaceable(last_copy))[0] == 1
    await apply(last_copy, Delete(paths.CONTROLLER), Delete(paths.trashed("orders")))
    assert await replaceable(last_copy) == (0, f"{NOT_KNOWN}see topics orders"), "no controller is active"


async def test_a_pause_keeps_what_has_not_begun(last_copy: FakeSession) -> None:
    await pause_deletions(last_copy, 1_000, "an audit")
    assert "\tIn sync on no other live broker: orders-0" in (await broker_description(last_copy, 9, None)).lines
    await mark(last_copy, DeletionOrders(begun=await topic_czxid(last_copy)))
    assert await replaceable(last_copy) == (0, MAY_TAKE)


async def topic_czxid(session: FakeSession) -> int:
    (found,) = await session.read([Exists(paths.topic("orders"))])
    assert isinstance(found, Present)
    return found.stat.czxid


async def test_no_empty_broker_in_the_place_of_the_last_copy_in_the_trash(cluster: FakeSession) -> None:
    alone = replace(ENTRY, partitions={0: SavedPartition((9, 1), 9, 0, (9,)), 1: SavedPartition((1,), 1, 0, (1,))})
    elsewhere = replace(ENTRY, partitions={0: SavedPartition((9, 1), 9, 0, (9, 1))})
    await in_trash(cluster, copied=elsewhere)
    assert (await broker_description(cluster, 9, None)).lines[-1] == MAY_TAKE
    await in_trash(cluster, precious=alone)
    answer = await broker_description(cluster, 9, None)
    assert answer.lines[-2] == "\tIn the trash, and in sync on no other live broker: precious"
    assert answer.lines[-1].startswith("\tNO EMPTY BROKER may take the id 9")
    assert _data(answer)["only_here_in_trash"] == ["precious"]
    await in_trash(cluster, other=replace(ENTRY, partitions={0: SavedPartition((12,), 12, 0, (12,))}))
    assert "NO EMPTY BROKER" in (await broker_description(cluster, 12, None)).lines[-1], "only the trash names it"


async def test_nothing_is_allowed_where_the_trash_cannot_be_read(cluster: FakeSession) -> None:
    await in_trash(cluster, moving=ENTRY.entering(TrashPhase.RESTORING, 0))
    said = (await broker_description(cluster, 9, None)).lines[-1]
    assert said == f"{NOT_KNOWN}see topics moving in the trash", "it is on its way, and was not among the topics"
    await apply(cluster, SetData(paths.trashed("moving"), b"?", -1))
    assert (await broker_description(cluster, 9, None)).lines[-1] == f"{NOT_KNOWN}see topics moving in the trash"
    said = (await broker_description(forbidding(cluster, paths.TRASH), 9, None)).lines[-1]
    assert said.startswith(NOT_KNOWN)
    assert "NO_AUTH" in said


async def test_nothing_is_allowed_where_a_topic_cannot_be_read(cluster: FakeSession) -> None:
    await apply(cluster, SetData(paths.topic("bills"), b"rubbish", -1))
    said = (await broker_description(cluster, 9, None)).lines[-1]
    assert said == "\tWhether an empty broker may take the id 9 is not known: see topics bills"


async def test_an_unseen_partition_state_is_neither_in_sync_nor_lagging(cluster: FakeSession) -> None:
    await apply(cluster, SetData(paths.partition_state("bills", 2), b"{", -1))
    listed = await broker_list(cluster, None)
    state = "/brokers/topics/bills/partitions/2/state"
    assert any(line.startswith(state) for line in listed.lines)
    assert [problem["where"] for problem in _data(listed)["problems"]] == [state]
    assert listed.tables[0].rows[0][4:8] == ("2", "1", "0", "50 %")
    assert listed.tables[0].rows[0][9] == "the state of 1 partition is unseen"
    described = await broker_description(cluster, 3, None)
    assert "\tState unseen: bills-2" in described.lines
    assert "\tNot in sync: bills-1" in described.lines
    assert described.lines[-1] == "\tWhether an empty broker may take the id 3 is not known: see topics bills"
    assert (_data(described)["states_unseen"], _data(described)["only_here"]) == (1, 0)


async def owe(session: FakeSession, broker: int, data: bytes | None = None) -> None:
    await session.ensure_path(paths.debts_of(broker))
    debt = Debt(None, (0, 1), 0, 1_000, 64)
    await apply(session, Create(paths.debt(broker, "gone", 17), encode_debt(debt) if data is None else data))


async def test_what_brokers_owe_is_told_and_names_brokers_too(cluster: FakeSession) -> None:
    await owe(cluster, 2)
    await owe(cluster, 12)
    answer = await broker_list(cluster, None)
    owed = "2 partitions of 1 deleted topic, 64 bytes, since 1970-01-01T00:00:01.000Z"
    registered = "it is registered, and no controller of Lethe's is seen that settles them"
    assert f"Broker 2 owes {owed}: {registered}: lethe brokers settle 2 has them deleted" in answer.lines
    back = "Kafka's controllers leave them when it is back: then lethe brokers settle 12 has them deleted"
    assert f"Broker 12 owes {owed}: {back}. If it never returns: lethe rescue --forget 12" in answer.lines
    await apply(cluster, Delete(paths.CONTROLLER))
    await elect(cluster, 1001, admin="http://localhost:1")
    lines = (await broker_list(cluster, None)).lines
    never = "If it never returns: lethe brokers forget 12"
    assert f"Broker 12 owes {owed}: they are deleted when it is back. {never}" in lines
    assert "Broker 12 is not registered: dead or decommissioned. 0 replicas are assigned to it." in answer.lines
    missing = {each["id"]: each["debts"] for each in _data(answer)["missing"]}
    assert [debt["path"] for debt in missing[12]] == ["/lethe/debts/12/gone@17"]
    described = await broker_description(cluster, 12, None)
    assert described.exit is Exit.NO
    assert f"Broker 12 owes {owed}" in described.lines[1]


async def test_debts_that_cannot_be_read_are_unseen(cluster: FakeSession) -> None:
    await owe(cluster, 12, b"?")
    answer = await broker_list(cluster, None)
    assert answer.exit is Exit.UNREACHABLE
    assert any(line.startswith("What /lethe/debts/12/gone@17 says is unseen: ") for line in answer.lines)
    assert (await broker_description(cluster, 2, None)).exit is Exit.UNREACHABLE
