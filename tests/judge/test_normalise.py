"""What is left out of a comparison, and nothing else."""

from __future__ import annotations

import pytest

from tests.judge.normalise import normalised
from tests.judge.step import Free

DESCRIBED = "\tTopic: orders\tPartition: 0\tLeader: 2\tReplicas: 2,1\tIsr: 1,2\tElr: N/A"


@pytest.mark.parametrize(
    "said, shown",
    [
        ("Topic: a\tTopicId: Yp0rGGU0S2WnL4Zt2jTnZA\tPartitionCount: 1", "Topic: a\tTopicId: ID\tPartitionCount: 1"),
        ("Yp0rGGU0S2WnL4Zt2jTnZA: done", "ID: done"),
        ("broker at 127.0.0.1:39417", "broker at 127.0.0.1:PORT"),
        ("node (localhost/127.0.0.1:39417)", "node (localhost:PORT)"),
        ("Call timed out after 60003 ms", "Call timed out after TIME"),
        ("Call(callName=x, deadlineMs=1795684112003, tries=1)", "Call(callName=x, deadlineMs=TIME, ATTEMPTS)"),
        ("/tmp/lethe-judge-1/kafka/broker-1/logs-0", "DIR/broker-1/logs-0"),
    ],
)
def test_ids_ports_times_and_directories_are_not_compared(said: str, shown: str) -> None:
    assert normalised([said], frozenset()) == (shown,)


@pytest.mark.parametrize(
    "said",
    [
        "Created topic orders.",
        "retention.ms=60000 sensitive=false",
        "Topic: orders\tPartitionCount: 3\tReplicationFactor: 2",
        "The target replication factor of 5 cannot be reached because only 3 broker(s) are registered.",
        DESCRIBED.replace("Isr: 1,2", "Isr: 2"),
    ],
)
def test_what_clients_are_told_stays_as_it_is(said: str) -> None:
    assert normalised([said], frozenset()) == (said,)


@pytest.mark.parametrize("stream", ["", "stderr: "])
def test_frames_of_a_stack_trace_are_left_out_and_its_exceptions_stay(stream: str) -> None:
    said = ["Error: java.lang.X: no", "\tat a.B.c(B.java:7)", "Caused by: java.lang.Y: why", "\t... 12 more"]
    shown = ("Error: java.lang.X: no", "Caused by: java.lang.Y: why")
    assert normalised([f"{stream}{line}" for line in said], frozenset()) == tuple(f"{stream}{line}" for line in shown)


def test_a_free_placement_leaves_the_number_of_replicas() -> None:
    (shown,) = normalised([DESCRIBED], frozenset({Free.PLACEMENT}))
    assert shown == "\tTopic: orders\tPartition: 0\tLeader: 1 of them\tReplicas: 2 of them\tIsr: 2 of them\tElr: N/A"
    (listed,) = normalised(["j1: 0 leader 2 replicas [2, 3] isr [2]"], frozenset({Free.PLACEMENT}))
    assert listed == "j1: 0 leader 1 of them replicas [2 of them] isr [1 of them]"


def test_an_isr_is_compared_as_a_set_and_replicas_in_their_order() -> None:
    other_isr, other_replicas = DESCRIBED.replace("Isr: 1,2", "Isr: 2,1"), DESCRIBED.replace("2,1", "1,2")
    assert normalised([other_isr], frozenset()) == normalised([DESCRIBED], frozenset())
    assert normalised([other_replicas], frozenset()) != normalised([DESCRIBED], frozenset())
    assert normalised(["isr [3, 1]"], frozenset()) == normalised(["isr [1, 3]"], frozenset())


def test_a_partition_without_a_leader_is_told_from_one_with_a_leader() -> None:
    led, not_led = (f"Partition: 0\tLeader: {leader}\tReplicas: 3" for leader in ("3", "none"))
    assert normalised([led], frozenset({Free.PLACEMENT})) != normalised([not_led], frozenset({Free.PLACEMENT}))


def test_lines_are_sorted_only_where_their_order_is_free() -> None:
    assert normalised(["b", "a"], frozenset()) == ("b", "a")
    assert normalised(["b", "a"], frozenset({Free.ORDER})) == ("a", "b")


def test_the_controller_is_left_out_only_where_it_is_free() -> None:
    said = "  broker 2 at 127.0.0.1:PORT (controller)"
    assert normalised([said], frozenset()) == (said,)
    assert normalised([said], frozenset({Free.CONTROLLER})) == ("  broker 2 at 127.0.0.1:PORT",)
