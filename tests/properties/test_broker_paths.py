"""Whatever a controller names, what reaches the disk is one entry of a log directory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lethe.broker.runtime.disk import Refused, _single
from lethe.protocol.kafka.directory_names import (
    MAX_DIRECTORY_NAME_LENGTH,
    DirectoryKind,
    deletion_name,
    parse_directory_name,
    partition_problem,
    stray_name,
)
from lethe.protocol.vocabulary import TopicPartition, topic_name_problem
from tests.unit.broker.core.driver import Driver, become, metadata, stop, tombstone

NASTY = st.one_of(
    st.text(max_size=300),
    st.text(alphabet="./\\-_ab0\0\n", max_size=300),
    st.sampled_from(
        ["..", ".", "", "../t", "t/../..", "/etc/passwd", "t\0", "T" * 249, "T" * 250, "ä", "\uff0e\uff0e", "t-0"]
    ),
)
LEGAL = st.text(alphabet="abcXYZ019._-", min_size=1, max_size=249).filter(lambda name: topic_name_problem(name) is None)
PARTITIONS = st.one_of(st.integers(-(2**31), 2**31 - 1), st.integers(0, 20))
UNIQUE = st.text(alphabet="0123456789abcdef", min_size=32, max_size=32)


@given(NASTY, PARTITIONS)
def test_no_request_makes_an_operation_outside_of_its_log_directory(topic: str, partition: int) -> None:
    driver = Driver()
    driver.leader_and_isr(become(topic, partitions=(partition,), is_new=True))
    driver.update(metadata(topic, partitions=(partition,)))
    driver.update(tombstone(topic, partitions=(partition,)))
    driver.stop(stop(topic, partitions=(partition,)))
    for operation in driver.disk.performed:
        names = [str(operation.topic_partition), getattr(operation, "new_name", "fine")]
        for name in names:
            assert _single(name) == name
            assert len(name.encode()) <= MAX_DIRECTORY_NAME_LENGTH
    if partition_problem(TopicPartition(topic, partition)) is not None:
        assert driver.disk.performed == []
    else:
        kinds = [type(operation).__name__ for operation in driver.disk.performed]
        assert kinds == ["CreateReplica", "FillReplica", "RenameForDeletion"]


@given(NASTY)
def test_the_disk_takes_single_names_only(name: str) -> None:
    try:
        assert _single(name) == name
    except Refused:
        assert name in ("", ".", "..") or "/" in name or "\0" in name
    else:
        assert "/" not in name
        assert name not in ("", ".", "..")


@given(LEGAL, st.integers(0, 2**31 - 1), UNIQUE)
def test_names_are_read_as_they_were_made(topic: str, partition: int, unique: str) -> None:
    topic_partition = TopicPartition(topic, partition)
    if partition_problem(topic_partition) is not None:
        return
    assert parse_directory_name(str(topic_partition)) == (DirectoryKind.REPLICA, topic_partition)
    for made, kind in (
        (deletion_name(topic_partition, unique), DirectoryKind.DELETED),
        (stray_name(topic_partition, unique), DirectoryKind.STRAY),
    ):
        parsed = parse_directory_name(made)
        assert len(made) <= MAX_DIRECTORY_NAME_LENGTH
        assert parsed.kind is kind
        assert parsed.topic_partition is not None
        assert topic.startswith(parsed.topic_partition.topic)


@given(NASTY)
def test_a_name_is_a_replica_only_if_it_is_made_like_one(name: str) -> None:
    parsed = parse_directory_name(name)
    if parsed.kind is DirectoryKind.REPLICA:
        assert parsed.topic_partition is not None
        assert str(parsed.topic_partition) == name
