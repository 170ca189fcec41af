"""The fast path for errors in answers must give what the slow one gives, whatever neighbours look like.

That the bytes are kio's is tested with those of all messages, in properties/.
"""

import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.protocol.kafka.codec import Malformed, decode_response, encode_response
from lethe.protocol.kafka.control import ApiKey, LeaderAndIsrResponse, StopReplicaResponse, TopicError, TopicIdError
from lethe.protocol.vocabulary import TopicId

IDS = st.integers(-(2**31), 2**31 - 1)
ERRORS = st.sampled_from([0, 0, 0, 56, 11, 3])
NAMES = st.sampled_from(["orders", "orders", "order", "o", "größe", "x" * 140])
NAMED = st.lists(st.builds(TopicError, NAMES, IDS, ERRORS), max_size=20).map(tuple)
A, B = TopicId(uuid.UUID(int=7)), TopicId(uuid.UUID(int=1 << 100))


@settings(max_examples=80)
@given(rows=NAMED)
def test_stop_replica_answers_are_kios_bytes_and_come_back(rows: tuple[TopicError, ...]) -> None:
    answer = StopReplicaResponse(0, rows)
    for version in range(5):
        payload = encode_response(ApiKey.STOP_REPLICA, version, 9, answer)
        assert decode_response(ApiKey.STOP_REPLICA, version, payload) == (9, answer)


@settings(max_examples=80)
@given(first=st.lists(st.tuples(IDS, ERRORS), max_size=20), second=st.lists(st.tuples(IDS, ERRORS), max_size=3))
def test_leader_and_isr_answers_are_kios_bytes_and_come_back(
    first: list[tuple[int, int]], second: list[tuple[int, int]]
) -> None:
    by_id = {A: first, B: second}
    rows = tuple(TopicIdError(None, topic_id, *each) for topic_id, errors in by_id.items() for each in errors)
    answer = LeaderAndIsrResponse(0, rows)
    for version in (5, 6, 7):
        payload = encode_response(ApiKey.LEADER_AND_ISR, version, 9, answer)
        assert decode_response(ApiKey.LEADER_AND_ISR, version, payload) == (9, answer)


ROW = b"\x00\x00\x00\x05\x00\x00\x00"
TAGGED = ROW[:-1] + b"\x01\x07\x02ab"
"""One tagged field, number 7, two bytes long."""


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_row_with_tagged_fields_is_read_like_its_neighbours(place: int) -> None:
    rows = [ROW, ROW, ROW]
    rows[place] = TAGGED
    payload = b"\0\0\0\x09\0" + b"\0\0" + b"\x02" + A.bytes + b"\x04" + b"".join(rows) + b"\0\0"
    _, answer = decode_response(ApiKey.LEADER_AND_ISR, 7, payload)
    assert answer == LeaderAndIsrResponse(0, (TopicIdError(None, A, 5, 0),) * 3)
    named = [b"\x02t" + row for row in rows]
    payload = b"\0\0\0\x09\0" + b"\0\0" + b"\x04" + b"".join(named) + b"\0"
    _, stopped = decode_response(ApiKey.STOP_REPLICA, 4, payload)
    assert stopped == StopReplicaResponse(0, (TopicError("t", 5, 0),) * 3)


@pytest.mark.parametrize("api", [ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA])
def test_an_answer_that_is_cut_off_anywhere_is_malformed(api: ApiKey) -> None:
    answer = (
        LeaderAndIsrResponse(0, tuple(TopicIdError(None, A, n, 0) for n in range(5)))
        if api is ApiKey.LEADER_AND_ISR
        else StopReplicaResponse(0, tuple(TopicError("orders", n, 0) for n in range(5)))
    )
    payload = encode_response(api, 4 if api is ApiKey.STOP_REPLICA else 7, 9, answer)
    for size in range(4, len(payload)):
        with pytest.raises(Malformed):
            decode_response(api, 4 if api is ApiKey.STOP_REPLICA else 7, payload[:size])
