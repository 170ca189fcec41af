"""The fast path for errors in answers must give what the slow one gives, whatever neighbours look like.

That the bytes are kio's is tested with those of all messages, in properties/.
"""

import time
import tracemalloc
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.protocol.kafka.codec import Malformed, decode_response, encode_response
from lethe.protocol.kafka.codec_primitives import encode_length
from lethe.protocol.kafka.control import ApiKey, LeaderAndIsrResponse, StopReplicaResponse, TopicError, TopicIdError
from lethe.protocol.vocabulary import MAX_PARTITIONS, TopicId

IDS = st.integers(-(2**31), 2**31 - 1)
ERRORS = st.sampled_from([0, 0, 0, 56, 11, 3])
NAMES = st.sampled_from(["orders", "orders", "order", "o", "größe", "x" * 140])
NAMED = st.lists(st.builds(TopicError, NAMES, IDS, ERRORS), max_size=20).map(tuple)
A, B = TopicId(uuid.UUID(int=7)), TopicId(uuid.UUID(int=1 << 100))


@settings(max_examples=80)
@given(rows=NAMED)
def test_stop_replica_answers_come_back(rows: tuple[TopicError, ...]) -> None:
    answer = StopReplicaResponse.of_rows(0, rows)
    for version in range(5):
        payload = encode_response(ApiKey.STOP_REPLICA, version, 9, answer)
        assert decode_response(ApiKey.STOP_REPLICA, version, payload) == (9, answer)


@settings(max_examples=80)
@given(first=st.lists(st.tuples(IDS, ERRORS), max_size=20), second=st.lists(st.tuples(IDS, ERRORS), max_size=3))
def test_leader_and_isr_answers_come_back(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    by_id = {A: first, B: second}
    rows = tuple(TopicIdError(None, topic_id, *each) for topic_id, errors in by_id.items() for each in errors)
    answer = LeaderAndIsrResponse.of_rows(0, rows)
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
    assert answer == LeaderAndIsrResponse.of_rows(0, (TopicIdError(None, A, 5, 0),) * 3)
    named = [b"\x02t" + row for row in rows]
    payload = b"\0\0\0\x09\0" + b"\0\0" + b"\x04" + b"".join(named) + b"\0"
    _, stopped = decode_response(ApiKey.STOP_REPLICA, 4, payload)
    assert stopped == StopReplicaResponse.of_rows(0, (TopicError("t", 5, 0),) * 3)


@pytest.mark.parametrize("api", [ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA])
def test_an_answer_that_is_cut_off_anywhere_is_malformed(api: ApiKey) -> None:
    answer = (
        LeaderAndIsrResponse.of_rows(0, tuple(TopicIdError(None, A, n, 0) for n in range(5)))
        if api is ApiKey.LEADER_AND_ISR
        else StopReplicaResponse.of_rows(0, tuple(TopicError("orders", n, 0) for n in range(5)))
    )
    payload = encode_response(api, 4 if api is ApiKey.STOP_REPLICA else 7, 9, answer)
    for size in range(4, len(payload)):
        with pytest.raises(Malformed):
            decode_response(api, 4 if api is ApiKey.STOP_REPLICA else 7, payload[:size])


def test_topics_of_one_size_share_what_was_read() -> None:
    rows = [TopicError(name, n, 0) for name in ("a", "orders", "größe") for n in range(50)]
    payload = encode_response(ApiKey.STOP_REPLICA, 4, 9, StopReplicaResponse.of_rows(0, rows))
    _, answer = decode_response(ApiKey.STOP_REPLICA, 4, payload)
    assert isinstance(answer, StopReplicaResponse)
    assert [topic.topic for topic in answer.topics] == ["a", "orders", "größe"]
    assert answer.topics[0].errors is answer.topics[1].errors is answer.topics[2].errors
    assert not answer.topics[0].errors.has_error


@pytest.mark.parametrize("sizes", [(1, 1), (1, 50, 3), (64, 63, 65), (200, 1, 200, 1), (7,)])
@pytest.mark.parametrize("version", range(5))
def test_runs_of_any_size_after_any_other_come_back(sizes: tuple[int, ...], version: int) -> None:
    rows = [TopicError(f"t-{at}", n, 56 if n % 60 == 7 else 0) for at, size in enumerate(sizes) for n in range(size)]
    answer = StopReplicaResponse.of_rows(0, rows)
    payload = encode_response(ApiKey.STOP_REPLICA, version, 9, answer)
    assert decode_response(ApiKey.STOP_REPLICA, version, payload) == (9, answer)


def test_a_name_that_occurs_in_its_own_rows_is_read_row_by_row() -> None:
    """The number 0x02740000 has the bytes of the name `t` with its length."""
    answer = StopReplicaResponse.of_rows(0, [TopicError("t", n, 0) for n in (1, 0x02740000, 2)])
    payload = encode_response(ApiKey.STOP_REPLICA, 4, 9, answer)
    assert decode_response(ApiKey.STOP_REPLICA, 4, payload) == (9, answer)


def test_rows_that_are_all_unlike_their_neighbours_take_no_longer_than_others() -> None:
    """A peer that alternates long runs, single rows and tagged fields must not make the reader start over each time."""

    def payload_of(*rows: bytes) -> bytes:
        return b"\0\0\0\x09\0" + b"\0\0" + encode_length(len(rows), True) + b"".join(rows) + b"\0"

    def seconds(payload: bytes) -> float:
        began_s = time.process_time()
        decode_response(ApiKey.STOP_REPLICA, 4, payload)
        return time.process_time() - began_s

    plain, tagged = b"\x02t" + ROW, b"\x02t" + TAGGED
    named = [b"\x03" + b"ab"[n % 2 : n % 2 + 1] + b"x" + ROW for n in range(20_000)]
    usual_s = max(seconds(payload_of(*[plain] * 20_000)), 0.02)
    # Each tagged field of eight bytes is `x` and the fixed part of another row.
    within = [b"\x03\x08x" + ROW[:-1] + b"\x01" + b"\x03\x08x" + ROW[:-1] + b"\x01"] * 20_000
    for rows in ([plain, tagged] * 10_000, [*[plain] * 19_999, tagged], named, [*[plain] * 199, tagged] * 100, within):
        assert seconds(payload_of(*rows)) < 50 * usual_s


def test_a_name_that_is_longer_than_any_string_makes_the_answer_malformed() -> None:
    name = b"x" * 32_768
    payload = b"\0\0\0\x09\0" + b"\0\0" + b"\x02" + encode_length(len(name), True) + name + ROW + b"\0"
    with pytest.raises(Malformed, match="a string of 32,768 bytes"):
        decode_response(ApiKey.STOP_REPLICA, 4, payload)


def test_a_number_that_was_not_asked_for_takes_no_memory() -> None:
    answer = StopReplicaResponse.of_rows(0, [TopicError("t", n, 0) for n in (2**31 - 1, -1, MAX_PARTITIONS, 3)])
    assert answer.topics[0].errors.among(0b1110) == (0b1000, 0)
    assert [row.partition for row in answer.rows] == [2**31 - 1, -1, MAX_PARTITIONS, 3]


@pytest.mark.parametrize("number", [4_095, MAX_PARTITIONS - 1])
def test_an_error_of_its_own_in_each_row_takes_no_bit_set_of_its_own(number: int) -> None:
    """A bit set has as many bits as its highest number says: 65,536 of them for the number 999,999 take 8 GB."""
    rows = [TopicError("t", number, error) for error in range(2_000)]
    payload = encode_response(ApiKey.STOP_REPLICA, 4, 9, StopReplicaResponse.of_rows(0, rows))
    tracemalloc.start()
    try:
        _, answer = decode_response(ApiKey.STOP_REPLICA, 4, payload)
        assert isinstance(answer, StopReplicaResponse)
        assert answer.topics[0].errors.has_error
        assert answer.topics[0].errors.among(1 << number) == (1 << number, 1 << number)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_500_000


def test_topics_with_one_high_number_each_take_as_little_memory_as_others() -> None:
    """A bit set for the number 999,999 has 125 KB: a row of eight bytes may not make one that is kept."""
    rows = [TopicIdError(None, TopicId(uuid.UUID(int=n)), MAX_PARTITIONS - n, 0) for n in range(1, 2_001)]
    payload = encode_response(ApiKey.LEADER_AND_ISR, 7, 9, LeaderAndIsrResponse.of_rows(0, rows))
    tracemalloc.start()
    try:
        _, answer = decode_response(ApiKey.LEADER_AND_ISR, 7, payload)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 4_000_000
    assert isinstance(answer, LeaderAndIsrResponse)
    high = 1 << MAX_PARTITIONS - 1
    assert answer.topics[0].errors.among(high) == (high, 0)
