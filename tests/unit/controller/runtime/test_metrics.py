import dataclasses

from prometheus_client.parser import text_string_to_metric_families

from adapters.kafka.relay import RelayCounts
from controller.core.events import ControllerState
from controller.core.gauges import Gauges
from controller.runtime import declared
from controller.runtime.metrics import (
    ChannelCounts,
    ChannelView,
    ControllerMetrics,
    JournalView,
    ListenerView,
    SessionView,
    Sources,
    Tenure,
    metrics_page,
)
from protocol.journal import Fact, FactType


def busy() -> ControllerMetrics:
    """Metrics with something in every family."""
    counts = ChannelCounts(queue_size=3, backlog_bytes=99)
    counts.queue_time_ms.add(4)
    counts.note_latency("STOP_REPLICA", 0.02)
    counts.note_retry("timeout")
    metrics = ControllerMetrics()
    metrics.sources = Sources(
        gauges=lambda: Gauges(active_controller_count=1, topics_to_delete_count=7),
        tenure=lambda: Tenure("active", ("active", "standing by"), 5, 1001, 2),
        queue_size=lambda: 4,
        channels=lambda: [ChannelView(3, counts, 1.5)],
        session=lambda: SessionView(True, 2, 1, 6),
        listener=lambda: ListenerView(2, 1, RelayCounts(3, 40, 500, 6)),
        journal=lambda: JournalView(10, 1, False),
    )
    for state in ControllerState:
        metrics.event_began("BrokersChanged", state, 0.003)
        metrics.event_ended("BrokersChanged", state, 0.2, "fault")
    metrics.note_zookeeper("write", 0.05)
    metrics.broker_answered("AlterPartition", 0.01, {"NONE": 3, "FENCED_LEADER_EPOCH": 1})
    metrics.note_fact(Fact(FactType.DELETION_PHASE, "topic/a", {"phase": "tombstoned", "took_ms": 1500}))
    return metrics


def samples(metrics: ControllerMetrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(metrics.text().decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def test_every_declared_metric_is_exported_with_its_labels() -> None:
    found = samples(busy())
    for _, _, metrics in declared.GROUPS:
        for metric in metrics:
            names = {
                declared.Kind.SUMMARY: ("", "_count", "_sum"),
                declared.Kind.HISTOGRAM: ("_bucket", "_count", "_sum"),
            }.get(metric.kind, ("",))
            for suffix in names:
                labels = [dict(labels) for name, labels in found if name == metric.name + suffix]
                assert labels, metric.name + suffix
                extra = {"": {"quantile"}, "_bucket": {"le"}}.get(suffix, set()) if len(names) > 1 else set()
                assert set(labels[0]) == set(metric.labels) | extra


def test_nothing_is_exported_that_is_not_declared() -> None:
    known = {metric.name for _, _, metrics in declared.GROUPS for metric in metrics}
    for name, _ in samples(busy()):
        bare = name.removesuffix("_count").removesuffix("_sum").removesuffix("_bucket")
        assert name in known or bare in known or name.startswith("process_"), name


def test_names_are_declared_once_and_every_gauge_of_the_core_is_shown() -> None:
    names = [metric.name for _, _, metrics in declared.GROUPS for metric in metrics]
    assert len(names) == len(set(names))
    fields = {field.name for field in dataclasses.fields(Gauges)}
    assert set(declared.CONTROLLER_GAUGES) == fields | {"controller_state"}


def test_values_come_through() -> None:
    found = samples(busy())
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


def test_an_inactive_controller_shows_zeros() -> None:
    metrics = ControllerMetrics()
    metrics.sources.gauges = Gauges
    found = samples(metrics)
    for metric in declared.CONTROLLER_GAUGES.values():
        assert found[metric.name, ()] == 0


def test_the_state_is_shown_while_an_event_is_handled() -> None:
    metrics = ControllerMetrics()
    metrics.sources.gauges = Gauges
    name = declared.CONTROLLER_GAUGES["controller_state"].name
    metrics.event_began("TopicsChanged", ControllerState.TOPIC_CHANGE, 0)
    assert samples(metrics)[name, ()] == 3
    metrics.event_ended("TopicsChanged", ControllerState.TOPIC_CHANGE, 0, "handled")
    assert samples(metrics)[name, ()] == 0


def test_the_page_has_a_line_for_every_metric() -> None:
    page = metrics_page()
    for _, _, metrics in declared.GROUPS:
        for metric in metrics:
            assert f"| `{metric.name}` |" in page
    assert "kafka.controller:type=KafkaController,name=OfflinePartitionsCount" in page
