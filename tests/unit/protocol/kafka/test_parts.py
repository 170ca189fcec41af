"""The largest frames that a cluster can ask for, encoded with the codec and measured."""

import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethe.protocol.kafka.codec import encode_control_body
from lethe.protocol.kafka.control import (
    ControlRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopic,
    Node,
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopic,
    TopicError,
    TopicIdError,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopic,
)
from lethe.protocol.kafka.parts import exceeds, merged, parts_of
from lethe.protocol.kafka.queries import ChannelRequest, ChannelResponse, DescribeLogDirsRequest
from lethe.protocol.kafka.versions import LATEST, OLDEST, InterBrokerProtocol, control_versions
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, ControllerEpoch, Endpoint, TopicId

ME = BrokerId(2**31 - 1)
CLIENT_ID = str(ME)
EPOCH = ControllerEpoch(2**31 - 1)
KINDS = ("LeaderAndIsr", "UpdateMetadata", "StopReplica")
IBPS = (OLDEST, *map(InterBrokerProtocol.parse, ("2.4", "2.6", "2.8", "3.2")), LATEST)
Rows = dict[str, int]
"""Topic to the number of its partitions."""


def brokers(count: int) -> tuple[Broker, ...]:
    host = "h" * 255
    endpoints = tuple(Endpoint(f"LISTENER_{n}", host, 9092) for n in range(3))
    return tuple(Broker(BrokerId(n), BrokerEpoch(-1), endpoints, "rack" * 10) for n in range(count))


def request_of(kind: str, topics: Rows, replicas: int = 3, live: tuple[Broker, ...] = ()) -> ControlRequest:
    ids = {name: TopicId(uuid.UUID(int=n + 1)) for n, name in enumerate(topics)}
    on = tuple(range(replicas))
    if kind == "LeaderAndIsr":
        return LeaderAndIsrRequest(
            ME,
            EPOCH,
            tuple(
                LeaderAndIsrTopic(
                    name,
                    ids[name],
                    tuple(
                        LeaderAndIsrPartition(n, 7, n % max(1, len(live)), 3, on, 2, on, on, on, True)
                        for n in range(count)
                    ),
                )
                for name, count in topics.items()
            ),
            tuple(Node(each.id, each.endpoints[0].host, 9092) for each in live),
        )
    if kind == "UpdateMetadata":
        return UpdateMetadataRequest(
            ME,
            EPOCH,
            tuple(
                UpdateMetadataTopic(
                    name, ids[name], tuple(UpdateMetadataPartition(n, 7, 0, 3, on, 2, on, on) for n in range(count))
                )
                for name, count in topics.items()
            ),
            live,
        )
    return StopReplicaRequest(
        ME,
        EPOCH,
        tuple(
            StopReplicaTopic(name, tuple(StopReplicaPartition(n, -2, True) for n in range(count)))
            for name, count in topics.items()
        ),
    )


def frame_bytes(part: ChannelRequest, kind: str, ibp: InterBrokerProtocol = LATEST) -> int:
    """What a broker holds against its limit: the frame without its four bytes of size."""
    versions = control_versions(ibp)
    version = {
        "LeaderAndIsr": versions.leader_and_isr,
        "UpdateMetadata": versions.update_metadata,
        "StopReplica": versions.stop_replica,
    }[kind]
    body = encode_control_body(part, version)
    front, tail = body.frame(2**31 - 1, CLIENT_ID, BrokerEpoch(2**62))
    return len(front) + len(tail) - 4


def rows_of(part: ChannelRequest) -> list[tuple[str, Any]]:
    return [(topic.topic, row) for topic in part.topics or () for row in topic.partitions]


LONG = {f"{n:03d}" + "n" * 246: 40 for n in range(30)}


@pytest.mark.parametrize("ibp", IBPS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_no_frame_exceeds_the_limit_with_the_longest_names_and_many_replicas(
    kind: str, ibp: InterBrokerProtocol
) -> None:
    request = request_of(kind, LONG, replicas=40)
    for max_bytes in (1_500, 20_000, 10_000_000):
        parts = parts_of(request, max_bytes)
        assert max(frame_bytes(part, kind, ibp) for part in parts) <= max_bytes
        assert [row for part in parts for row in rows_of(part)] == rows_of(request)
    assert parts_of(request, 10_000_000) == (request,)


@pytest.mark.parametrize("kind", ["LeaderAndIsr", "UpdateMetadata"])
def test_a_thousand_live_brokers_are_part_of_the_frame(kind: str) -> None:
    live = brokers(1_000)
    request = request_of(kind, {"orders": 3_000, "n" * 249: 3_000}, replicas=20, live=live)
    max_bytes = 1_000_000
    parts = parts_of(request, max_bytes)
    assert 1 < len(parts) < 30
    assert max(frame_bytes(part, kind) for part in parts) <= max_bytes
    for part in parts:
        if isinstance(part, UpdateMetadataRequest):
            assert part.live_brokers == live
        if isinstance(part, LeaderAndIsrRequest):
            leaders = {row.leader for topic in part.topics for row in topic.partitions}
            assert {node.id for node in part.live_leaders} == leaders


@pytest.mark.parametrize("kind", KINDS)
def test_a_part_is_as_large_as_the_limit_allows(kind: str) -> None:
    parts = parts_of(request_of(kind, {f"topic-{n}": 50 for n in range(200)}), 50_000)
    assert min(frame_bytes(part, kind) for part in parts[:-1]) > 30_000


def test_a_row_above_the_limit_is_a_part_of_its_own() -> None:
    request = request_of("UpdateMetadata", {"a": 2, "b": 1}, live=brokers(10))
    parts = parts_of(request, 1_000)
    found = [[(name, row.partition) for name, row in rows_of(part)] for part in parts]
    assert found == [[("a", 0)], [("a", 1)], [("b", 0)]]
    assert all(exceeds(encode_control_body(part, 8).size_bytes, 1_000) for part in parts)


@pytest.mark.parametrize(
    "request_", [request_of(kind, {}) for kind in KINDS] + [DescribeLogDirsRequest(()), DescribeLogDirsRequest(None)]
)
def test_what_has_no_rows_is_one_part(request_: ChannelRequest) -> None:
    assert parts_of(request_, 1) == (request_,)


@given(
    st.sampled_from(KINDS),
    st.dictionaries(st.text("abc", min_size=1, max_size=9), st.integers(1, 8), min_size=1, max_size=6),
    st.integers(1, 900),
    st.integers(0, 4),
)
def test_parts_say_what_the_whole_says_and_their_answers_are_its_answer(
    kind: str, topics: Rows, max_bytes: int, live: int
) -> None:
    request = request_of(kind, topics, live=brokers(live))
    parts = parts_of(request, max_bytes)
    assert [row for part in parts for row in rows_of(part)] == rows_of(request)
    for part in parts:
        names = [topic.topic for topic in part.topics or ()]
        assert len(set(names)) == len(names)
        assert frame_bytes(part, kind) <= max_bytes or len(rows_of(part)) == 1
        if isinstance(part, LeaderAndIsrRequest) and live and len(parts) > 1:
            assert {node.id for node in part.live_leaders} == {row.leader for _, row in rows_of(part)}
    assert merged([answer_to(part) for part in parts]) == answer_to(request)


def answer_to(request: ChannelRequest, error: int = 0) -> ChannelResponse:
    match request:
        case LeaderAndIsrRequest():
            rows = tuple(TopicIdError(None, t.topic_id, p.partition, 0) for t in request.topics for p in t.partitions)
            return LeaderAndIsrResponse.of_rows(error, rows)
        case StopReplicaRequest():
            stopped = tuple(TopicError(t.topic, p.partition, 0) for t in request.topics for p in t.partitions)
            return StopReplicaResponse.of_rows(error, stopped)
        case _:
            return UpdateMetadataResponse(error)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("errors, whole", [((0, 0, 0), 0), ((0, 11, 0), 11), ((11, 0, 0), 11), ((0, 77, 11), 77)])
def test_an_error_of_any_part_is_the_error_of_the_whole(kind: str, errors: tuple[int, ...], whole: int) -> None:
    request = request_of(kind, {"a": 1})
    assert merged([answer_to(request, error) for error in errors]).error == whole
