"""Which incarnation a name means, compared with a list of all that was said."""

from __future__ import annotations

from collections.abc import Sequence

import hypothesis.strategies as st
from hypothesis import given

from lethe.broker.core.incarnations import NamedIncarnations
from lethe.protocol.vocabulary import TopicId, TopicPartition
from tests.unit.broker.core.driver import X, Y

PARTITIONS = (0, 1, 2)
SAID = st.tuples(st.sampled_from(("t", "u")), st.none() | st.sets(st.sampled_from(PARTITIONS)), st.sampled_from((X, Y)))
"""A topic, the partitions that LeaderAndIsr lists, or None for the topic as a whole, and the id."""


def last_said(said: Sequence[tuple[str, set[int] | None, TopicId]], topic_partition: TopicPartition) -> TopicId | None:
    of_topic = [(partitions, topic_id) for topic, partitions, topic_id in said if topic == topic_partition.topic]
    # What is said first is about the whole topic: nothing else is known of it.
    about = [
        topic_id
        for number, (partitions, topic_id) in enumerate(of_topic)
        if number == 0 or partitions is None or topic_partition.partition in partitions
    ]
    return about[-1] if about else None


@given(st.lists(SAID))
def test_what_was_said_last_about_a_partition_counts(said: list[tuple[str, set[int] | None, TopicId]]) -> None:
    named = NamedIncarnations()
    for topic, partitions, topic_id in said:
        if partitions is None:
            named.name_topic(topic, topic_id)
        else:
            named.name_partitions(topic, partitions, topic_id)
    for topic in ("t", "u"):
        for partition in PARTITIONS:
            asked = TopicPartition(topic, partition)
            assert named.of(asked) == named.copy().of(asked) == last_said(said, asked)
    named.forget("t")
    assert named.of(TopicPartition("t", 0)) is None
    assert named.of(TopicPartition("u", 1)) == last_said(said, TopicPartition("u", 1))


def test_a_copy_is_independent() -> None:
    named = NamedIncarnations()
    named.name_topic("t", X)
    named.name_partitions("t", (1,), Y)
    copy = named.copy()
    copy.name_partitions("t", (0, 2), Y)
    copy.name_topic("u", X)
    assert [named.of(TopicPartition("t", number)) for number in PARTITIONS] == [X, Y, X]
    assert named.of(TopicPartition("u", 0)) is None
