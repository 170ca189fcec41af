"""Which partition of `__consumer_offsets` a group belongs to: as Java's String.hashCode says."""

import pytest

from lethe.protocol.kafka.group_offsets import coordinator_partition


@pytest.mark.parametrize(
    "group, hashed",
    [
        ("", 0),
        ("hello", 99_162_322),
        ("orders-reader", 664_356_011),
        ("polygenelubricants", 0),  # hashCode is the lowest number, whose absolute value Kafka takes for 0.
        ("😀", 1_772_899),
    ],
)
def test_by_the_hash_of_the_name(group: str, hashed: int) -> None:
    assert coordinator_partition(group, 2**31) == hashed
    assert coordinator_partition(group, 50) == hashed % 50
