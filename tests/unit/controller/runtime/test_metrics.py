import dataclasses

from prometheus_client.parser import text_string_to_metric_families

from lethe.adapters.journal import JournalCounts
from lethe.adapters.kafka.forwarding_proxy import ForwardingCounts
from lethe.adapters.metric_families import written
from lethe.adapters.metric_types import MetricKind
from lethe.adapters.security.access import AccessSettings
from lethe.adapters.security.inbound import Inbound, InboundSettings
from lethe.adapters.security.refusal_counts import RefusalCounts, RefusalReason
from lethe.adapters.security.tls import TlsStatus
from lethe.adapters.security_metrics import SecurityMetrics, SecurityPart, Use
from lethe.controller.core.controller_state import ControllerState
from lethe.controller.core.deletion_memory import DeletionStage, RetriedAction
from lethe.controller.core.gauges import Gauges, OpenDebts, OwedTombstones
from lethe.controller.core.power import BrokerPower, BrokerStanding
from lethe.controller.core.power_view import PowerView
from lethe.controller.core.transitions import ReplicaState
from lethe.controller.core.trash_view import TrashSummary
from lethe.controller.runtime import metric_catalog
from lethe.controller.runtime.metrics import (
    ChannelCounts,
    ChannelView,
    ControllerMetrics,
    ListenerView,
    OldestView,
    QueueView,
    SessionView,
    Sources,
    TermView,
)
from lethe.protocol.journal import EventRecord, EventRecordType
from lethe.protocol.journal_trash import GAVE_WAY
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper.znodes import TrashPhase
from tools.metrics_page import page


def busy() -> ControllerMetrics:
    """Metrics with something in every family."""
    counts = ChannelCounts(queue_size=3, backlog_bytes=99)
    counts.queue_time_ms.add(4)
    counts.note_latency("STOP_REPLICA", 0.02)
    counts.note_retry("timeout")
    part = SecurityPart(Use.LISTENER, "INTERNAL", refused=RefusalCounts(RefusalReason.LOGIN))
    peers = SecurityPart(Use.ZOOKEEPER, refused=RefusalCounts(RefusalReason.TLS))
    inbound = Inbound(InboundSettings(access=AccessSettings()))
    metrics = ControllerMetrics(
        SecurityMetrics((part, peers), inbound, ((peers, TlsStatus(1_500, 2_500, is_outdated=True)),))
    )
    metrics.sources = Sources(
        gauges=lambda: Gauges(
            active_controller_count=1,
            topics_to_delete_count=7,
            held_topic_count=2,
            topics_in_stage={DeletionStage.WAITING: 7},
            doomed_replicas={ReplicaState.DELETION_INELIGIBLE: 5},
            owed_tombstones={BrokerId(4): OwedTombstones(12, 1_000)},
            debts={BrokerId(5): OpenDebts(3, 4_096, 2_000), BrokerId(6): OpenDebts(1, None, 2_000)},
            unreadable_debts=6,
            trash=TrashSummary({TrashPhase.TRASHED: 9}, 2_048, 5_000, 1, 2),
            unreadable_trash=4,
            trash_unseen=1,
        ),
        oldest=lambda: OldestView('we"ird\nname', "BROKER_TO_RETURN", 3, 61.5),
        retries=lambda: {(RetriedAction.ZNODES, "NO_AUTH"): 4},
        term=lambda: TermView("active", ("active", "standing by"), 5, 1001, 9, 2, 12.5, 3),
        queue=lambda: QueueView(4, {"BrokersChanged": 4, "TopicsChanged": 0}, 0.3, 0.2),
        power=lambda: PowerView((BrokerPower(BrokerId(3), BrokerStanding.REFUSES_EPOCH, 0),), 7.5),
        channels=lambda: [ChannelView(3, counts, 1.5, 30.0)],
        session=lambda: SessionView(True, 2, 1, 6, 5),
        listener=lambda: ListenerView(2, 1, ForwardingCounts(3, 40, 500, 6)),
        journal=JournalCounts(10, 1),
        journal_topic=JournalCounts(8, 2, "full"),
    )
    for state in ControllerState:
        metrics.event_began("BrokersChanged", state, 0.003)
        metrics.event_ended("BrokersChanged", state, 0.2, "fault")
    metrics.note_zookeeper("Delete", 0.05, {"Delete": 20})
    metrics.request_answered("AlterPartition", 0.01, {"NONE": 3, "FENCED_LEADER_EPOCH": 1})
    metrics.note_record(
        EventRecord(EventRecordType.DELETION_PHASE, "topic/a", {"phase": "tombstoned", "took_ms": 1500})
    )
    metrics.note_record(EventRecord(EventRecordType.EVENT, "topic/a", {"what": GAVE_WAY}))
    metrics.note_record(EventRecord(EventRecordType.ELECTION, "controller/1", {"what": "elected"}))
    metrics.note_record(EventRecord(EventRecordType.ELECTION, "controller/1", {"what": "active", "loading_ms": 250}))
    return metrics


def samples(metrics: ControllerMetrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(metrics.text().decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def test_every_declared_metric_is_exported_with_its_labels() -> None:
    found = samples(busy())
    for _, _, metrics in metric_catalog.GROUPS:
        for metric in metrics:
            names = {
                MetricKind.SUMMARY: ("", "_count", "_sum"),
                MetricKind.HISTOGRAM: ("_bucket", "_count", "_sum"),
            }.get(metric.kind, ("",))
            for suffix in names:
                labels = [dict(labels) for name, labels in found if name == metric.name + suffix]
                assert labels, metric.name + suffix
                extra = {"": {"quantile"}, "_bucket": {"le"}}.get(suffix, set()) if len(names) > 1 else set()
                assert set(labels[0]) == set(metric.labels) | extra


def test_nothing_is_exported_that_is_not_declared() -> None:
    known = {metric.name for _, _, metrics in metric_catalog.GROUPS for metric in metrics}
    for name, _ in samples(busy()):
        bare = name.removesuffix("_count").removesuffix("_sum").removesuffix("_bucket")
        assert name in known or bare in known or name.startswith("process_"), name


def test_names_are_declared_once_and_every_gauge_of_the_core_is_shown() -> None:
    names = [metric.name for _, _, metrics in metric_catalog.GROUPS for metric in metrics]
    assert len(names) == len(set(names))
    fields = {field.name for field in dataclasses.fields(Gauges)}
    by_kind = {"topics_in_stage", "doomed_replicas", "owed_tombstones", "debts", "trash"}
    unread = {"unreadable_debts", "unreadable_trash", "trash_unseen"}
    assert set(metric_catalog.CONTROLLER_GAUGES) == fields - by_kind - unread | {"controller_state"}


def test_values_come_through() -> None:
    found = samples(busy())
    assert found["lethe_journal_topic_lines_total", ()] == 8
    assert found["lethe_journal_topic_lost_total", ()] == 2
    assert found["lethe_journal_topic_failing", ()] == 1
    assert found["kafka_controller_kafkacontroller_activecontrollercount", ()] == 1
    assert found["kafka_controller_kafkacontroller_topicstodeletecount", ()] == 7
    assert found["kafka_controller_controllerchannelmanager_queuesize", (("broker_id", "3"),)] == 3
    assert found["kafka_controller_controllerchannelmanager_totalqueuesize", ()] == 3
    assert found["lethe_broker_request_retries_total", (("broker_id", "3"), ("reason", "timeout"))] == 1
    assert found["kafka_server_sessionexpirelistener_zookeeperexpirespersec_count", ()] == 1
    assert found["lethe_controller_role", (("role", "active"),)] == 1
    assert found["lethe_controller_role", (("role", "standing by"),)] == 0
    assert found["lethe_controller_deletion_phase_seconds_sum", (("phase", "tombstoned"),)] == 1.5
    assert found["kafka_controller_controllerstats_leaderelectionrateandtimems_count", ()] == 1
    assert found["lethe_controller_deletion_topics", (("stage", "held"),)] == 2
    assert found["lethe_controller_deletion_topics", (("stage", "waiting"),)] == 7
    assert found["lethe_controller_deletion_topics", (("stage", "queued"),)] == 0
    assert found["lethe_controller_deletion_replicas", (("state", "deletion_ineligible"),)] == 5
    assert found["lethe_controller_deletion_retries_total", (("part", "znodes"), ("reason", "NO_AUTH"))] == 4
    assert found["lethe_controller_owed_tombstones", (("broker_id", "4"),)] == 12
    of_five = (("broker_id", "5"),)
    assert found["lethe_controller_debts", of_five] == 3
    assert found["lethe_controller_debt_bytes", of_five] == 4_096
    assert ("lethe_controller_debt_bytes", (("broker_id", "6"),)) not in found, "unknown is not zero"
    assert found["lethe_controller_oldest_debt_timestamp_seconds", of_five] == 2
    assert found["lethe_controller_trash_topics", (("phase", "trashed"),)] == 9
    assert found["lethe_controller_trash_topics", (("phase", "freezing"),)] == 0
    assert found["lethe_controller_debts_unreadable", ()] == 6
    assert found["lethe_controller_trash_unreadable", ()] == 4
    assert found["lethe_controller_trash_unseen", ()] == 1
    assert found["lethe_controller_trash_bytes", ()] == 2_048
    assert found["lethe_controller_trash_oldest_due_timestamp_seconds", ()] == 5
    assert found["lethe_controller_trash_full_disks", ()] == 1
    assert found["lethe_controller_trash_unseen_brokers", ()] == 2
    assert found["lethe_controller_trash_left_total", (("how", "gave_way"),)] == 1
    assert found["lethe_controller_tenures_total", ()] == 1
    assert found["lethe_controller_takeover_seconds_sum", ()] == 0.25
    assert found["lethe_controller_tenure_seconds", ()] == 12.5
    assert found["lethe_controller_events_waiting", (("event", "BrokersChanged"),)] == 4
    assert found["lethe_zookeeper_operations_total", (("operation", "Delete"),)] == 20
    assert found["lethe_broker_channel_failing_seconds", (("broker_id", "3"),)] == 30


def test_the_oldest_deletion_is_one_series_that_goes_with_it() -> None:
    metrics = busy()
    labels = (("broker_id", "3"), ("reason", "BROKER_TO_RETURN"), ("topic", 'we"ird\nname'))
    assert samples(metrics)["lethe_controller_oldest_deletion_info", labels] == 1
    metrics.sources.oldest = lambda: None
    found = samples(metrics)
    assert not [name for name, _ in found if name == "lethe_controller_oldest_deletion_info"]
    assert found["lethe_controller_oldest_deletion_seconds", ()] == 0


def test_the_series_of_a_broker_go_with_its_channel() -> None:
    metrics = busy()
    assert [labels for _, labels in samples(metrics) if ("broker_id", "3") in labels]
    metrics.sources.oldest, metrics.sources.channels = lambda: None, list
    metrics.sources.power = PowerView
    assert not [labels for _, labels in samples(metrics) if ("broker_id", "3") in labels]


def test_names_follow_the_conventions() -> None:
    """What is not named by Kafka: a prefix of ours, base units, counters and nothing else in _total."""
    for _, _, metrics in metric_catalog.GROUPS:
        for metric in metrics:
            if metric.mbean is None:
                assert metric.name.startswith("lethe_")
                assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER), metric.name
                assert not metric.name.endswith(("_ms", "_millis", "_minutes", "_kb", "_mb")), metric.name
                assert metric.kind is not MetricKind.HISTOGRAM or metric.name.endswith("_seconds"), metric.name
            assert "topic" not in metric.labels or metric.name == "lethe_controller_oldest_deletion_info"


def test_an_inactive_controller_shows_zeros() -> None:
    metrics = ControllerMetrics()
    metrics.sources.gauges = Gauges
    found = samples(metrics)
    for metric in metric_catalog.CONTROLLER_GAUGES.values():
        assert found[metric.name, ()] == 0


def test_the_state_is_shown_while_an_event_is_handled() -> None:
    metrics = ControllerMetrics()
    metrics.sources.gauges = Gauges
    name = metric_catalog.CONTROLLER_GAUGES["controller_state"].name
    metrics.event_began("TopicsChanged", ControllerState.TOPIC_CHANGE, 0)
    assert samples(metrics)[name, ()] == 3
    metrics.event_ended("TopicsChanged", ControllerState.TOPIC_CHANGE, 0, "handled")
    assert samples(metrics)[name, ()] == 0


def test_the_page_has_a_line_for_every_metric() -> None:
    text = page()
    for _, _, metrics in metric_catalog.GROUPS:
        for metric in metrics:
            assert f"* `{metric.name}`" in text
    assert "kafka.controller:type=KafkaController,name=OfflinePartitionsCount" in text


async def test_what_is_written_on_another_thread_is_of_the_moment_of_the_scrape() -> None:
    metrics = busy()
    before = metrics.gathered()
    for _ in range(5):
        metrics.note_zookeeper("Delete", 1.0, {"Delete": 100})
    text = written(before).decode()
    assert 'lethe_zookeeper_operations_total{operation="Delete"} 20.0\n' in text
    assert 'lethe_zookeeper_operation_seconds_count{operation="Delete"} 1.0\n' in text
    now = (await metrics.text_written_aside()).decode()
    assert 'lethe_zookeeper_operations_total{operation="Delete"} 520.0\n' in now
    assert "process_cpu_seconds_total" in now
