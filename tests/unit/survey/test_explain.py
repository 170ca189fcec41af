"""What is concluded about a topic: from outside alone, and from the controller's word joined to it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from lethe.adapters.debts import OpenDebt
from lethe.admin.refusal import Exit
from lethe.cli.explain_show import one
from lethe.protocol.causes import CauseKind
from lethe.protocol.vocabulary import BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper.znodes import ControllerZnode, Debt, DeletionsPaused
from lethe.survey.causes import ObservedCause, age_text, ranges, sentence, unblock
from lethe.survey.evidence import (
    ControllerReport,
    DeletionHolds,
    DynamicSetting,
    Evidence,
    ProtectedTopics,
    RefusedDeletion,
    ReportedReplica,
    ReportedTopic,
)
from lethe.survey.explain import DeletionVerdict, explain, explain_all
from lethe.survey.replicas import ReplicaPresence
from lethe.survey.views import (
    BrokerFailure,
    LogDirSource,
    LogDirView,
    Problem,
    TopicTree,
)
from tests.fakes.marked_topic import KAFKA, ORDERS, STATE, controller_report, evidence, kinds, renamed, stored
from tests.fakes.trash import ENTRY

# --- from outside -------------------------------------------------------------------------------------------------


def test_nothing_is_wrong() -> None:
    found = explain(evidence(), "orders")
    assert (found.verdict, kinds(found)) == (DeletionVerdict.IN_PROGRESS, [(CauseKind.IN_PROGRESS, None)])
    assert all(replica.is_done and replica.seen is ReplicaPresence.GONE for replica in found.replicas)


def test_a_broker_that_is_gone_is_the_cause_for_all_its_partitions() -> None:
    found = explain(evidence(brokers=(1,)), "orders")
    assert found.verdict is DeletionVerdict.WAITING
    assert found.causes == (ObservedCause(CauseKind.BROKER_TO_RETURN, BrokerId(2), (0, 1)),)
    assert [(r.partition, r.broker, r.seen) for r in found.replicas if not r.is_done] == [
        (0, 2, ReplicaPresence.UNKNOWN),
        (1, 2, ReplicaPresence.UNKNOWN),
    ]


@pytest.mark.parametrize(
    "failure, kind",
    [
        (BrokerFailure.SILENT, CauseKind.BROKER_SILENT),
        (BrokerFailure.UNREACHABLE, CauseKind.BROKER_UNREACHABLE),
        (BrokerFailure.ERROR, CauseKind.BROKER_ERROR),
    ],
)
def test_brokers_that_fail_are_told_apart(failure: BrokerFailure, kind: CauseKind) -> None:
    found = explain(evidence(failures={2: failure}), "orders")
    assert found.causes == (ObservedCause(kind, BrokerId(2), (0, 1), detail="it did not answer"),)


@pytest.mark.parametrize("failure", [BrokerFailure.UNASKED, BrokerFailure.REFUSED])
def test_a_broker_that_we_may_not_ask_is_not_taken_for_done_nor_for_broken(failure: BrokerFailure) -> None:
    assert kinds(explain(evidence(failures={2: failure}), "orders")) == [(CauseKind.BROKER_UNASKABLE, 2)]


def test_a_failed_directory_is_the_cause_only_for_what_is_in_no_other() -> None:
    found = explain(evidence(failed_dirs=(1,), disks={1: stored(0)}), "orders")
    assert found.causes == (
        ObservedCause(CauseKind.LOG_DIRECTORY, BrokerId(1), (1,), "/bad", detail="a replica may lie in it"),
    )
    assert [replica.seen for replica in found.replicas if replica.broker == 1] == [
        ReplicaPresence.STORED,
        ReplicaPresence.UNKNOWN,
    ]


def test_a_directory_that_its_broker_does_not_list_may_hold_the_replica() -> None:
    found = explain(evidence(unlisted_dirs=(1,), disks={1: (renamed(0),)}), "orders")
    assert found.causes == (
        ObservedCause(CauseKind.BROKER_ERROR, BrokerId(1), (1,), detail="/odd: it answers UNKNOWN_SERVER_ERROR"),
    )
    assert [replica.is_done for replica in found.replicas if replica.broker == 1] == [True, False]


def test_a_directory_that_only_this_machine_cannot_read_is_no_error_of_its_broker() -> None:
    given = evidence(brokers=(1,))
    views = (
        *given.survey.log_dirs,
        LogDirView(BrokerId(1), "/elsewhere", LogDirSource.LOCAL, problem="no such directory"),
    )
    found = explain(dataclasses.replace(given, survey=dataclasses.replace(given.survey, log_dirs=views)), "orders")
    assert kinds(found) == [(CauseKind.BROKER_TO_RETURN, 2)]


def test_a_registered_broker_without_an_answer_is_not_taken_for_done() -> None:
    given = evidence()
    survey = dataclasses.replace(given.survey, answers=given.survey.answers[1:])
    silent = dataclasses.replace(given, survey=survey)
    assert kinds(explain(silent, "orders")) == [(CauseKind.BROKER_UNASKABLE, 1)]


def test_what_is_still_stored_is_under_way() -> None:
    found = explain(evidence(disks={1: stored(0, 1), 2: (renamed(0), renamed(1))}), "orders")
    assert (found.verdict, kinds(found)) == (DeletionVerdict.IN_PROGRESS, [(CauseKind.STILL_STORED, 1)])
    assert [r.seen for r in found.replicas] == [
        ReplicaPresence.STORED,
        ReplicaPresence.RENAMED,
        ReplicaPresence.STORED,
        ReplicaPresence.RENAMED,
    ]


def test_no_controller_comes_before_all() -> None:
    found = explain(evidence(controller=None, brokers=(1,), disks={1: stored(0)}), "orders")
    assert kinds(found) == [(CauseKind.NO_CONTROLLER, None), (CauseKind.BROKER_TO_RETURN, 2)]
    assert found.replicas[0].cause == ObservedCause(CauseKind.NO_CONTROLLER)


def test_a_pause_holds_only_where_it_is_obeyed() -> None:
    paused = DeletionHolds(DeletionsPaused(5, "an audit"))
    assert explain(evidence(holds=paused), "orders").causes == (
        ObservedCause(CauseKind.RESUMPTION, since_ms=5, detail="an audit"),
    )
    assert kinds(explain(evidence(holds=paused, controller=KAFKA), "orders")) == [(CauseKind.CONTROLLER_LATE, 1)]
    assert kinds(explain(evidence(holds=paused, controller=None), "orders")) == [
        (CauseKind.NO_CONTROLLER, None),
        (CauseKind.RESUMPTION, None),
    ]


def test_kraft_has_the_cluster() -> None:
    kraft = dataclasses.replace(KAFKA, kraft_epoch=3)
    assert kinds(explain(evidence(controller=kraft), "orders")) == [(CauseKind.KRAFT, None)]


def test_a_reassignment_in_the_topics_znode_or_asked_for() -> None:
    moving = dataclasses.replace(
        ORDERS, assignments={0: ReplicaAssignment((3, 1), (3,), (1,)), 1: ReplicaAssignment((1, 2))}
    )
    found = explain(evidence(topic=moving), "orders")
    assert kinds(found) == [(CauseKind.REASSIGNMENT, None), (CauseKind.BROKER_TO_RETURN, 3)]
    assert found.causes[0].partitions == (0,)
    asked = explain(evidence(reassigning={TopicPartition("orders", 1): (2, 3)}), "orders")
    assert asked.causes == (
        ObservedCause(CauseKind.REASSIGNMENT, None, (1,), since_ms=400_000, detail="to brokers 2, 3"),
    )


def test_a_deletion_waits_for_a_reassignment_from_when_both_are_there() -> None:
    moving = dataclasses.replace(ORDERS, assignments={0: ReplicaAssignment((2, 1), (2,), (1,))})
    began_later = dataclasses.replace(evidence(topic=moving), changed_at_ms={"orders": 500_000})
    assert explain(evidence(topic=moving), "orders").causes[0].since_ms == 400_000
    assert explain(began_later, "orders").causes[0].since_ms == 500_000


def test_an_unreadable_topic_and_a_half_deleted_one() -> None:
    unreadable = dataclasses.replace(ORDERS, assignments=None)
    problem = Problem("/brokers/topics/orders", "it has no 'partitions'")
    found = explain(evidence(topic=unreadable, problems=(problem,)), "orders")
    assert found.causes == (
        ObservedCause(CauseKind.READABLE_ZNODE, path=problem.where, since_ms=300_000, detail="it has no 'partitions'"),
    )
    half = dataclasses.replace(ORDERS, states={0: STATE})
    assert explain(evidence(topic=half), "orders").causes == (
        ObservedCause(CauseKind.HALF_DELETED, detail="partitions 1 have no state"),
    )


def test_a_marker_without_topic() -> None:
    found = explain(evidence(topic=None), "orders")
    assert (found.verdict, kinds(found)) == (DeletionVerdict.IN_PROGRESS, [(CauseKind.MARKER_WITHOUT_TOPIC, None)])
    assert explain(evidence(topic=None, controller=None), "orders").verdict is DeletionVerdict.WAITING


def test_what_is_half_deleted_waits_for_a_controller_that_goes_on() -> None:
    half = dataclasses.replace(ORDERS, states={0: STATE})
    assert explain(evidence(topic=half), "orders").verdict is DeletionVerdict.IN_PROGRESS
    assert explain(evidence(topic=half, controller=KAFKA), "orders").verdict is DeletionVerdict.WAITING


# --- unreadable, and to be deleted even so ------------------------------------------------------------------------

UNREADABLE = TopicTree("orders", None, None, (0,), {0: LeaderAndIsr(3, 0, (3,), 1)})
NONSENSE = Problem("/brokers/topics/orders", "it is no JSON")


def ordered(found: Evidence) -> Evidence:
    return dataclasses.replace(found, ordered=frozenset({"orders"}))


def unreadable_topic(**others: Any) -> Evidence:
    return evidence(topic=UNREADABLE, problems=(NONSENSE,), **others)


def test_lethes_controller_deletes_an_unreadable_topic_that_its_marker_orders() -> None:
    found = explain(ordered(unreadable_topic(brokers=(1, 2, 3))), "orders")
    assert (found.verdict, kinds(found)) == (DeletionVerdict.IN_PROGRESS, [(CauseKind.IN_PROGRESS, None)])
    assert "its marker orders that" in sentence(found.causes[0], "orders", 1_000_000)
    assert [(r.partition, r.broker, r.is_done) for r in found.replicas] == [(0, 3, True), (0, 1, True), (0, 2, True)]


def test_the_brokers_that_may_hold_an_ordered_unreadable_topic_are_its_causes() -> None:
    away = explain(ordered(unreadable_topic(failures={2: BrokerFailure.SILENT}, disks={1: stored(0)})), "orders")
    assert (away.verdict, kinds(away)) == (
        DeletionVerdict.WAITING,
        [(CauseKind.BROKER_SILENT, 2), (CauseKind.BROKER_TO_RETURN, 3)],
    )
    assert [replica.seen for replica in away.replicas if replica.broker == 1] == [ReplicaPresence.STORED]


@pytest.mark.parametrize("controller, first", [(KAFKA, []), (None, [(CauseKind.NO_CONTROLLER, None)])])
def test_only_lethes_controller_obeys_the_order(
    controller: ControllerZnode | None, first: list[tuple[CauseKind, int | None]]
) -> None:
    found = explain(ordered(unreadable_topic(controller=controller, brokers=(1, 2, 3))), "orders")
    assert (found.verdict, kinds(found)) == (DeletionVerdict.WAITING, [*first, (CauseKind.UNREADABLE_ORDERED, None)])
    said = sentence(found.causes[-1], "orders", 1_000_000)
    for words in ("/brokers/topics/orders", "(it is no JSON)", "Lethe's controller"):
        assert words in said
    # A pause holds it like any other, where somebody obeys.
    paused = DeletionHolds(DeletionsPaused(5, ""))
    assert (CauseKind.RESUMPTION, None) in kinds(explain(ordered(unreadable_topic(holds=paused)), "orders"))


def test_an_unreadable_topic_that_the_controller_is_deleting_waits_for_what_the_controller_says() -> None:
    row = ReportedReplica(CauseKind.ANSWER, 0, 2, "DELETION_STARTED", 500_000, 3)
    done = ReportedReplica(CauseKind.DONE, 0, 1, "DELETION_SUCCESSFUL")
    word = ControllerReport({"orders": ReportedTopic("orders", phase="started", replicas=(row, done))}, 3, True)
    found = explain(unreadable_topic(reported=word), "orders")
    assert kinds(found) == [(CauseKind.ANSWER, 2)]
    assert [(r.broker, r.is_done) for r in found.replicas] == [(2, False), (1, True)]


@pytest.mark.parametrize("topic", [UNREADABLE, ORDERS])
def test_what_the_controller_cannot_read_is_named_even_where_we_can(topic: TopicTree) -> None:
    row = ReportedReplica(
        CauseKind.READABLE_ZNODE, since_ms=5, last_error="NO_AUTH at /brokers/topics/orders/partitions"
    )
    word = ControllerReport(
        {"orders": ReportedTopic("orders", phase="held", held_by="UNREADABLE", replicas=(row,))}, 3, True
    )
    found = explain(ordered(evidence(topic=topic, reported=word, brokers=(1, 2, 3), disks={1: stored(0)})), "orders")
    assert kinds(found) == [(CauseKind.READABLE_ZNODE, None)]
    assert found.causes[0].detail == "NO_AUTH at /brokers/topics/orders/partitions"


# --- not marked, and gone -----------------------------------------------------------------------------------------


def test_a_topic_that_nobody_has_marked_or_may_mark() -> None:
    found = explain(evidence(marked=False), "orders")
    assert (found.verdict, kinds(found)) == (DeletionVerdict.NOT_MARKED, [(CauseKind.NOT_MARKED, None)])
    disabled = DeletionHolds(delete_topic_enable=DynamicSetting(False, "/config/brokers/<default>"))
    (cause,) = explain(evidence(marked=False, holds=disabled), "orders").causes
    assert (cause.kind, cause.path) == (CauseKind.DISABLED, "/config/brokers/<default>")
    (cause,) = explain(
        evidence(marked=False, holds=DeletionHolds(disabled_on=(BrokerId(1), BrokerId(2)))), "orders"
    ).causes
    assert (cause.kind, cause.path) == (CauseKind.DISABLED, None)
    said = "orders is not deleted because delete.topic.enable is false (in the configuration of brokers 1-2): "
    assert sentence(cause, "orders", 0).startswith(said)
    # The controller knows better than what is configured for everybody.
    assert kinds(
        explain(evidence(marked=False, holds=disabled, reported=ControllerReport(deletion_enabled=True)), "orders")
    ) == [(CauseKind.NOT_MARKED, None)]
    assert kinds(explain(evidence(marked=False, reported=ControllerReport(deletion_enabled=False)), "orders")) == [
        (CauseKind.DISABLED, None)
    ]


def test_a_protected_topic_stays_under_lethes_controller_only() -> None:
    configured = DeletionHolds(protected=ProtectedTopics(("ord*",), "/config/brokers/<default>"))
    held = ControllerReport({"orders": ReportedTopic("orders", phase="held")})
    for marked, told in ((True, held), (False, ControllerReport())):
        (cause,) = explain(evidence(marked=marked, holds=configured, reported=told), "orders").causes
        said = sentence(cause, "orders", 0)
        assert "it is protected (in /config/brokers/<default>) (by the pattern ord*): Lethe's" in said
    assert (CauseKind.PROTECTED, None) not in kinds(explain(evidence(holds=configured), "orders"))
    refused = RefusedDeletion(5, "the topic is protected", CauseKind.PROTECTED, "o*")
    told = ControllerReport(protected_topics=("o*",), refused=refused)
    (cause,) = explain(evidence(marked=False, holds=configured, reported=told), "orders").causes
    assert (cause.kind, cause.path, cause.since_ms) == (CauseKind.PROTECTED, None, 5), "the file's, not ZooKeeper's"
    assert kinds(
        explain(evidence(marked=False, holds=configured, reported=ControllerReport(protected_topics=())), "orders")
    ) == [(CauseKind.NOT_MARKED, None)]


@pytest.mark.parametrize("path", ["/brokers/ids", "/brokers/ids/2"])
def test_a_broker_whose_registration_could_not_be_read_may_be_running(path: str) -> None:
    assert (CauseKind.BROKER_TO_RETURN, 2) in kinds(explain(evidence(brokers=(1,)), "orders"))
    unread = evidence(brokers=(1,), problems=(Problem(path, "NO_AUTH"),))
    kind = CauseKind.BROKER_UNASKABLE if path == "/brokers/ids" else CauseKind.REGISTRATION_UNREADABLE
    assert (kind, 2) in kinds(explain(unread, "orders"))
    assert (CauseKind.BROKER_TO_RETURN, 2) not in kinds(explain(unread, "orders"))


@pytest.mark.parametrize(
    "broken, kind",
    [
        (dataclasses.replace(ORDERS, states={0: STATE}), CauseKind.INCOMPLETE),
        (dataclasses.replace(ORDERS, partition_znodes=None, states={}), CauseKind.INCOMPLETE),
        (dataclasses.replace(ORDERS, assignments=None), CauseKind.UNREADABLE),
    ],
)
def test_of_a_topic_that_may_be_living_nobody_is_told_to_delete_it(broken: TopicTree, kind: CauseKind) -> None:
    found = explain(evidence(topic=broken, marked=False), "orders")
    assert (found.verdict, kinds(found)) == (DeletionVerdict.NOT_MARKED, [(kind, None)])
    (cause,) = found.causes
    assert "/brokers/topics/orders" in sentence(cause, "orders", 0) + unblock(cause, "orders")
    assert "delete" not in sentence(cause, "orders", 0) + unblock(cause, "orders")


def test_gone_left_over_or_only_waiting_for_its_bytes() -> None:
    gone = {"topic": None, "marked": False}
    assert explain(evidence(**gone), "orders").verdict is DeletionVerdict.GONE  # type: ignore[arg-type]
    unseen = evidence(**gone, failures={2: BrokerFailure.SILENT})  # type: ignore[arg-type]
    assert explain(unseen, "orders").verdict is DeletionVerdict.UNSEEN
    bytes_only = explain(evidence(**gone, disks={1: (renamed(0),)}), "orders")  # type: ignore[arg-type]
    assert (bytes_only.verdict, kinds(bytes_only)) == (DeletionVerdict.RECLAIMING, [(CauseKind.RECLAIMING, 1)])
    silent = {2: BrokerFailure.SILENT}
    partly = explain(evidence(**gone, disks={1: (renamed(0),)}, failures=silent), "orders")  # type: ignore[arg-type]
    assert (partly.verdict, kinds(partly)) == (DeletionVerdict.UNSEEN, [(CauseKind.RECLAIMING, 1)])
    left = explain(evidence(**gone, cached=(1,), disks={2: stored(0)}), "orders")  # type: ignore[arg-type]
    assert (left.verdict, kinds(left)) == (DeletionVerdict.LEFT_OVER, [(CauseKind.CACHED, 1), (CauseKind.STORED, 2)])
    assert left.causes[1].path == "/d/orders-0"


# --- with the controller's word -----------------------------------------------------------------------------------


def test_the_controllers_word_comes_first_and_is_sharpened() -> None:
    row = ReportedReplica(CauseKind.ANSWER, 0, 2, "ReplicaDeletionStarted", 500_000, 3)
    # It answers us: then only the controller's request is outstanding.
    (cause,) = explain(evidence(reported=controller_report(row)), "orders").causes
    assert cause == ObservedCause(CauseKind.ANSWER, BrokerId(2), (0,), None, 500_000, 3)
    (cause,) = explain(evidence(reported=controller_report(row), failures={2: BrokerFailure.SILENT}), "orders").causes
    assert cause == ObservedCause(CauseKind.BROKER_SILENT, BrokerId(2), (0,), None, 500_000, 3, "it did not answer")


def test_errors_have_their_attempts_and_storage_errors_their_directory() -> None:
    row = ReportedReplica(CauseKind.BROKER_ERROR, 1, 1, None, 600_000, 4, "KAFKA_STORAGE_ERROR", 1_002_000)
    found = explain(evidence(reported=controller_report(row)), "orders")
    assert found.causes == (
        ObservedCause(CauseKind.BROKER_ERROR, BrokerId(1), (1,), None, 600_000, 4, "KAFKA_STORAGE_ERROR"),
    )
    assert [r.next_try_ms for r in found.replicas if not r.is_done] == [1_002_000]
    (cause,) = explain(evidence(reported=controller_report(row), failed_dirs=(1,)), "orders").causes
    assert (cause.kind, cause.path) == (CauseKind.LOG_DIRECTORY, "/bad")


def test_what_the_controller_has_an_acknowledgement_for_is_done_whatever_the_disk_shows() -> None:
    turn = ReportedReplica(CauseKind.TURN, 1, 2, "OFFLINE", 5)
    found = explain(
        evidence(reported=controller_report(), disks={1: (renamed(0),)}, failures={2: BrokerFailure.SILENT}), "orders"
    )
    assert (found.verdict, kinds(found)) == (DeletionVerdict.IN_PROGRESS, [(CauseKind.IN_PROGRESS, None)])
    found = explain(evidence(reported=controller_report(turn)), "orders")
    assert (found.verdict, kinds(found)) == (DeletionVerdict.IN_PROGRESS, [(CauseKind.TURN, None)])


def test_what_the_controller_has_no_room_to_tell_is_concluded_from_outside() -> None:
    row = ReportedReplica(CauseKind.BROKER_TO_RETURN, 0, 2, since_ms=5)
    cut = ControllerReport({"orders": ReportedTopic("orders", phase="started", replicas=(row,))}, 3, True)
    found = explain(evidence(reported=cut, brokers=(1,)), "orders")
    assert found.causes == (ObservedCause(CauseKind.BROKER_TO_RETURN, BrokerId(2), (0, 1), since_ms=5),)


def test_a_marker_that_was_refused() -> None:
    refused = ControllerReport(deletion_enabled=True, refused=RefusedDeletion(5, "because"))
    (cause,) = explain(evidence(marked=False, reported=refused), "orders").causes
    assert cause == ObservedCause(CauseKind.REFUSED, since_ms=5, detail="because")


def test_a_marker_that_named_an_earlier_topic() -> None:
    refused = RefusedDeletion(5, "its marker names an earlier topic of this name", CauseKind.OTHER_INCARNATION)
    reported = ControllerReport(deletion_enabled=True, refused=refused)
    (cause,) = explain(evidence(marked=False, reported=reported), "orders").causes
    assert cause == ObservedCause(CauseKind.OTHER_INCARNATION, since_ms=5)


def test_the_last_acts_are_the_controllers_to_tell() -> None:
    owing = ReportedReplica(CauseKind.TOMBSTONE_ANSWER, None, 3, since_ms=7)
    last = controller_report(owing, phase="acknowledged")
    (cause,) = explain(evidence(reported=last, brokers=(1, 2, 3)), "orders").causes
    assert (cause.kind, cause.broker, cause.since_ms) == (CauseKind.TOMBSTONE_ANSWER, 3, 7)
    (cause,) = explain(
        evidence(reported=controller_report(ReportedReplica(CauseKind.ZNODES), phase="acknowledged")), "orders"
    ).causes
    assert (cause.kind, cause.detail) == (CauseKind.IN_PROGRESS, "its znodes are being removed")
    refused = controller_report(
        ReportedReplica(CauseKind.ZNODES, since_ms=7, attempts=4, last_error="NO_AUTH"), phase="acknowledged"
    )
    found = explain(evidence(reported=refused), "orders")
    assert found.causes == (ObservedCause(CauseKind.ZNODES, since_ms=7, attempts=4, detail="NO_AUTH"),)
    assert found.verdict is DeletionVerdict.WAITING


def test_a_backlog_is_concluded_topic_by_topic() -> None:
    both = dataclasses.replace(evidence(disks={1: stored(0)}), topics=("orders", "never"))
    assert explain_all(both) == (explain(both, "orders"), explain(both, "never"))
    assert [found.verdict for found in explain_all(both)] == [DeletionVerdict.IN_PROGRESS, DeletionVerdict.GONE]


# --- words --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*CauseKind])
def test_every_cause_has_words_without_gaps(kind: CauseKind) -> None:
    cause = ObservedCause(kind, BrokerId(3), (0, 1), "/some/path", 400_000, 2, "why")
    for text in (sentence(cause, "orders", 1_000_000), unblock(cause, "orders")):
        assert not set("{}") & set(text)
        assert "  " not in text
    assert sentence(cause, "orders", 1_000_000).startswith("orders ")
    bare = sentence(ObservedCause(kind), "orders", 1_000_000)
    assert "()" not in bare


def test_a_time_says_how_long_ago() -> None:
    said = sentence(ObservedCause(CauseKind.BROKER_TO_RETURN, BrokerId(3), since_ms=160_000), "orders", 1_000_000)
    assert said.startswith("orders waits for broker 3, which is not registered in ZooKeeper, since ")
    assert said.endswith(" (14 min)")
    assert [age_text(ms) for ms in (8_000, 7_200_000, 200_000_000)] == ["8 s", "2 h", "2 days"]


def test_ranges() -> None:
    assert ranges((4, 0, 1, 2, 7)) == "0-2, 4, 7"
    assert ranges(tuple(range(0, 40, 2))) == "0, 2, 4, 6, 8, 10, 12, 14, 16, 18 and 10 more"


# --- a controller of Kafka's that does nothing --------------------------------------------------------------------


def test_kafkas_controller_that_answers_nobody_holds_everything() -> None:
    disks = {2: stored(0)}
    found = explain(evidence(controller=KAFKA, failures={1: BrokerFailure.SILENT}, disks=disks), "orders")
    assert kinds(found) == [(CauseKind.CONTROLLER_SILENT, 1), (CauseKind.BROKER_SILENT, 1)]
    assert found.verdict is DeletionVerdict.WAITING


def test_kafkas_controller_that_had_time_enough_is_late_where_nothing_else_is_wrong() -> None:
    found = explain(evidence(controller=KAFKA, disks={2: stored(0)}), "orders")
    assert (found.verdict, kinds(found)) == (DeletionVerdict.WAITING, [(CauseKind.CONTROLLER_LATE, 1)])
    young = dataclasses.replace(evidence(controller=KAFKA), marked_since_ms={"orders": 990_000})
    assert kinds(explain(young, "orders")) == [(CauseKind.IN_PROGRESS, None)]
    assert "still there (it answers)" in sentence(dataclasses.replace(found.causes[0], since_ms=None), "orders", 0)
    away = evidence(controller=KAFKA, brokers=(1,))
    assert kinds(explain(away, "orders")) == [(CauseKind.BROKER_TO_RETURN, 2)]


@pytest.mark.parametrize(
    "controller, failures, why",
    [
        (ControllerZnode(BrokerId(9), 7), {}, "it is not registered"),
        (KAFKA, {1: BrokerFailure.UNASKED}, "it did not answer"),
    ],
)
def test_kafkas_controller_that_was_not_asked_is_not_said_to_be_alive(
    controller: ControllerZnode, failures: dict[int, BrokerFailure], why: str
) -> None:
    orders = dataclasses.replace(ORDERS, assignments={p: ReplicaAssignment((2,)) for p in (0, 1)})
    found = explain(evidence(topic=orders, controller=controller, failures=failures), "orders")
    assert kinds(found) == [(CauseKind.CONTROLLER_LATE, controller.broker_id)]
    said = sentence(found.causes[0], "orders", 1_000_000)
    assert said.endswith(f"(whether it answers was not seen: {why})")
    assert "alive" not in said


def test_lethes_controller_says_itself_what_it_waits_for() -> None:
    assert kinds(explain(evidence(), "orders")) == [(CauseKind.IN_PROGRESS, None)]


def test_names_in_commands_are_for_a_shell() -> None:
    assert unblock(ObservedCause(CauseKind.NOT_MARKED), "orders") == "lethe topics delete --topic orders"
    assert unblock(ObservedCause(CauseKind.NOT_MARKED), "-orders") == "lethe topics delete --topic=-orders"
    assert unblock(ObservedCause(CauseKind.READABLE_ZNODE), "$(x)").endswith(
        "lethe topics delete --unreadable --topic '$(x)'"
    )
    assert "reassign --cancel -- -orders;" in unblock(ObservedCause(CauseKind.REASSIGNMENT), "-orders")


def test_a_topic_that_is_gone_and_owed() -> None:
    given = evidence(topic=None, marked=False)
    debt = OpenDebt(BrokerId(9), "orders", 17, Debt(None, (0,), 0, 1_000), 0)
    owing = dataclasses.replace(given.survey, zookeeper=dataclasses.replace(given.survey.zookeeper, debts=(debt,)))
    found = explain(dataclasses.replace(given, survey=owing), "orders")
    assert (found.verdict, found.causes) == (DeletionVerdict.OWED, ())
    hosting = dataclasses.replace(owing, zookeeper=dataclasses.replace(owing.zookeeper, other_hosts=(BrokerId(9),)))
    assert explain(dataclasses.replace(given, survey=hosting), "orders").verdict is DeletionVerdict.OWED
    other = dataclasses.replace(owing, zookeeper=dataclasses.replace(owing.zookeeper, other_hosts=(BrokerId(8),)))
    assert explain(dataclasses.replace(given, survey=other), "orders").verdict is DeletionVerdict.UNSEEN
    unread = (Problem("/lethe/debts", "NO_AUTH"),)
    blind = dataclasses.replace(given.survey, zookeeper=dataclasses.replace(given.survey.zookeeper, problems=unread))
    assert explain(dataclasses.replace(given, survey=blind), "orders").verdict is DeletionVerdict.UNSEEN


# --- in the trash -------------------------------------------------------------------------------------------------


def test_a_topic_in_the_trash_is_not_gone() -> None:
    there = evidence(topic=None, marked=False, disks={1: stored(0)})
    tree = dataclasses.replace(there.survey.zookeeper, trashed={"orders": ENTRY.topic_id})
    trashed = dataclasses.replace(there, survey=dataclasses.replace(there.survey, zookeeper=tree))
    found = explain(trashed, "orders")
    assert (found.verdict, kinds(found)) == (DeletionVerdict.IN_TRASH, [])
    answer = one(trashed, found)
    assert answer.exit is Exit.OK
    (line,) = answer.lines
    words = "lethe topics trash list shows until when, and lethe topics undelete orders brings it back."
    assert line == f"orders is in the trash, which keeps its records: {words}"


@pytest.mark.parametrize(
    "phase, kind, said",
    [
        ("held", CauseKind.RESUMPTION, True),
        ("queued", CauseKind.RESUMPTION, False),
        ("held", CauseKind.NAME_RESERVED, False),  # the request would be for the other topic of its name
        ("held", CauseKind.MARKER_WITHOUT_TOPIC, False),  # there is nothing to bring back
    ],
)
def test_the_text_says_whether_the_deletion_has_begun_and_how_the_topic_is_kept(
    phase: str, kind: CauseKind, said: bool
) -> None:
    """A held topic may have begun under another controller: only the active one can tell, and refuses."""
    reported = controller_report(ReportedReplica(kind, since_ms=5), phase=phase)
    there = evidence(topic=None if kind is CauseKind.MARKER_WITHOUT_TOPIC else ORDERS, reported=reported)
    lines = one(there, explain(there, "orders")).lines
    keep = (
        "Its phase is held: this controller has deleted no replica of it. To keep it: lethe topics undelete orders, "
        "which refuses where replicas may be gone."
    )
    assert (keep in lines) is said


def test_znodes_that_are_left_over_are_removed_by_the_doctor_and_never_by_hand() -> None:
    """By hand the whole of /admin/reassign_partitions would go, with what living topics move."""
    there = evidence(topic=None, marked=False, reassigning={TopicPartition("orders", 0): (1,)})
    tree = dataclasses.replace(there.survey.zookeeper, configured=("orders",))
    found = explain(dataclasses.replace(there, survey=dataclasses.replace(there.survey, zookeeper=tree)), "orders")
    assert [(cause.kind, cause.path, unblock(cause, "orders")) for cause in found.causes] == [
        (
            CauseKind.CONFIG_LEFT,
            "/config/topics/orders",
            "check that they are not wanted, then lethe doctor --fix --only config_without_topic",
        ),
        (CauseKind.ZNODE_LEFT, "/admin/reassign_partitions", "lethe doctor --fix"),
    ]


def test_nobody_is_told_to_bring_back_a_topic_whose_entry_cannot_be_understood() -> None:
    there = evidence(topic=None, marked=False)
    why = "znode /lethe/trash/orders cannot be understood: not JSON"
    tree = dataclasses.replace(there.survey.zookeeper, unreadable_trash={"orders": why})
    trashed = dataclasses.replace(there, survey=dataclasses.replace(there.survey, zookeeper=tree))
    (line,) = one(trashed, explain(trashed, "orders")).lines
    assert why in line
    assert "undelete" not in line
    assert line.endswith("then have the controller read it again: lethe controller-resign.")


def test_nobody_is_told_to_force_the_deletion_of_a_topic_whose_name_is_in_the_trash() -> None:
    row = ReportedReplica(CauseKind.NAME_RESERVED, 0, 1)
    found = explain(evidence(reported=controller_report(row, phase="held")), "orders")
    assert kinds(found) == [(CauseKind.NAME_RESERVED, None)]
    assert unblock(found.causes[0], "orders") == (
        "remove the topic's znodes below /brokers/topics by hand; then lethe topics undelete orders brings the other "
        "one back"
    )
    assert not [each.unblock for each in found.replicas if each.unblock]


def test_nobody_is_told_to_force_the_deletion_of_a_topic_while_the_trash_cannot_be_read() -> None:
    row = ReportedReplica(CauseKind.READABLE_TRASH, 0, 1, last_error="/lethe/trash/orders: no JSON")
    found = explain(evidence(reported=controller_report(row, phase="held")), "orders")
    assert kinds(found) == [(CauseKind.READABLE_TRASH, None)]
    assert found.causes[0].detail == "/lethe/trash/orders: no JSON"
    assert unblock(found.causes[0], "orders") == (
        "repair what is named below /lethe/trash, or give the controller access to it; then have it read again: "
        "lethe controller-resign"
    )
