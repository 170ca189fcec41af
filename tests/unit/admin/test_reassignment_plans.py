"""Kafka's file of reassignments, and partitions as a command line names them."""

from __future__ import annotations

import pytest

from lethe.admin.partition_names import Selector, parse_move, parse_selector, selected
from lethe.admin.reassignment_plans import Move, parse_reassignment_file, reassignment_text
from lethe.protocol.vocabulary import ReplicaAssignment, TopicPartition


def _item(extra: str = "", replicas: str = "[1,2]") -> bytes:
    return b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":%s%s}]}' % (
        replicas.encode(),
        extra.encode(),
    )


def test_the_file_is_read_and_written_as_kafkas() -> None:
    targets = {TopicPartition("t", 0): (1, 2)}
    assert parse_reassignment_file(_item(), "f") == targets
    assert parse_reassignment_file(_item(',"log_dirs":["any","any"]'), "f") == targets
    assert parse_reassignment_file(reassignment_text(targets).encode(), "f") == targets


@pytest.mark.parametrize(
    "data,words",
    [
        (b"{", "f is not JSON"),
        (b"[]", "has no list 'partitions'"),
        (b'{"version":2,"partitions":[]}', "version 2"),
        (b'{"partitions":[]}', "names no partition"),
        (b'{"partitions":[1]}', "item 0 of 'partitions' is not an object"),
        (b'{"partitions":[{"topic":"a b"}]}', "'topic' is no topic name"),
        (b'{"partitions":[{"topic":"t","partition":true}]}', "'partition' is no partition number"),
        (_item(replicas="[]"), "'replicas' of t-0 is no list"),
        (_item(replicas="[1,1]"), "names a broker twice"),
        (_item(',"log_dirs":["any"]'), "not one entry for each replica"),
        (_item(',"log_dirs":["any","/d"]'), "names a directory: only the brokers"),
        (_item().replace(b"}]}", b'},{"topic":"t","partition":0,"replicas":[3]}]}'), "names t-0 twice"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(data: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_reassignment_file(data, "f")


def test_partitions_on_the_command_line() -> None:
    assert parse_selector("a.b") == Selector("a.b", None)
    assert parse_selector("a:3") == Selector("a", 3)
    assert parse_move("a:3=2,1") == (TopicPartition("a", 3), (2, 1))
    for text in ("a:", "a:x", "a:-1", ":1", "a b"):
        with pytest.raises(ValueError, match="partition|TOPIC"):
            parse_selector(text)
    for text in ("a=1", "a:1", "a:1=", "a:1=x", "a:1=1,1", "a:1=-1"):
        with pytest.raises(ValueError):
            parse_move(text)


def test_selection() -> None:
    known = {"a": [0, 1], "b": [0]}
    assert selected([Selector("a", 1), Selector("a", None)], known) == [TopicPartition("a", 1), TopicPartition("a", 0)]
    with pytest.raises(ValueError, match="a has no partition 2"):
        selected([Selector("a", 2)], known)
    with pytest.raises(ValueError, match="'c' does not exist"):
        selected([Selector("c", None)], known)


def test_a_move_counts_from_where_the_reassignment_began() -> None:
    now = ReplicaAssignment((3, 1, 2), adding=(3,), removing=(2,))
    move = Move(TopicPartition("t", 0), now, (1, 4))
    assert (move.adding, move.removing, move.is_done) == ((4,), (2,), False)
    assert not Move(TopicPartition("t", 0), now, (3, 1, 2)).is_done
    assert Move(TopicPartition("t", 0), ReplicaAssignment((1, 2)), (1, 2)).is_done
    assert not Move(TopicPartition("t", 0), ReplicaAssignment((2, 1)), (1, 2)).is_done
