"""Every ill is found where it is planted, none in a healthy cluster, and what was not seen is no health."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.doctor_ills import Ill, IllKind, RepairWay
from lethe.admin.doctor_look import DoctorView, examine
from lethe.admin.doctor_rules import Diagnosis, diagnose, suspects
from lethe.admin.refusal import Exit
from lethe.admin.rescue_snapshot import ElectionRate
from lethe.cli.doctor import diagnosis
from lethe.cli.doctor_show import found, where
from lethe.protocol.findings import Reason
from lethe.protocol.kafka.cached_topics import CachedTopic
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, SetData
from lethe.protocol.zookeeper.znodes import TopicZnode, TrashPhase, encode_reassignment, encode_state, encode_topic
from lethe.survey.broker_settings import EpochAnswer
from tests.fakes.forbidden_znodes import NO_AUTH, forbidding
from tests.fakes.sick_cluster import (
    ABSENT,
    ACCOMPANIED,
    LEADER,
    OTHER_ID,
    PLANTS,
    TOPIC_ID,
    UNKNOWN,
    FakeBrokers,
    make_healthy,
    reassigning,
)
from tests.fakes.trash import ENTRY, in_trash
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.fakes.zookeeper_cluster import apply, elect


@pytest.fixture
async def session() -> AsyncIterator[FakeSession]:
    async with FakeZooKeeper().open_session(lambda _: None) as session:
        await make_healthy(session)
        yield session


@pytest.fixture
def brokers(session: FakeSession) -> FakeBrokers:
    return FakeBrokers(session)


async def view_of(session: ZooKeeperSession, brokers: FakeBrokers) -> DoctorView:
    return await examine(session, brokers.questions, suspects, settle_s=0)


async def looked(session: ZooKeeperSession, brokers: FakeBrokers) -> Diagnosis:
    return diagnose(await view_of(session, brokers))


def kinds(seen: Diagnosis) -> list[IllKind]:
    return [ill.kind for ill in seen.ills]


async def test_a_healthy_cluster_has_no_ill(session: FakeSession, brokers: FakeBrokers) -> None:
    assert await looked(session, brokers) == Diagnosis((), ())
    answer = await diagnosis(session, brokers.questions, settle_s=0)
    assert (answer.exit, answer.lines, answer.tables) == (Exit.OK, ("Nothing is wrong.",), ())


def test_every_kind_is_planted_and_every_finding_of_a_survey_is_an_ill() -> None:
    assert {*IllKind} - PLANTS.keys() == {IllKind.CONTROLLER_UNSTABLE}
    # A marked topic that does not wait is none; one that waits, and a debt, are ills of their own.
    assert Reason.__members__.keys() - IllKind.__members__.keys() == {"MARKED_TOPIC", "DIRECTORY_OWED"}


@pytest.mark.parametrize("kind", PLANTS)
async def test_each_ill_is_found_and_no_other(session: FakeSession, brokers: FakeBrokers, kind: IllKind) -> None:
    await PLANTS[kind](session, brokers)
    seen = await looked(session, brokers)
    assert {*kinds(seen)} == {kind} | ACCOMPANIED.get(kind, frozenset()), seen
    (ill,) = (each for each in seen.ills if each.kind is kind)
    assert ill.sentence(0)
    assert ill.remedy
    assert "{" not in ill.remedy
    answer = await diagnosis(session, brokers.questions, settle_s=0)
    assert answer.exit in ((Exit.NO,) if not kind.may_be_wanted else (Exit.OK, Exit.UNREACHABLE))
    assert any(kind.code in row for table in answer.tables for row in table.rows)


async def test_controllers_that_follow_each_other_at_once(session: FakeSession, brokers: FakeBrokers) -> None:
    view = await view_of(session, brokers)
    assert kinds(diagnose(replace(view, election_rate=ElectionRate(40, 1000)))) == [IllKind.CONTROLLER_UNSTABLE]


@pytest.mark.parametrize(
    "hidden",
    [
        paths.BROKER_TOPICS,
        paths.BROKER_IDS,
        paths.DELETE_TOPICS,
        paths.config_topics(),
        paths.REASSIGN_PARTITIONS,
        paths.CONTROLLER,
        paths.ACL_TOPICS,
        paths.CONFIG_BROKERS,
        paths.CONFIG_CHANGES,
        paths.ISR_CHANGE_NOTIFICATION,
        paths.LOG_DIR_EVENT_NOTIFICATION,
        paths.PREFERRED_REPLICA_ELECTION,
        paths.DEBTS,
        paths.TRASH,
        paths.REQUESTS,
        paths.FORGET,
        paths.config_topic("orders"),
    ],
)
async def test_what_may_not_be_read_is_unseen_and_never_healthy(
    session: FakeSession, brokers: FakeBrokers, hidden: str
) -> None:
    seen = await looked(forbidding(session, hidden), brokers)
    assert hidden in [problem.where for problem in seen.unseen]
    assert seen.ills == ()
    answer = await diagnosis(forbidding(session, hidden), brokers.questions, settle_s=0)
    assert answer.exit is Exit.UNREACHABLE


async def test_an_entry_of_the_trash_that_may_not_be_read_is_unseen_and_never_healthy(
    session: FakeSession, brokers: FakeBrokers
) -> None:
    await in_trash(session, gone=ENTRY)
    seen = await looked(forbidding(session, paths.trashed("gone")), brokers)
    assert (seen.ills, seen.unseen) == ((), ((paths.trashed("gone"), NO_AUTH),))
    answer = await diagnosis(forbidding(session, paths.trashed("gone")), brokers.questions, settle_s=0)
    assert answer.exit is Exit.UNREACHABLE


async def test_an_entry_of_the_trash_that_cannot_be_understood_is_an_ill(
    session: FakeSession, brokers: FakeBrokers
) -> None:
    await session.ensure_path(paths.TRASH)
    await apply(session, Create(paths.trashed("gone"), b"?"))
    ill = await only_ill(session, brokers)
    assert (ill.kind, ill.what, ill.topic) == (IllKind.ZNODE_UNREADABLE, paths.trashed("gone"), "gone")
    assert "LetheTrashUnreadable" in ill.remedy


async def test_an_epoch_that_may_not_be_read_is_unseen(session: FakeSession, brokers: FakeBrokers) -> None:
    seen = await looked(forbidding(session, paths.CONTROLLER_EPOCH), brokers)
    assert [problem.where for problem in seen.unseen] == [paths.CONTROLLER_EPOCH]


async def test_a_silent_broker_is_unseen(session: FakeSession, brokers: FakeBrokers) -> None:
    brokers.silent.add(2)
    seen = await looked(session, brokers)
    assert ("broker 2", "it does not answer") in seen.unseen
    assert seen.ills == ()


async def test_a_request_that_a_controller_takes_meanwhile_is_no_ill(
    session: FakeSession, brokers: FakeBrokers
) -> None:
    await PLANTS[IllKind.PREFERRED_ELECTION_LEFT](session, brokers)
    view = await view_of(session, brokers)
    assert kinds(diagnose(view)) == [IllKind.PREFERRED_ELECTION_LEFT]
    standing = frozenset(each for each in view.standing if each.path != paths.PREFERRED_REPLICA_ELECTION)
    assert diagnose(replace(view, standing=standing)).ills == ()


async def test_a_state_that_is_mended_meanwhile_is_no_ill(session: FakeSession, brokers: FakeBrokers) -> None:
    healthy = await view_of(session, brokers)
    await PLANTS[IllKind.STATE_OUTSIDE_ASSIGNMENT](session, brokers)
    view = await view_of(session, brokers)
    assert diagnose(replace(view, again=healthy.survey.zookeeper)).ills == ()


async def only_ill(session: FakeSession, brokers: FakeBrokers) -> Ill:
    (ill,) = (await looked(session, brokers)).ills
    return ill


async def test_a_partition_whose_records_only_a_foreign_broker_has_is_left_to_a_person(
    session: FakeSession, brokers: FakeBrokers
) -> None:
    state = encode_state(LeaderAndIsr(UNKNOWN, 0, (UNKNOWN,), 1))
    await apply(session, SetData(paths.partition_state("orders", 0), state, ANY_VERSION))
    ill = await only_ill(session, brokers)
    assert (ill.kind, ill.way) == (IllKind.STATE_OUTSIDE_ASSIGNMENT, RepairWay.PERSON)
    assert "--fix" not in ill.remedy


async def test_a_reassignment_whose_origin_is_not_in_sync_is_left_to_a_person(
    session: FakeSession, brokers: FakeBrokers
) -> None:
    await apply(session, reassigning("orders", ReplicaAssignment((2, ABSENT, 1), (2, ABSENT), (1,))))
    state = encode_state(LeaderAndIsr(2, 0, (2,), 1))
    await apply(session, SetData(paths.partition_state("orders", 0), state, ANY_VERSION))
    ill = await only_ill(session, brokers)
    assert (ill.kind, ill.way) == (IllKind.REASSIGNMENT_STUCK, RepairWay.PERSON)
    assert "--fix" not in ill.remedy


@pytest.mark.parametrize(
    "path, left",
    [
        (paths.debt(ABSENT, "gone", 5), [IllKind.ZNODE_UNREADABLE]),
        (paths.trashed("gone"), [IllKind.ZNODE_UNREADABLE]),
    ],
)
async def test_a_broker_that_a_debt_or_the_trash_may_name_keeps_its_configuration(
    session: FakeSession, brokers: FakeBrokers, path: str, left: list[IllKind]
) -> None:
    await PLANTS[IllKind.BROKER_CONFIG_WITHOUT_BROKER](session, brokers)
    await session.ensure_path(paths.parent_of(path))
    await apply(session, Create(path, b"?"))
    assert kinds(await looked(session, brokers)) == left


@pytest.mark.parametrize("admin", [None, "http://localhost:1"])
async def test_a_pause_that_the_controller_does_not_obey_is_said_to_hold_nothing(
    session: FakeSession, brokers: FakeBrokers, admin: str | None
) -> None:
    await PLANTS[IllKind.DELETIONS_PAUSED](session, brokers)
    await apply(session, Delete(paths.CONTROLLER))
    await elect(session, LEADER, admin=admin)
    ill = await only_ill(session, brokers)
    is_said = "no controller of Lethe's is seen, and Kafka's do not obey it" in ill.detail
    assert (ill.kind, is_said) == (IllKind.DELETIONS_PAUSED, admin is None)


async def test_each_stuck_partition_of_a_topic_is_an_ill(session: FakeSession, brokers: FakeBrokers) -> None:
    moving = {0: ReplicaAssignment((2, ABSENT, 1), (2, ABSENT), (1,)), 1: ReplicaAssignment((2, 1, ABSENT), (ABSENT,))}
    znode = encode_topic(TopicZnode(moving, TOPIC_ID))
    await apply(session, SetData(paths.topic("orders"), znode, ANY_VERSION))
    state = encode_state(LeaderAndIsr(2, 0, (2,), 1))
    await apply(session, SetData(paths.partition_state("orders", 0), state, ANY_VERSION))
    found = diagnose(await examine(session, brokers.questions, suspects, settle_s=0)).ills
    stuck = [(ill.partitions, ill.way) for ill in found if ill.kind is IllKind.REASSIGNMENT_STUCK]
    assert stuck == [((0,), RepairWay.PERSON), ((1,), RepairWay.CONTROL)]


async def test_ghosts_of_internal_topics_are_left_to_a_person(session: FakeSession, brokers: FakeBrokers) -> None:
    brokers.ghosts[2] = {"__consumer_offsets": CachedTopic(None, (0,))}
    ill = await only_ill(session, brokers)
    assert (ill.kind, ill.way) == (IllKind.CACHED_WITHOUT_TOPIC, RepairWay.PERSON)
    assert ill.remedy.startswith("restart broker 2")


async def test_partitions_that_only_an_earlier_topic_had(session: FakeSession, brokers: FakeBrokers) -> None:
    brokers.ghosts[2] = {"orders": CachedTopic(TOPIC_ID, (0, 1, 5))}
    ill = await only_ill(session, brokers)
    assert (ill.kind, ill.way, "partitions 5" in ill.detail) == (
        IllKind.CACHED_OTHER_INCARNATION,
        RepairWay.CONTROL,
        True,
    )


async def test_a_broker_that_is_down_keeps_its_configuration(session: FakeSession, brokers: FakeBrokers) -> None:
    """It has replicas, so it may return."""
    await PLANTS[IllKind.BROKER_CONFIG_WITHOUT_BROKER](session, brokers)
    await apply(session, reassigning("orders", ReplicaAssignment((1, ABSENT))))
    assert IllKind.BROKER_CONFIG_WITHOUT_BROKER not in kinds(await looked(session, brokers))


WITHOUT_TOPIC = [kind for kind in IllKind if kind.name.endswith("_WITHOUT_TOPIC")]


@pytest.mark.parametrize("kind", WITHOUT_TOPIC)
async def test_what_is_left_of_a_topic_in_the_trash_may_return(
    session: FakeSession, brokers: FakeBrokers, kind: IllKind
) -> None:
    await PLANTS[kind](session, brokers)
    await in_trash(session, **{"ghost" if kind is IllKind.CACHED_WITHOUT_TOPIC else "gone": ENTRY})
    assert kinds(await looked(session, brokers)) == []
    assert kinds(await looked(forbidding(session, paths.TRASH), brokers)) == [], "the trash is unseen"


@pytest.mark.parametrize("kind", WITHOUT_TOPIC)
@pytest.mark.parametrize("phase", [TrashPhase.FREEZING, TrashPhase.RESTORING, TrashPhase.OFFSETS])
async def test_what_is_left_of_a_topic_that_was_not_in_the_trash_when_it_was_deleted_is_an_ill(
    session: FakeSession, brokers: FakeBrokers, kind: IllKind, phase: TrashPhase
) -> None:
    await PLANTS[kind](session, brokers)
    name = "ghost" if kind is IllKind.CACHED_WITHOUT_TOPIC else "gone"
    await in_trash(session, **{name: ENTRY.entering(phase, 1)})
    assert kinds(await looked(session, brokers)) == [kind]


async def test_a_directory_that_the_trash_keeps_is_no_ill_where_another_topic_has_the_name(
    session: FakeSession, brokers: FakeBrokers
) -> None:
    await PLANTS[IllKind.DIRECTORY_OF_OTHER_INCARNATION](session, brokers)
    await in_trash(session, orders=replace(ENTRY, topic_id=OTHER_ID))
    assert kinds(await looked(session, brokers)) == []


async def test_a_broker_that_looks_at_no_epoch_is_unseen(session: FakeSession, brokers: FakeBrokers) -> None:
    view = await view_of(session, brokers)
    denied = EpochAnswer(BrokerId(2), ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    (problem,) = diagnose(replace(view, epochs=(view.epochs[0], denied))).unseen
    assert problem.what.endswith("is not known: CLUSTER_AUTHORIZATION_FAILED")


@pytest.mark.parametrize("known", [paths.controller_known(ABSENT), paths.instance(BrokerId(ABSENT))])
async def test_a_controller_of_lethe_keeps_its_configuration(
    session: FakeSession, brokers: FakeBrokers, known: str
) -> None:
    await PLANTS[IllKind.BROKER_CONFIG_WITHOUT_BROKER](session, brokers)
    await session.ensure_path(known)
    assert kinds(await looked(session, brokers)) == []
    assert kinds(await looked(forbidding(session, paths.parent_of(known)), brokers)) == []


async def test_a_throttle_during_a_reassignment_is_no_ill(session: FakeSession, brokers: FakeBrokers) -> None:
    await PLANTS[IllKind.THROTTLE_WITHOUT_REASSIGNMENT](session, brokers)
    request = encode_reassignment({TopicPartition("orders", 0): (2, 1)})
    await apply(session, Create(paths.REASSIGN_PARTITIONS, request))
    assert (await looked(session, brokers)).ills == ()


async def test_the_controller_of_a_rescue_is_no_broker_and_no_ill(session: FakeSession, brokers: FakeBrokers) -> None:
    await apply(session, Delete(paths.CONTROLLER))
    await apply(session, Create(paths.CONTROLLER, b'{"version":1,"brokerid":99,"lethe":{"admin":"http://h:1"}}'))
    assert (await looked(session, brokers)).ills == ()


@pytest.mark.parametrize("kind", [IllKind.ORDER_FOR_LETHE, IllKind.REQUEST_FOR_LETHE, IllKind.DEBT_UNPAID])
async def test_what_is_for_lethe_s_controller_is_no_ill_while_one_is_active(
    session: FakeSession, brokers: FakeBrokers, kind: IllKind
) -> None:
    await PLANTS[kind](session, brokers)
    await apply(session, Delete(paths.CONTROLLER))
    await elect(session, 1, admin="http://h:1")
    assert kind not in kinds(await looked(session, brokers))
    blind = await looked(forbidding(session, paths.CONTROLLER), brokers)
    assert kind not in kinds(blind), "which controller is active is unseen"


async def test_an_unreadable_marker_is_seen_and_a_forbidden_one_is_not(
    session: FakeSession, brokers: FakeBrokers
) -> None:
    await apply(session, SetData(paths.partition_state("orders", 0), b"{", ANY_VERSION))
    state = paths.partition_state("orders", 0)
    assert [(ill.kind, ill.what, ill.topic) for ill in (await looked(session, brokers)).ills] == [
        (IllKind.ZNODE_UNREADABLE, state, "orders")
    ]
    seen = await looked(forbidding(session, state), brokers)
    assert (kinds(seen), [problem.where for problem in seen.unseen]) == ([], [state])


async def test_worst_first_and_where_each_is(session: FakeSession, brokers: FakeBrokers) -> None:
    for kind in (IllKind.CONFIG_WITHOUT_TOPIC, IllKind.DIRECTORY_WITHOUT_TOPIC, IllKind.BROKER_REFUSES_EPOCH):
        await PLANTS[kind](session, brokers)
    await PLANTS[IllKind.CACHED_WITHOUT_TOPIC](session, brokers)
    view = await view_of(session, brokers)
    seen = diagnose(view)
    assert [where(ill) for ill in seen.ills] == [
        "broker 2",
        "broker 1: ghost",
        "broker 1: /data/gone-0",
        paths.config_topic("gone"),
    ]
    answer = found(view, seen)
    assert answer.lines[0] == "1 error, 2 warnings, 1 note."
    assert isinstance(answer.data, dict)
    assert answer.data["healthy"] is False
