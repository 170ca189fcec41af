"""Two things that keep a topic at once: what is named is what has to end, and nothing else."""

from __future__ import annotations

from lethe.protocol.causes import CauseKind
from lethe.protocol.zookeeper.znodes import DeletionsPaused
from lethe.survey.evidence import ControllerReport, DeletionHolds, DynamicSetting, ReportedReplica, ReportedTopic
from lethe.survey.explain import DeletionVerdict, explain
from lethe.survey.views import BrokerFailure
from tests.fakes.marked_topic import controller_report, evidence, kinds, stored

DISABLED = DeletionHolds(delete_topic_enable=DynamicSetting(False, "/config/brokers/<default>"))


def test_a_deletion_that_has_begun_ends_although_deletion_was_disabled_meanwhile() -> None:
    row = ReportedReplica(CauseKind.LOG_DIRECTORY, 0, 2, "OFFLINE", 5, 1, "KAFKA_STORAGE_ERROR")
    word = ControllerReport(controller_report(row).topics, 3, deletion_enabled=False)
    assert kinds(explain(evidence(holds=DISABLED, reported=word, failed_dirs=(2,)), "orders")) == [
        (CauseKind.LOG_DIRECTORY, 2)
    ]
    # Without the controller's word: broker 1 has none of its replicas any more.
    begun = evidence(holds=DISABLED, brokers=(1,))
    assert kinds(explain(begun, "orders")) == [(CauseKind.BROKER_TO_RETURN, 2)]
    untouched = evidence(holds=DISABLED, brokers=(1,), disks={1: stored(0, 1)})
    assert kinds(explain(untouched, "orders")) == [(CauseKind.DISABLED, None), (CauseKind.BROKER_TO_RETURN, 2)]
    held = ReportedTopic("orders", phase="held", held_by="DISABLED", replicas=(ReportedReplica(CauseKind.DISABLED),))
    word = ControllerReport({"orders": held}, 3, deletion_enabled=False)
    assert kinds(explain(evidence(reported=word, disks={1: stored(0)}), "orders")) == [(CauseKind.DISABLED, None)]


def test_nothing_but_the_lack_of_a_controller_holds_a_marker_without_topic() -> None:
    paused = DeletionHolds(DeletionsPaused(5, "an audit"), DISABLED.delete_topic_enable)
    found = explain(evidence(topic=None, holds=paused), "orders")
    assert (found.verdict, kinds(found)) == (DeletionVerdict.IN_PROGRESS, [(CauseKind.MARKER_WITHOUT_TOPIC, None)])
    assert kinds(explain(evidence(topic=None, holds=paused, controller=None), "orders")) == [
        (CauseKind.NO_CONTROLLER, None),
        (CauseKind.MARKER_WITHOUT_TOPIC, None),
    ]


def test_a_pause_and_a_broker_that_is_gone_are_both_named() -> None:
    paused = DeletionHolds(DeletionsPaused(5, "an audit"))
    held = ReportedTopic(
        "orders", phase="held", held_by="PAUSED", replicas=(ReportedReplica(CauseKind.RESUMPTION, since_ms=5),)
    )
    for word in (None, ControllerReport({"orders": held}, 3, True)):
        found = explain(evidence(holds=paused, reported=word, brokers=(1,), disks={1: stored(0, 1)}), "orders")
        assert kinds(found) == [(CauseKind.RESUMPTION, None), (CauseKind.BROKER_TO_RETURN, 2)]
        assert {replica.last_error for replica in found.replicas} == {None}, "why it is paused is no error"


def test_a_pause_hides_no_error_of_a_broker() -> None:
    paused = DeletionHolds(DeletionsPaused(5, "an audit"))
    found = explain(evidence(holds=paused, disks={1: stored(0, 1)}, failures={2: BrokerFailure.SILENT}), "orders")
    assert kinds(found) == [(CauseKind.RESUMPTION, None), (CauseKind.BROKER_SILENT, 2)]
    assert [replica.last_error for replica in found.replicas] == [None, "it did not answer"] * 2
