"""Whatever a znode holds, reading it gives a value or MalformedZnode; what is written is read back unchanged."""

import contextlib
import re
from collections.abc import Callable
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.protocol.vocabulary import MAX_PARTITIONS, BrokerId, LeaderAndIsr, ReplicaAssignment, TopicId
from lethe.protocol.zookeeper import znodes
from lethe.protocol.zookeeper.znodes_debts import MAX_TIME_MS

DECODERS: tuple[Callable[[bytes | None], Any], ...] = (
    lambda data: znodes.decode_debt(3, "orders@17", data),
    lambda data: znodes.decode_forget_request(3, data),
    znodes.decode_controller,
    znodes.decode_controller_epoch,
    znodes.decode_cluster_id,
    znodes.decode_producer_id_block,
    znodes.decode_reassignment,
    znodes.decode_preferred_replica_election,
    lambda data: znodes.decode_topic("t", data),
    lambda data: znodes.decode_state("t", 0, data, 0),
    lambda data: znodes.decode_broker(1, 2, data),
    lambda data: znodes.decode_isr_change("/p", data),
    lambda data: znodes.decode_log_dir_event("/p", data),
    lambda data: znodes.decode_config("/p", data),
    lambda data: znodes.decode_config_change("/p", data),
)

KEYS = st.sampled_from(
    re.split(
        r"\s+",
        """version partitions topic_id adding_replicas removing_replicas leader leader_epoch controller_epoch isr
        leader_recovery_state brokerid timestamp kraftControllerEpoch endpoints host port rack features config
        entity_path entity_type entity_name listener_security_protocol_map topic partition replicas broker block_start
        block_end status id 0 1 -1 min_version max_version max_version_level min_version_level kraft_controller_id
        since reason unreadable lethe admin""",
    )
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.integers(-2, 3)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.sampled_from(["PLAINTEXT://h:1", "topics", "12", "-", "٣", "AAAAAAAAAAAAAAAAAAAAAA"])
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6), max_leaves=12
)
OBJECTS = st.dictionaries(KEYS, JSON, max_size=8)


def decode_all(data: bytes | None) -> None:
    # These two never fail at all, and what one cannot read is no order.
    znodes.decode_deletions_paused(data)
    assert not znodes.decode_deletion_marker(data).unreadable or b"unreadable" in (data or b"")
    for decode in DECODERS:
        with contextlib.suppress(znodes.MalformedZnode):
            decode(data)


@given(st.none() | st.binary(max_size=64))
def test_no_bytes_make_a_reader_fail_otherwise(data: bytes | None) -> None:
    decode_all(data)


@settings(max_examples=300)
@given(OBJECTS | JSON)
def test_no_json_makes_a_reader_fail_otherwise(value: Any) -> None:
    decode_all(orjson.dumps(value))


BROKERS = st.lists(st.integers(0, 2**31 - 1), max_size=5, unique=True).map(tuple)
NUMBERS = st.integers(0, MAX_PARTITIONS - 1)
ASSIGNMENTS = st.builds(ReplicaAssignment, BROKERS, BROKERS, BROKERS)


@given(st.dictionaries(NUMBERS, ASSIGNMENTS, max_size=6), st.none() | st.uuids().map(TopicId))
def test_topics_survive_the_way_there_and_back(assignments: dict[int, Any], topic_id: TopicId | None) -> None:
    topic = znodes.TopicZnode(assignments, topic_id)
    assert znodes.decode_topic("t", znodes.encode_topic(topic)) == topic


INT32 = st.integers(0, 2**31 - 1)
STATES = st.builds(LeaderAndIsr, st.integers(-1, 2**31 - 1), INT32, BROKERS, INT32, INT32, st.integers(0, 1))


@given(STATES)
def test_states_survive_the_way_there_and_back(state: LeaderAndIsr) -> None:
    data = znodes.encode_state(state)
    assert znodes.decode_state("t", 0, data, state.partition_epoch) == state
    assert orjson.loads(data)["version"] == 1


PRINTABLE = st.text(st.characters(exclude_categories=["Cs"]))


@given(INT32.map(BrokerId), st.integers(0, 2**59), st.none() | PRINTABLE.filter(bool), st.sampled_from([1, 2]))
def test_controllers_survive_the_way_there_and_back(
    broker: BrokerId, timestamp_ms: int, admin: str | None, version: int
) -> None:
    znode = znodes.ControllerZnode(broker, timestamp_ms, admin=admin)
    data = znodes.encode_controller(znode, version=version)
    assert znodes.decode_controller(data) == znode
    assert (list(orjson.loads(data))[-1] == "lethe") == (admin is not None)


@given(st.none() | st.integers(-(2**63) + 1, 2**63 - 1), PRINTABLE)
def test_pauses_survive_the_way_there_and_back(since_ms: int | None, reason: str) -> None:
    paused = znodes.DeletionsPaused(since_ms, reason)
    assert znodes.decode_deletions_paused(znodes.encode_deletions_paused(paused)) == paused


@given(st.text())
def test_every_reason_can_be_written(reason: str) -> None:
    written = znodes.encode_deletions_paused(znodes.DeletionsPaused(1, reason))
    assert znodes.decode_deletions_paused(written).since_ms == 1


NATURAL = st.integers(0, 2**63 - 1)
ORDERS = st.builds(
    znodes.DeletionOrders,
    unreadable=st.booleans(),
    begun=st.none() | NATURAL,
    topic_czxid=st.none() | NATURAL,
    offline_replicas=st.none() | st.sampled_from(znodes.OfflineReplicas),
    grace_ms=st.none() | NATURAL,
)
DEBTS = st.builds(
    znodes.Debt,
    topic_id=st.none() | st.uuids().filter(lambda it: it.int > 1).map(TopicId),
    partitions=st.sets(st.integers(0, MAX_PARTITIONS - 1), min_size=1, max_size=20).map(lambda it: tuple(sorted(it))),
    last_leader_epoch=st.integers(0, 2**31 - 1),
    since_ms=st.integers(0, MAX_TIME_MS),
    size_bytes=st.none() | NATURAL,
)


@given(ORDERS)
def test_markers_survive_the_way_there_and_back(orders: znodes.DeletionOrders) -> None:
    assert znodes.decode_deletion_marker(znodes.encode_deletion_marker(orders)) == orders


@given(DEBTS)
def test_debts_survive_the_way_there_and_back(debt: znodes.Debt) -> None:
    assert znodes.decode_debt(3, "orders@17", znodes.encode_debt(debt)) == debt
