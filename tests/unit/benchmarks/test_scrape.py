"""A scrape costs the same, and shows as many series, however many topics and partitions there are."""

from __future__ import annotations

import statistics
import time

from prometheus_client.parser import text_string_to_metric_families

from benchmarks.canned_cluster import CannedCluster
from benchmarks.scrape import loaded, metrics_over
from lethe.controller.core import mutation
from lethe.controller.core.context import Role
from lethe.controller.runtime.metrics import ControllerMetrics
from lethe.protocol.vocabulary import BrokerId, ReplicaAssignment

MANY_TOPICS = 100_000


def with_topics(count: int) -> ControllerMetrics:
    """A controller that knows so many topics of one partition and deletes all of them."""
    world = CannedCluster(50)
    context = world.context
    context.role = Role.ACTIVE
    assignment = {0: ReplicaAssignment((1, 2, 3))}
    for number in range(count):
        mutation.add_topic(context.cluster, f"t{number}", None, assignment)
        mutation.queue_deletion(context.cluster, f"t{number}", 0)
    return metrics_over(world, 3)


def series(metrics: ControllerMetrics) -> set[tuple[str, tuple[str, ...]]]:
    """Names and labels, without the values of labels that stand for one thing that varies."""
    families = text_string_to_metric_families(metrics.text().decode())
    found = [(s.name, s.labels) for family in families for s in family.samples]
    assert len(found) == len({(name, tuple(sorted(labels.items()))) for name, labels in found})
    return {(name, tuple(f"{k}={v}" for k, v in sorted(labels.items()) if k != "topic")) for name, labels in found}


def median_s(metrics: ControllerMetrics) -> float:
    """Processor time of one scrape."""

    def once() -> float:
        started_s = time.thread_time()
        metrics.text()
        return time.thread_time() - started_s

    return statistics.median(once() for _ in range(9))


def test_a_hundred_thousand_topics_make_no_more_series_than_ten_and_no_dearer_scrape() -> None:
    few, many = with_topics(10), with_topics(MANY_TOPICS)
    assert many.sources.gauges is not None
    assert many.sources.gauges().topics_to_delete_count == MANY_TOPICS
    assert series(few) == series(many)
    assert median_s(many) < 3 * median_s(few)


def test_the_oldest_deletion_of_a_loaded_cluster_is_named_and_says_whom_it_waits_for() -> None:
    metrics = loaded(1_000)
    assert metrics.sources.oldest is not None
    found = metrics.sources.oldest()
    assert found is not None
    assert (found.topic, found.reason, found.broker) == ("topic-00000", "ANSWER", BrokerId(1))
