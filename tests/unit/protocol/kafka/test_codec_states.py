"""The fast path for partition states must give what the slow one gives, whatever neighbours look like."""

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.leader_and_isr.v7 import request as kio_leader_and_isr
from kio.schema.update_metadata.v8 import request as kio_update_metadata
from kio.serial import entity_writer

from lethe.protocol.kafka.codec import Malformed, decode_request, encode_control_body, encode_request
from lethe.protocol.kafka.control import (
    Addressed,
    ControlRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrTopic,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    UpdateMetadataTopic,
)
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, ControllerEpoch

IDS = st.integers(-(2**31), 2**31 - 1)
LISTS = st.sampled_from([(), (1,), (1, 2, 3), (3, 1, 2), tuple(range(127)), tuple(range(130))])
FEW_LISTS = st.sampled_from([(1, 2, 3), (2, 3, 1), (1, 2)])
LEADER_AND_ISR_STATES = st.lists(
    st.builds(
        LeaderAndIsrPartition,
        *(IDS, IDS, IDS, IDS, FEW_LISTS | LISTS, IDS, FEW_LISTS),
        adding=st.just(()) | LISTS,
        removing=st.just(()) | LISTS,
        is_new=st.booleans(),
        recovery_state=st.integers(0, 1),
    ),
    max_size=12,
).map(tuple)
UPDATE_METADATA_STATES = st.lists(
    st.builds(
        UpdateMetadataPartition,
        *(IDS, IDS, IDS, IDS, FEW_LISTS | LISTS, IDS, FEW_LISTS),
        offline_replicas=st.just(()) | LISTS,
    ),
    max_size=12,
).map(tuple)


def leader_and_isr(*topics: tuple[LeaderAndIsrPartition, ...]) -> LeaderAndIsrRequest:
    named = tuple(LeaderAndIsrTopic(f"t{n}", None, states) for n, states in enumerate(topics))
    return LeaderAndIsrRequest(BrokerId(1), ControllerEpoch(2), named, ())


def update_metadata(*topics: tuple[UpdateMetadataPartition, ...]) -> UpdateMetadataRequest:
    named = tuple(UpdateMetadataTopic(f"t{n}", None, states) for n, states in enumerate(topics))
    return UpdateMetadataRequest(BrokerId(1), ControllerEpoch(2), named, ())


def body_of(request: ControlRequest, version: int) -> bytes:
    """What follows the header."""
    front, tail = encode_control_body(request, version).frame(0, "", BrokerEpoch(3))
    return (front + tail)[4 + 8 + 2 + 1 :]


def came_back(request: ControlRequest, version: int) -> ControlRequest:
    value = decode_request(encode_request(Addressed(request, BrokerEpoch(3)), version, 0, "")).value
    assert isinstance(value, Addressed)
    return value.request


def kio_body_of(request: ControlRequest, module: Any, name: str, **others: object) -> bytes:
    """The same as kio writes it, with broker epoch 3."""
    state_class = getattr(module, f"{name}PartitionState")
    topic_class, request_class = getattr(module, f"{name}TopicState"), getattr(module, f"{name}Request")
    names = [f for f in state_class.__slots__ if not f.startswith("__")]
    topics = tuple(
        topic_class(
            topic_name=topic.topic,
            topic_id=None,
            partition_states=tuple(state_class(**dict(zip(names, s, strict=True))) for s in topic.partitions),
        )
        for topic in request.topics
    )
    entity = request_class(controller_id=1, controller_epoch=2, broker_epoch=3, topic_states=topics, **others)
    buffer = io.BytesIO()
    entity_writer(request_class)(buffer, entity)
    return buffer.getvalue()


@settings(max_examples=60)
@given(first=LEADER_AND_ISR_STATES, second=LEADER_AND_ISR_STATES)
def test_leader_and_isr_states_are_kios_bytes_and_come_back(
    first: tuple[LeaderAndIsrPartition, ...], second: tuple[LeaderAndIsrPartition, ...]
) -> None:
    request = leader_and_isr(first, second)
    kios = kio_body_of(request, kio_leader_and_isr, "LeaderAndIsr", type_=0, live_leaders=())
    assert body_of(request, 7) == kios
    assert came_back(request, 7) == request
    assert came_back(request, 6) == request


@settings(max_examples=60)
@given(first=UPDATE_METADATA_STATES, second=UPDATE_METADATA_STATES)
def test_update_metadata_states_are_kios_bytes_and_come_back(
    first: tuple[UpdateMetadataPartition, ...], second: tuple[UpdateMetadataPartition, ...]
) -> None:
    request = update_metadata(first, second)
    assert body_of(request, 8) == kio_body_of(request, kio_update_metadata, "UpdateMetadata", live_brokers=())
    for version in (5, 6, 7, 8):
        assert came_back(request, version) == request


ALIKE = tuple(LeaderAndIsrPartition(p, 1, 1, 0, (1, 2), 0, (1, 2)) for p in range(6))
ONE_STATE_BYTES = 16 + 9 + 4 + 9 + 1 + 1 + 1 + 1 + 1
ENDING_BYTES = 1 + 1 + 1
"""Tags of the topic, live leaders, tags of the request."""


def payload_of_alike() -> bytes:
    return encode_request(Addressed(leader_and_isr(ALIKE), BrokerEpoch(3)), 7, 0, "")


def test_a_tagged_field_in_one_of_many_alike_is_passed_over() -> None:
    payload = payload_of_alike()
    for states_behind in range(len(ALIKE)):
        end_of_state = len(payload) - ENDING_BYTES - states_behind * ONE_STATE_BYTES
        assert payload[end_of_state - 1] == 0
        with_tag = payload[: end_of_state - 1] + b"\1\7\2ab" + payload[end_of_state:]
        assert decode_request(with_tag).value == Addressed(leader_and_isr(ALIKE), BrokerEpoch(3))


def test_a_length_written_at_length_is_read_too() -> None:
    payload = payload_of_alike()
    isr_at = len(payload) - ENDING_BYTES - ONE_STATE_BYTES + 16
    assert payload[isr_at] == 3
    padded = payload[:isr_at] + b"\x83\x00" + payload[isr_at + 1 :]
    assert decode_request(padded).value == Addressed(leader_and_isr(ALIKE), BrokerEpoch(3))


@pytest.mark.parametrize("version", [3, 4, 5, 6, 7])
def test_states_alike_cut_anywhere_are_refused(version: int) -> None:
    payload = encode_request(Addressed(leader_and_isr(ALIKE), BrokerEpoch(3)), version, 0, "")
    for end in range(len(payload)):
        with pytest.raises(Malformed):
            decode_request(payload[:end])


def test_an_array_of_states_that_is_null_is_malformed() -> None:
    payload = encode_request(Addressed(leader_and_isr(()), BrokerEpoch(3)), 7, 0, "")
    at = len(payload) - ENDING_BYTES - 1
    assert payload[at] == 1
    with pytest.raises(Malformed, match=f"null at offset {at}"):
        decode_request(payload[:at] + b"\0" + payload[at + 1 :])
