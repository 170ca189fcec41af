"""Two recordings are compared: what may differ does not matter, whatever else differs is found, and only what is listed
is allowed."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lethe.protocol.kafka.codec import decode_request, encode_request
from lethe.protocol.kafka.control import (
    Addressed,
    ApiKey,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from lethe.protocol.vocabulary import BrokerEpoch, ControllerEpoch
from tests.wire.compare import Comparison, compare
from tests.wire.differences import DIFFERENCES
from tests.wire.recording import VERSIONS, Exchange, Recording, Who, read_recording
from tests.wire.said import Stream, joined, streams
from tools.wire_differences_page import comparisons, page

MIDDLE, END = "control changes hands in the middle of it", "the dead broker returns"
Change = Callable[[Any], Any]
"""Of a request."""


@functools.cache
def kafka(version: str = "3.9.1") -> Recording:
    return read_recording(Who.KAFKA, version)


def with_exchanges(recording: Recording, exchanges: Sequence[Exchange]) -> Recording:
    return dataclasses.replace(recording, exchanges=tuple(exchanges))


def rewritten(exchange: Exchange, change: Change) -> Exchange:
    """The same with another request of one of the three control APIs."""
    header, value = decode_request(exchange.request)
    assert isinstance(value, Addressed)
    changed = value._replace(request=change(value.request))
    frame = encode_request(changed, header.version, header.correlation_id + 1000, header.client_id)
    return exchange._replace(request=frame)


def with_change(recording: Recording, api: ApiKey, change: Change) -> Recording:
    """Of the last request of that API in the phase in which the first topic is created."""
    at = max(
        number
        for number, each in enumerate(recording.exchanges)
        if each.api is api and each.phase == "a topic is created"
    )
    before, each, behind = recording.exchanges[:at], recording.exchanges[at], recording.exchanges[at + 1 :]
    return with_exchanges(recording, [*before, rewritten(each, change), *behind])


def compared(other: Recording) -> Comparison:
    return compare(kafka(), other, ())


# --- what is recorded ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_our_controller_says_what_kafkas_says_but_for_what_is_listed(version: str) -> None:
    unlisted = comparisons()[version].unlisted
    assert not unlisted, "\n\n".join(unlisted)


def test_every_listed_difference_is_there() -> None:
    found = {one.title for each in comparisons().values() for one in each.found}
    assert found == {each.title for each in DIFFERENCES}


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_allowed_that_is_not_listed(version: str) -> None:
    """Each entry of the table is needed: without it a comparison fails."""
    for left_out in {one.title for one in comparisons()[version].found}:
        listed = [each for each in DIFFERENCES if each.title != left_out]
        assert compare(kafka(version), read_recording(Who.LETHE, version), listed).unlisted, left_out


def is_fence(each: Exchange) -> bool:
    """A StopReplica without partitions, which asks for nothing."""
    value = decode_request(each.request).value
    return isinstance(value, Addressed) and isinstance(value.request, StopReplicaRequest) and not value.request.topics


@pytest.mark.parametrize("version", VERSIONS)
def test_the_list_hides_no_order_that_is_missing(version: str) -> None:
    """Each LeaderAndIsr and StopReplica of ours has its counterpart: without it the comparison fails, the list
    notwithstanding. Not so in the phase in which we delete and Kafka waits."""
    ours = read_recording(Who.LETHE, version)
    leaving = max(n for n, each in enumerate(ours.exchanges) if each.api is ApiKey.CONTROLLED_SHUTDOWN)
    tried = 0
    for at, each in enumerate(ours.exchanges):
        may_be_missed = each.broker == ours.exchanges[leaving].broker and each.phase == ours.exchanges[leaving].phase
        may_be_missed |= is_fence(each)
        if each.api in (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA) and each.phase != MIDDLE and not may_be_missed:
            rest = [*ours.exchanges[:at], *ours.exchanges[at + 1 :]]
            assert compare(kafka(version), with_exchanges(ours, rest), DIFFERENCES).unlisted, each
            tried += 1
    assert tried > 30


@pytest.mark.parametrize("version", VERSIONS)
def test_what_we_delete_sooner_is_what_kafka_deletes_later(version: str) -> None:
    ours, theirs = streams(read_recording(Who.LETHE, version)), streams(kafka(version))
    stops = (each.about for each in ours[Stream(MIDDLE, 1, False)] if each.api is ApiKey.STOP_REPLICA)
    sooner = [about for about in stops if about]
    later = [each.about for each in theirs[Stream(END, 1, False)] if each.api is ApiKey.STOP_REPLICA]
    assert len(sooner) == 2
    assert sooner == later


def test_the_page_names_them_all() -> None:
    text = page()
    for each in DIFFERENCES:
        assert each.title in text
        assert each.why in text


# --- what is the same ---------------------------------------------------------------------------------------------


def test_a_recording_is_like_itself() -> None:
    assert compared(kafka()).unlisted == ()
    assert sum(compared(kafka()).requests.values()) > 100


def test_the_order_within_a_request_does_not_matter() -> None:
    def backwards(request: UpdateMetadataRequest) -> UpdateMetadataRequest:
        topics = tuple(topic._replace(partitions=topic.partitions[::-1]) for topic in request.topics)
        return dataclasses.replace(request, topics=topics[::-1], live_brokers=request.live_brokers[::-1])

    other = with_exchanges(
        kafka(),
        [rewritten(each, backwards) if each.api is ApiKey.UPDATE_METADATA else each for each in kafka().exchanges],
    )
    assert other != kafka()
    assert compared(other).unlisted == ()


def test_other_broker_epochs_do_not_matter_as_long_as_they_tell_incarnations_apart() -> None:
    def later(each: Exchange, by: int) -> Exchange:
        header, value = decode_request(each.request)
        if each.api is ApiKey.API_VERSIONS:
            return each
        request: Any = value
        epoch = BrokerEpoch(request.broker_epoch + by)
        changed: Any = (
            value._replace(broker_epoch=epoch)
            if isinstance(value, Addressed)
            else dataclasses.replace(request, broker_epoch=epoch)
        )
        return each._replace(request=encode_request(changed, header.version, header.correlation_id, header.client_id))

    exchanges = kafka().exchanges
    assert compared(with_exchanges(kafka(), [later(each, 7) for each in exchanges])).unlisted == ()
    torn = [later(each, number % 2) for number, each in enumerate(exchanges)]
    assert "incarnation" in compared(with_exchanges(kafka(), torn)).unlisted[0]


def test_one_request_may_be_two() -> None:
    def half(first: bool) -> Change:
        def change(request: UpdateMetadataRequest) -> UpdateMetadataRequest:
            (topic,) = request.topics
            rows = topic.partitions[:1] if first else topic.partitions[1:]
            return dataclasses.replace(request, topics=(topic._replace(partitions=rows),))

        return change

    at, each = next(
        (number, each)
        for number, each in enumerate(kafka().exchanges)
        if each.phase == "a topic is created" and each.api is ApiKey.UPDATE_METADATA
    )
    exchanges = kafka().exchanges
    two = [rewritten(each, half(True)), rewritten(each, half(False))]
    assert compared(with_exchanges(kafka(), [*exchanges[:at], *two, *exchanges[at + 1 :]])).unlisted == ()


# --- what is not --------------------------------------------------------------------------------------------------


def test_a_request_that_is_missing_is_found() -> None:
    for number, each in enumerate(kafka().exchanges):
        if each.phase in ("a topic is created", "a topic is deleted"):
            rest = [other for at, other in enumerate(kafka().exchanges) if at != number]
            (text, *_) = compared(with_exchanges(kafka(), rest)).unlisted
            assert text.startswith(f"{each.phase}: broker {each.broker} is told")


def test_another_order_is_found() -> None:
    exchanges = list(kafka().exchanges)
    at = next(n for n, each in enumerate(exchanges) if each.api is ApiKey.LEADER_AND_ISR and each.broker == 1)
    behind = next(n for n in range(at + 1, len(exchanges)) if exchanges[n].broker == 1)
    assert exchanges[behind].api is ApiKey.UPDATE_METADATA
    exchanges[at], exchanges[behind] = exchanges[behind], exchanges[at]
    (text,) = compared(with_exchanges(kafka(), exchanges)).unlisted
    assert text.startswith("a topic is created: broker 1 is told")


def test_another_leader_epoch_is_found() -> None:
    def change(request: LeaderAndIsrRequest) -> LeaderAndIsrRequest:
        (topic,) = request.topics
        rows = tuple(row._replace(leader_epoch=row.leader_epoch + 1) for row in topic.partitions)
        return dataclasses.replace(request, topics=(topic._replace(partitions=rows),))

    (text,) = compared(with_change(kafka(), ApiKey.LEADER_AND_ISR, change)).unlisted
    assert '"leader_epoch": 1' in text


def test_another_controller_epoch_is_found() -> None:
    def change(request: UpdateMetadataRequest) -> UpdateMetadataRequest:
        return dataclasses.replace(request, controller_epoch=ControllerEpoch(request.controller_epoch + 1))

    (text,) = compared(with_change(kafka(), ApiKey.UPDATE_METADATA, change)).unlisted
    assert '"controller_epoch": 2' in text


def test_another_delete_flag_is_found() -> None:
    def kept(request: StopReplicaRequest) -> StopReplicaRequest:
        topics = tuple(
            topic._replace(partitions=tuple(row._replace(delete=not row.delete) for row in topic.partitions))
            for topic in request.topics
        )
        return dataclasses.replace(request, topics=topics)

    other = [rewritten(each, kept) if each.api is ApiKey.STOP_REPLICA else each for each in kafka().exchanges]
    unlisted = compared(with_exchanges(kafka(), other)).unlisted
    stopped = [stream for stream, said in streams(kafka()).items() if any(e.api is ApiKey.STOP_REPLICA for e in said)]
    assert len(stopped) == 6
    assert [text.partition("\n")[0] for text in unlisted] == [str(stream) for stream in stopped]


def test_requests_that_contradict_each_other_stay_two() -> None:
    (stream,) = [
        said
        for stream, said in streams(kafka()).items()
        if stream.phase == "a replica is removed" and stream.broker == 1
    ]
    told = [each for each in joined(stream) if each.api is ApiKey.UPDATE_METADATA]
    assert [each.about["payments-0"]["leader_epoch"] for each in told][:2] == [5, 6]
