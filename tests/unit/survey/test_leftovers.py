"""Which findings a survey leads to: every kind, and none where things are as they should be or may yet change."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from lethe.adapters.debts import OpenDebt
from lethe.protocol.findings import Place, Reason, Standing
from lethe.protocol.kafka.cached_topics import CachedTopic
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.vocabulary import (
    Broker,
    BrokerEpoch,
    BrokerId,
    Endpoint,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicId,
    TopicPartition,
)
from lethe.protocol.zookeeper.znodes import Debt
from lethe.survey.as_json import survey_to_json
from lethe.survey.leftovers import Leftover, leftovers, would_be_found
from lethe.survey.views import (
    NOT_SEEN,
    BrokerAnswers,
    BrokerFailure,
    BrokerPlace,
    Directory,
    LogDirSource,
    LogDirView,
    Problem,
    Survey,
    TopicTree,
    UnansweredQuestion,
    ZooKeeperTree,
)
from tests.fakes.random_surveys import draw_survey

ID, OTHER_ID = TopicId(uuid.UUID(int=7)), TopicId(uuid.UUID(int=8))
STATE = LeaderAndIsr(1, 0, (1, 2), 1)


def topic(name: str = "orders", topic_id: TopicId | None = ID, partitions: int = 2) -> TopicTree:
    numbers = tuple(range(partitions))
    return TopicTree(
        name, topic_id, {p: ReplicaAssignment((1, 2)) for p in numbers}, numbers, dict.fromkeys(numbers, STATE)
    )


def directory(name: str, kind: DirectoryKind = DirectoryKind.REPLICA, topic_id: TopicId | None = ID) -> Directory:
    stem, _, partition = name.partition(".")[0].rpartition("-")
    return Directory(name, kind, TopicPartition(stem, int(partition)), 100, topic_id, 3)


def tree(**changes: object) -> ZooKeeperTree:
    brokers = tuple(Broker(BrokerId(n), BrokerEpoch(n), (Endpoint("PLAINTEXT", "h", 1),)) for n in (1, 2))
    good = ZooKeeperTree(topics={"orders": topic()}, configured=("orders",), brokers=brokers)
    return dataclasses.replace(good, **changes)  # type: ignore[arg-type]


def survey(
    zookeeper: ZooKeeperTree | None = None,
    cached: Mapping[int, Mapping[str, CachedTopic] | None] | None = None,
    disks: Mapping[int, tuple[Directory, ...]] | None = None,
    **changes: object,
) -> Survey:
    """A healthy cluster of one topic on two brokers, with these differences."""
    caches = {1: {"orders": CachedTopic(ID, (0, 1))}, 2: {"orders": CachedTopic(ID, (0, 1))}, **(cached or {})}
    own = (directory("orders-0"), directory("orders-1"))
    views = tuple(
        LogDirView(BrokerId(b), f"/d{b}", LogDirSource.LOCAL, found)
        for b, found in {1: own, 2: own, **(disks or {})}.items()
    )
    answers = tuple(
        BrokerAnswers(BrokerId(b), cache, log_dirs=tuple(view for view in views if view.broker == b))
        for b, cache in caches.items()
    )
    return dataclasses.replace(Survey(0, 1, zookeeper or tree(), answers, views), **changes)  # type: ignore[arg-type]


def only(found: Survey) -> Leftover:
    (leftover,) = leftovers(found)
    return leftover


def test_a_healthy_cluster_has_nothing_left_over() -> None:
    assert leftovers(survey()) == ()
    assert (leftovers(survey()), survey().is_complete) == ((), True)


# --- ZooKeeper ----------------------------------------------------------------------------------------------------


def test_a_marker_without_topic() -> None:
    found = only(survey(tree(marked=("ghost",))))
    assert (found.place, found.reason, found.what) == (
        Place.ZOOKEEPER,
        Reason.MARKER_WITHOUT_TOPIC,
        "/admin/delete_topics/ghost",
    )
    assert found.standing is Standing.LEFT_OVER


@pytest.mark.parametrize("is_read", [False, True])
def test_what_may_be_in_the_trash_is_not_left_over(is_read: bool) -> None:
    """Where the trash is unseen, it may have the topic, whose settings and directories are kept."""
    trash = {"trashed": {"kept": ID}} if is_read else {"problems": (Problem("/lethe/trash", "NO_AUTH"),)}
    own = (directory("orders-0"), directory("orders-1"))
    kept = survey(tree(configured=("kept", "orders"), **trash), disks={1: (*own, directory("kept-0"))})
    assert leftovers(kept) == ()
    assert kept.is_complete is is_read


KEPT_ID, THIRD_ID = OTHER_ID, TopicId(uuid.UUID(int=9))


@pytest.mark.parametrize(
    "trash, found_id, reason",
    [
        ({"trashed": {"orders": KEPT_ID}}, KEPT_ID, None),
        ({"trashed": {"orders": KEPT_ID}}, None, None),
        ({"trashed": {"orders": KEPT_ID}}, THIRD_ID, Reason.DIRECTORY_OF_OTHER_INCARNATION),
        ({"trashed": {"orders": KEPT_ID}}, ID, Reason.DIRECTORY_NOT_ASSIGNED),
        ({"trashed": {"other": KEPT_ID}}, KEPT_ID, Reason.DIRECTORY_OF_OTHER_INCARNATION),
        ({"trashed": {"other": KEPT_ID}}, None, Reason.DIRECTORY_NOT_ASSIGNED),
        ({"unreadable_trash": {"orders": "not JSON"}}, THIRD_ID, None),
        ({"unreadable_trash": {"orders": "not JSON"}}, None, None),
        ({"unreadable_trash": {"orders": "not JSON"}}, ID, Reason.DIRECTORY_NOT_ASSIGNED),
        ({"problems": (Problem("/lethe/trash", "NO_AUTH"),)}, THIRD_ID, None),
        ({"problems": (Problem("/lethe/trash", "NO_AUTH"),)}, None, None),
        ({"problems": (Problem("/lethe/trash", "NO_AUTH"),)}, ID, Reason.DIRECTORY_NOT_ASSIGNED),
    ],
)
def test_what_is_kept_is_not_left_over_where_another_topic_has_the_name(
    trash: dict[str, object], found_id: TopicId | None, reason: Reason | None
) -> None:
    """Kafka creates a topic under a reserved name, here on broker 2 alone; those on broker 1 may be the only copies."""
    another = dataclasses.replace(topic(), assignments=dict.fromkeys((0, 1), ReplicaAssignment((2,))))
    disks = {1: (directory("orders-0", topic_id=found_id),)}
    seen = survey(tree(topics={"orders": another}, **trash), disks=disks)
    assert [found.reason for found in leftovers(seen)] == ([] if reason is None else [reason])


def test_a_directory_that_is_kept_is_not_said_to_be_missing() -> None:
    """It is in the place of the other topic's replica, which its broker refuses to create."""
    disks = {1: (directory("orders-0", topic_id=KEPT_ID), directory("orders-1"))}
    assert leftovers(survey(tree(trashed={"orders": KEPT_ID}), disks=disks)) == ()


def test_a_directory_of_neither_topic_is_left_over_although_the_name_is_in_the_trash() -> None:
    own = (directory("orders-0"), directory("orders-1"))
    found = only(survey(tree(trashed={"kept": ID}), disks={1: (*own, directory("kept-0", topic_id=THIRD_ID))}))
    assert (found.reason, found.what) == (Reason.DIRECTORY_WITHOUT_TOPIC, "/d1/kept-0")


def test_a_marked_topic_is_pending_and_nothing_else_is_said_of_it() -> None:
    gone = survey(tree(marked=("orders",)), {1: {}, 2: {}}, {1: (), 2: ()})
    assert (only(gone).reason, only(gone).standing) == (Reason.MARKED_TOPIC, Standing.PENDING)


def test_a_configuration_without_topic() -> None:
    found = only(survey(tree(configured=("ghost", "orders"))))
    assert (found.reason, found.what) == (Reason.CONFIG_WITHOUT_TOPIC, "/config/topics/ghost")


def test_a_reassignment_of_an_unknown_topic() -> None:
    reassigning = {TopicPartition("ghost", 3): (1,), TopicPartition("orders", 0): (1, 2)}
    found = only(survey(tree(reassigning=reassigning)))
    assert (found.reason, found.topic, found.partition) == (Reason.REASSIGNMENT_WITHOUT_TOPIC, "ghost", 3)


@pytest.mark.parametrize(
    "changes, detail",
    [
        ({"states": {0: STATE}}, "partitions 1 have no state"),
        ({"assignments": {0: ReplicaAssignment((1, 2))}}, "partitions 1 are not in its assignment"),
        ({"partition_znodes": (), "states": {}}, "partitions 0, 1 are gone"),
    ],
)
def test_half_a_topic(changes: dict[str, object], detail: str) -> None:
    half = dataclasses.replace(topic(), **changes)  # type: ignore[arg-type]
    found = [f for f in leftovers(survey(tree(topics={"orders": half}))) if f.place is Place.ZOOKEEPER]
    assert [(f.reason, f.standing) for f in found] == [(Reason.INCOMPLETE_TOPIC, Standing.INCOMPLETE)]
    assert detail in found[0].detail
    marked = survey(tree(topics={"orders": half}, marked=("orders",)))
    assert [(f.reason, f.detail) for f in leftovers(marked) if f.reason is not Reason.MARKED_TOPIC] == [
        (Reason.HALF_DELETED_TOPIC, found[0].detail)
    ]


@pytest.mark.parametrize("marked", [(), ("orders",)])
def test_a_topic_whose_znode_was_not_understood_is_a_problem_and_no_finding(marked: tuple[str, ...]) -> None:
    unread = dataclasses.replace(topic(), topic_id=None, assignments=None)
    problem = Problem("/brokers/topics/orders", "NO_AUTH")
    found = survey(tree(topics={"orders": unread}, marked=marked, problems=(problem,)))
    assert [f.reason for f in leftovers(found)] == [Reason.MARKED_TOPIC] * len(marked)
    assert leftovers(found) or not found.is_complete


def test_missing_partitions_are_damage_only_where_the_topic_is_marked() -> None:
    half = dataclasses.replace(topic(), partition_znodes=(0,), states={0: STATE})
    assert leftovers(survey(tree(topics={"orders": half}))) == ()
    marked = survey(tree(topics={"orders": half}, marked=("orders",)))
    assert {found.reason for found in leftovers(marked)} == {Reason.MARKED_TOPIC, Reason.HALF_DELETED_TOPIC}


NEW = TopicTree("orders", ID, {0: ReplicaAssignment((1, 2))})
"""A topic that no controller has taken up."""


def test_a_topic_without_partitions_in_no_cache_and_on_no_disk_is_a_finding() -> None:
    found = only(survey(tree(topics={"orders": NEW}), {1: {}, 2: {}}, {1: (), 2: ()}))
    assert (found.reason, found.standing) == (Reason.INCOMPLETE_TOPIC, Standing.INCOMPLETE)
    assert (found.what, found.detail) == ("/brokers/topics/orders", "its znode partitions is missing")


@pytest.mark.parametrize(
    "there",
    [
        {"problems": (Problem("/brokers/topics/orders/partitions", "NO_AUTH"),)},
        {"problems": (Problem("/admin/delete_topics", "NO_AUTH"),)},
        {"topics": {"orders": dataclasses.replace(NEW, assignments={})}},
    ],
    ids=["partitions unread", "markers unread", "no partition assigned"],
)
def test_partitions_that_are_only_unseen_are_none(there: dict[str, Any]) -> None:
    assert leftovers(survey(tree(**{"topics": {"orders": NEW}} | there), {1: {}, 2: {}}, {1: (), 2: ()})) == ()


def test_a_marked_topic_without_partitions_is_pending() -> None:
    marked = survey(tree(topics={"orders": NEW}, marked=("orders",)), {1: {}, 2: {}}, {1: (), 2: ()})
    assert only(marked).reason is Reason.MARKED_TOPIC


# --- caches -------------------------------------------------------------------------------------------------------


def test_a_ghost_in_a_cache() -> None:
    found = only(survey(cached={2: {"orders": CachedTopic(ID, (0, 1)), "ghost": CachedTopic(OTHER_ID, (0,))}}))
    assert (found.place, found.reason, found.what, found.broker) == (
        Place.CACHE,
        Reason.CACHED_WITHOUT_TOPIC,
        "ghost",
        2,
    )


def test_an_earlier_incarnation_in_a_cache() -> None:
    found = only(survey(cached={1: {"orders": CachedTopic(OTHER_ID, (0, 1))}}))
    assert (found.reason, found.broker) == (Reason.CACHED_OTHER_INCARNATION, 1)


def test_without_ids_incarnations_are_not_told_apart() -> None:
    assert leftovers(survey(cached={1: {"orders": CachedTopic(None, (0, 1))}})) == ()
    nameless = tree(topics={"orders": topic(topic_id=None)})
    assert leftovers(survey(nameless)) == ()


def test_a_topic_in_no_cache() -> None:
    assert leftovers(survey(cached={1: {}})) == ()
    found = only(survey(cached={1: {}, 2: {}}))
    assert (found.reason, found.standing) == (Reason.IN_NO_CACHE, Standing.MISSING)


def test_a_topic_may_be_in_the_cache_of_a_broker_that_was_not_heard() -> None:
    assert leftovers(survey(cached={1: None, 2: {}})) == ()
    one_unread = tree(brokers=tree().brokers[1:], problems=(Problem("/brokers/ids/1", "NO_AUTH"),))
    assert leftovers(survey(one_unread, {1: None, 2: {}})) == ()
    alone = dataclasses.replace(topic(), assignments={p: ReplicaAssignment((2,)) for p in (0, 1)})
    registered = tree(topics={"orders": alone}, brokers=tree().brokers[1:])
    assert only(survey(registered, {1: None, 2: {}}, {1: ()})).reason is Reason.IN_NO_CACHE


def test_silent_brokers_say_nothing() -> None:
    assert leftovers(survey(cached={1: None, 2: None})) == ()


# --- disks --------------------------------------------------------------------------------------------------------

OWN = (directory("orders-0"), directory("orders-1"))


@pytest.mark.parametrize(
    "extra, reason, standing",
    [
        (directory("ghost-0"), Reason.DIRECTORY_WITHOUT_TOPIC, Standing.LEFT_OVER),
        (directory("orders-7"), Reason.DIRECTORY_NOT_ASSIGNED, Standing.LEFT_OVER),
        (directory("orders-0", topic_id=OTHER_ID), Reason.DIRECTORY_OF_OTHER_INCARNATION, Standing.LEFT_OVER),
        (directory("ghost-0.ab-delete", DirectoryKind.DELETED), Reason.NOT_RECLAIMED_YET, Standing.PENDING),
        (directory("orders-0.ab-stray", DirectoryKind.STRAY), Reason.STRAY_DIRECTORY, Standing.SET_ASIDE),
        (directory("ghost-0.ab-future", DirectoryKind.FUTURE), Reason.DIRECTORY_WITHOUT_TOPIC, Standing.LEFT_OVER),
        (directory("order-0.ab-future", DirectoryKind.FUTURE), Reason.DIRECTORY_WITHOUT_TOPIC, Standing.LEFT_OVER),
        (directory("orders-7.ab-future", DirectoryKind.FUTURE), Reason.DIRECTORY_NOT_ASSIGNED, Standing.LEFT_OVER),
        (
            directory("orders-0.ab-future", DirectoryKind.FUTURE, OTHER_ID),
            Reason.DIRECTORY_OF_OTHER_INCARNATION,
            Standing.LEFT_OVER,
        ),
    ],
)
def test_a_directory_that_should_not_be_there(extra: Directory, reason: Reason, standing: Standing) -> None:
    found = only(survey(disks={2: (*OWN, extra)}))
    assert (found.place, found.reason, found.standing) == (Place.DISK, reason, standing)
    assert (found.broker, found.what, found.size_bytes) == (2, f"/d2/{extra.name}", 100)


def test_a_replica_on_a_broker_that_is_not_assigned() -> None:
    moved = dataclasses.replace(topic(), assignments={p: ReplicaAssignment((1,)) for p in (0, 1)})
    found = leftovers(survey(tree(topics={"orders": moved})))
    assert [(f.reason, f.broker) for f in found] == [(Reason.DIRECTORY_NOT_ASSIGNED, 2)] * 2


def test_what_moves_between_directories_and_what_is_not_kafkas_are_no_findings() -> None:
    future = directory("orders-0.ab-future", DirectoryKind.FUTURE)
    foreign = Directory("lost+found", DirectoryKind.UNKNOWN)
    assert leftovers(survey(disks={1: (*OWN, future, foreign)})) == ()


def test_a_replica_without_directory() -> None:
    found = only(survey(disks={1: (directory("orders-0"),)}))
    assert (found.reason, found.broker, found.partition) == (Reason.REPLICA_WITHOUT_DIRECTORY, 1, 1)


def test_a_replica_is_not_missed_where_its_broker_could_not_be_seen_whole() -> None:
    healthy = survey()
    failed = LogDirView(BrokerId(1), "/other", LogDirSource.BROKER, problem="KAFKA_STORAGE_ERROR")
    views = (failed, LogDirView(BrokerId(2), "/d2", LogDirSource.LOCAL, OWN))
    assert leftovers(dataclasses.replace(healthy, log_dirs=views)) == ()
    assert leftovers(dataclasses.replace(healthy, log_dirs=views[1:])) == ()


def test_a_replica_is_not_missed_on_a_broker_that_is_down_or_only_being_added() -> None:
    down = tree(brokers=tree().brokers[:1])
    assert leftovers(survey(down, disks={2: ()})) == ()
    adding = dataclasses.replace(topic(), assignments={p: ReplicaAssignment((1, 2), adding=(2,)) for p in (0, 1)})
    assert leftovers(survey(tree(topics={"orders": adding}), disks={2: ()})) == ()


def test_a_replica_is_not_missed_where_its_broker_did_not_tell_what_log_directories_it_has() -> None:
    healthy = survey(disks={1: (directory("orders-0"),)})
    assert only(healthy).reason is Reason.REPLICA_WITHOUT_DIRECTORY
    silent = BrokerAnswers(BrokerId(1), unseen=(UnansweredQuestion(BrokerFailure.SILENT, "silent"),))
    assert leftovers(dataclasses.replace(healthy, answers=(silent, healthy.answers[1]))) == ()


def test_nothing_is_missed_or_misplaced_while_it_moves() -> None:
    leaving = dataclasses.replace(topic(), assignments={p: ReplicaAssignment((1, 2), removing=(2,)) for p in (0, 1)})
    assert leftovers(survey(tree(topics={"orders": leaving}), disks={2: ()})) == ()
    wanted = {TopicPartition("orders", p): (1, 3) for p in (0, 1)}
    assert leftovers(survey(tree(reassigning=wanted), disks={2: (), 3: OWN})) == ()


# --- doubt --------------------------------------------------------------------------------------------------------


def test_nothing_is_said_of_topics_in_motion() -> None:
    moving = survey(tree(marked=("ghost",)), {1: {"ghost": CachedTopic(ID, (0,))}}, {1: (*OWN, directory("ghost-0"))})
    assert {found.topic for found in leftovers(moving)} == {"ghost"}
    assert leftovers(dataclasses.replace(moving, in_motion=("ghost",))) == ()


OLD = directory("x-0.ab-delete", DirectoryKind.DELETED)


def test_without_the_list_of_topics_nothing_is_called_left_over() -> None:
    """What a broker has renamed is on its way out whichever topics there are."""
    disks = {1: (*OWN, OLD)}
    reassigning = {TopicPartition("orders", 0): (1,)}
    empty = tree(topics={}, marked=("orders",), reassigning=reassigning)
    assert {f.place for f in leftovers(survey(empty, disks=disks))} == set(Place)
    problem = Problem("/brokers/topics", "NO_AUTH")
    unread = survey(dataclasses.replace(empty, problems=(problem,)), disks=disks)
    assert only(unread).reason is Reason.NOT_RECLAIMED_YET
    assert leftovers(unread) or not unread.is_complete


@pytest.mark.parametrize(
    "problems, why",
    [
        ((), "broker 1 is not registered: nothing removes it until the broker starts"),
        ((Problem("/brokers/ids/1", "NO_AUTH"),), "whether broker 1 is registered is not known"),
        ((Problem("/brokers/ids", "NO_AUTH"),), "whether broker 1 is registered is not known"),
    ],
)
def test_a_registration_that_could_not_be_read_is_no_absence(problems: tuple[Problem, ...], why: str) -> None:
    seen = survey(tree(brokers=(), problems=problems), disks={1: (*OWN, OLD)})
    found = only(dataclasses.replace(seen, removals={}))
    assert (found.reason, found.detail, found.within_delay) == (Reason.NOT_RECLAIMED_YET, why, False)


@pytest.mark.parametrize("path", ["/admin/delete_topics", "/admin/reassign_partitions"])
def test_without_markers_or_reassignments_nothing_of_a_topic_is_missed(path: str) -> None:
    half = dataclasses.replace(topic("half"), states={0: STATE}, assignments={})
    seen = tree(topics={"orders": topic(), "half": half})
    disks = {1: (OWN[0], directory("half-0"), directory("orders-7")), 2: (*OWN, directory("half-0"))}
    cached: dict[int, dict[str, CachedTopic]] = {1: {}, 2: {}}
    reasons = {f.reason for f in leftovers(survey(seen, cached, disks))}
    assert reasons == {
        *(Reason.INCOMPLETE_TOPIC, Reason.IN_NO_CACHE),
        *(Reason.REPLICA_WITHOUT_DIRECTORY, Reason.DIRECTORY_NOT_ASSIGNED),
    }
    blind = dataclasses.replace(seen, problems=(Problem(path, "NO_AUTH"),))
    assert leftovers(survey(blind, cached, disks)) == ()


def test_a_broker_that_is_down_may_have_anything_on_its_disks() -> None:
    """It is assigned replicas and not registered, so nobody asked it."""
    assigned = {0: ReplicaAssignment((1, 3)), 1: ReplicaAssignment((2, 7), adding=(7,))}
    moved = dataclasses.replace(topic(), assignments=assigned)
    disks = {1: OWN[:1], 2: OWN[1:]}
    down = survey(tree(topics={"orders": moved}), disks=disks)
    assert (leftovers(down), down.is_complete) == ((), False)
    assert down.problems == (Problem("broker 3", NOT_SEEN), Problem("broker 7", NOT_SEEN))
    named = survey(tree(topics={"orders": moved}), disks={**disks, 3: OWN[:1], 7: ()})
    assert (leftovers(named), named.is_complete) == ((), True)
    unread = Problem("/brokers/ids/3", "malformed")
    assert survey(tree(topics={"orders": moved}, problems=(unread,)), disks=disks).problems == (unread,)


def test_what_could_not_be_seen_keeps_a_survey_from_being_clean() -> None:
    blind = survey(tree(problems=(Problem("/brokers/ids/1", "NO_AUTH"),)))
    assert leftovers(blind) == ()
    assert leftovers(blind) or not blind.is_complete


SILENT = UnansweredQuestion(BrokerFailure.SILENT, "silent")
TOLD = (DirectoryKind.REPLICA, DirectoryKind.FUTURE)
LOCAL_ONLY = {Reason.DIRECTORY_OF_OTHER_INCARNATION, Reason.NOT_RECLAIMED_YET, Reason.STRAY_DIRECTORY}
OF_DISKS = {reason for reason in Reason if reason.place is Place.DISK}
OF_CACHES = {reason for reason in Reason if reason.place is Place.CACHE}


def as_described(view: LogDirView) -> LogDirView:
    """What the broker of the log directory tells of it."""
    seen = tuple(each._replace(topic_id=None) for each in view.directories if each.kind in TOLD)
    return dataclasses.replace(view, source=LogDirSource.BROKER, directories=seen)


def unanswered(seen: Survey, broker: int, place: BrokerPlace | None) -> Survey:
    """The same where the broker does not answer about that place; None: about nothing."""
    answers = tuple(
        dataclasses.replace(
            each,
            cache=each.cache if place is BrokerPlace.LOGS else None,
            log_dirs=each.log_dirs if place is BrokerPlace.CACHE else None,
            unseen=(SILENT._replace(place=place),),
        )
        if each.broker == broker
        else each
        for each in seen.answers
    )
    disks = seen.log_dirs if place is BrokerPlace.CACHE else tuple(v for v in seen.log_dirs if v.broker != broker)
    return dataclasses.replace(seen, answers=answers, log_dirs=disks)


def test_where_something_is_unseen_no_findings_prove_nothing() -> None:
    seen = survey()
    (first, second) = seen.log_dirs
    away = tree(brokers=tree().brokers[:1])
    for blind, unknown in (
        (seen, set()),
        (survey(tree(problems=(Problem("/controller", "NO_AUTH"),))), set(Reason)),
        (unanswered(seen, 1, BrokerPlace.CACHE), OF_CACHES),
        (unanswered(seen, 1, BrokerPlace.LOGS), OF_DISKS),
        (unanswered(seen, 1, None), OF_CACHES | OF_DISKS),
        (survey(log_dirs=(first, dataclasses.replace(second, problem="unreadable"))), OF_DISKS),
        (survey(log_dirs=(first, as_described(second))), LOCAL_ONLY),
        (survey(away, log_dirs=(first,)), OF_DISKS),
        (survey(owed_by(3)), {Reason.DIRECTORY_OWED}),
    ):
        assert {reason for reason in Reason if not would_be_found(blind, reason)} == unknown


def test_whatever_is_hidden_of_a_survey_is_not_counted_as_none() -> None:
    lost = 0
    for seed in range(300):
        seen = draw_survey(seed)
        registered = [int(broker.id) for broker in seen.zookeeper.brokers]
        hiding = [unanswered(seen, broker, place) for broker in registered for place in (*BrokerPlace, None)]
        hiding.append(dataclasses.replace(seen, log_dirs=tuple(map(as_described, seen.log_dirs))))
        before = {each.reason for each in leftovers(seen)}
        for blind in hiding:
            gone = before - {each.reason for each in leftovers(blind)}
            assert not [reason for reason in gone if would_be_found(blind, reason)], f"seed {seed}"
            lost += len(gone)
    assert lost > 300


def test_the_document_counts_every_place_and_lists_each_finding() -> None:
    found = survey(tree(marked=("ghost",)), disks={2: (*OWN, directory("x-0.ab-delete", DirectoryKind.DELETED))})
    document = survey_to_json(found, leftovers(found))
    assert document["clean"] is False
    assert document["counts"] == {
        "zookeeper": {"left_over": 1, "set_aside": 0, "missing": 0, "incomplete": 0, "pending": 0},
        "cache": {"left_over": 0, "set_aside": 0, "missing": 0, "incomplete": 0, "pending": 0},
        "disk": {"left_over": 0, "set_aside": 0, "missing": 0, "incomplete": 0, "pending": 1},
    }
    findings = document["findings"]
    assert isinstance(findings, list)
    assert len(findings) == 2


def test_each_reason_is_met_in_its_place_only() -> None:
    """What shows counts by reason, as Prometheus does, knows the place by it."""
    found = [each for seed in range(150) for each in leftovers(draw_survey(seed))]
    assert {each.reason for each in found} == set(Reason)
    assert {(each.reason, each.place) for each in found} == {(reason, reason.place) for reason in Reason}


def owed_by(broker: int, topic_id: TopicId | None = OTHER_ID) -> ZooKeeperTree:
    return tree(debts=(OpenDebt(BrokerId(broker), "gone", 17, Debt(topic_id, (0,), 0, 1), 0),))


def test_what_an_absent_broker_owes_is_no_leftover_but_a_promise() -> None:
    disks = {3: (directory("gone-0", topic_id=OTHER_ID), directory("gone-1", topic_id=OTHER_ID))}
    owed, left = leftovers(survey(owed_by(3), disks=disks))
    assert (owed.reason, owed.standing, owed.what, owed.within_delay) == (
        Reason.DIRECTORY_OWED,
        Standing.PENDING,
        "/d3/gone-0",
        True,
    )
    assert (left.reason, left.what) == (Reason.DIRECTORY_WITHOUT_TOPIC, "/d3/gone-1"), "the debt is of partition 0"


def test_what_a_broker_owes_that_is_back_is_still_to_be_done() -> None:
    own = (directory("orders-0"), directory("orders-1"), directory("gone-0", topic_id=OTHER_ID))
    (owed,) = leftovers(survey(owed_by(2), disks={2: own}))
    assert (owed.reason, owed.within_delay) == (Reason.DIRECTORY_OWED, False)


def test_an_old_incarnation_that_is_owed_under_a_used_name() -> None:
    debt = OpenDebt(BrokerId(2), "orders", 17, Debt(OTHER_ID, (0, 1), 0, 1), 0)
    disks = {2: (directory("orders-0", topic_id=OTHER_ID), directory("orders-1"))}
    (owed,) = leftovers(survey(tree(debts=(debt,)), disks=disks))
    assert (owed.reason, owed.what) == (Reason.DIRECTORY_OWED, "/d2/orders-0")
