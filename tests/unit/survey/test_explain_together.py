"""Two things that keep a topic at once: what is named is what has to end, and nothing else."""

from __future__ import annotations

from lethe.protocol.causes import CauseKind
from lethe.protocol.zookeeper.znodes import DeletionsPaused
from lethe.survey.evidence import Holds, Setting, Told, ToldReplica, ToldTopic
from lethe.survey.explain import Verdict, explain
from lethe.survey.views import Failure
from tests.fakes.marked_topic import evidence, kinds, stored, told

DISABLED = Holds(delete_topic_enable=Setting(False, "/config/brokers/<default>"))


def test_a_deletion_that_has_begun_ends_although_deletion_was_disabled_meanwhile() -> None:
    row = ToldReplica(CauseKind.LOG_DIRECTORY, 0, 2, "OFFLINE", 5, 1, "KAFKA_STORAGE_ERROR")
    word = Told(told(row).topics, 3, deletion_enabled=False)
    assert kinds(explain(evidence(holds=DISABLED, told=word, failed_dirs=(2,)), "orders")) == [
        (CauseKind.LOG_DIRECTORY, 2)
    ]
    # Without the controller's word: broker 1 has none of its replicas any more.
    begun = evidence(holds=DISABLED, brokers=(1,))
    assert kinds(explain(begun, "orders")) == [(CauseKind.BROKER_TO_RETURN, 2)]
    untouched = evidence(holds=DISABLED, brokers=(1,), disks={1: stored(0, 1)})
    assert kinds(explain(untouched, "orders")) == [(CauseKind.DISABLED, None), (CauseKind.BROKER_TO_RETURN, 2)]
    held = ToldTopic("orders", phase="held", held_by="DISABLED", replicas=(ToldReplica(CauseKind.DISABLED),))
    word = Told({"orders": held}, 3, deletion_enabled=False)
    assert kinds(explain(evidence(told=word, disks={1: stored(0)}), "orders")) == [(CauseKind.DISABLED, None)]


def test_nothing_but_the_lack_of_a_controller_holds_a_marker_without_topic() -> None:
    paused = Holds(DeletionsPaused(5, "an audit"), DISABLED.delete_topic_enable)
    found = explain(evidence(topic=None, holds=paused), "orders")
    assert (found.verdict, kinds(found)) == (Verdict.IN_PROGRESS, [(CauseKind.MARKER_WITHOUT_TOPIC, None)])
    assert kinds(explain(evidence(topic=None, holds=paused, controller=None), "orders")) == [
        (CauseKind.NO_CONTROLLER, None),
        (CauseKind.MARKER_WITHOUT_TOPIC, None),
    ]


def test_a_pause_and_a_broker_that_is_gone_are_both_named() -> None:
    paused = Holds(DeletionsPaused(5, "an audit"))
    held = ToldTopic(
        "orders", phase="held", held_by="PAUSED", replicas=(ToldReplica(CauseKind.RESUMPTION, since_ms=5),)
    )
    for word in (None, Told({"orders": held}, 3, True)):
        found = explain(evidence(holds=paused, told=word, brokers=(1,), disks={1: stored(0, 1)}), "orders")
        assert kinds(found) == [(CauseKind.RESUMPTION, None), (CauseKind.BROKER_TO_RETURN, 2)]
        assert {replica.last_error for replica in found.replicas} == {None}, "why it is paused is no error"


def test_a_pause_hides_no_error_of_a_broker() -> None:
    paused = Holds(DeletionsPaused(5, "an audit"))
    found = explain(evidence(holds=paused, disks={1: stored(0, 1)}, failures={2: Failure.SILENT}), "orders")
    assert kinds(found) == [(CauseKind.RESUMPTION, None), (CauseKind.BROKER_SILENT, 2)]
    assert [replica.last_error for replica in found.replicas] == [None, "it did not answer"] * 2
