"""Partitions to which something is to be done, each at its time."""

from __future__ import annotations

from lethe.broker.core.due import DueQueue
from lethe.protocol.vocabulary import TopicPartition

T0, T1, T2 = (TopicPartition("t", n) for n in range(3))


def test_they_come_up_in_the_order_of_their_times() -> None:
    queue = DueQueue()
    for topic_partition, due_ms in ((T0, 30), (T1, 10), (T2, 20)):
        queue.add(topic_partition, due_ms)
    assert queue.next_due_ms() == 10
    assert queue.take(20, 9) == (T1, T2)
    assert queue.take(20, 9) == ()
    assert (queue.next_due_ms(), len(queue)) == (30, 1)


def test_a_limit_leaves_the_rest_for_the_next_round() -> None:
    queue = DueQueue()
    for topic_partition in (T0, T1, T2):
        queue.add(topic_partition, 5)
    assert [queue.take(5, 2), queue.take(5, 2), queue.take(5, 2)] == [(T0, T1), (T2,), ()]


def test_a_later_word_counts_and_a_dropped_one_never_comes() -> None:
    queue = DueQueue()
    queue.add(T0, 10)
    queue.add(T0, 50)
    queue.add(T1, 20)
    queue.drop(T1)
    queue.drop(T2)
    assert queue.next_due_ms() == 50
    assert queue.take(49, 9) == ()
    assert queue.take(50, 9) == (T0,)


def test_what_enters_gets_its_time_at_the_end_of_the_step_and_keeps_it() -> None:
    queue = DueQueue()
    queue.enter(T0)
    assert (len(queue), queue.next_due_ms()) == (1, None)
    queue.end_step(100)
    queue.enter(T0)
    queue.end_step(200)
    assert queue.next_due_ms() == 100
    copy = queue.copy()
    queue.drop(T0)
    assert (len(queue), copy.take(100, 1)) == (0, (T0,))
