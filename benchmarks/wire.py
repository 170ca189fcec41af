"""What the wire costs: build, encode, share, decode requests and answers about many partitions.

`python -m benchmarks.wire [--partitions 100000] [--json]`. Times are of one run each, in milliseconds; "frame" is what
each further broker costs once the body is encoded.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TypeVar

from lethe.protocol.kafka.codec import decode_request, decode_response, encode_control_body, encode_response
from lethe.protocol.kafka.control import (
    ApiKey,
    ControlRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopic,
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopic,
    TopicError,
    TopicIdError,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    UpdateMetadataTopic,
)
from lethe.protocol.kafka.queries import (
    DescribeLogDirsResponse,
    LogDir,
    LogDirPartition,
    LogDirTopic,
    MetadataBroker,
    MetadataPartition,
    MetadataResponse,
    MetadataTopic,
    Response,
)
from lethe.protocol.vocabulary import (
    EPOCH_DURING_DELETE,
    Broker,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    Endpoint,
    TopicId,
)

PARTITIONS_PER_TOPIC = 50
REPLICAS = (1, 2, 3)

T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """One message; None for a step that does not apply."""

    message: str
    bytes: int
    build_ms: float
    encode_ms: float
    frame_ms: float | None
    decode_ms: float


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """The result, and how many milliseconds it took.

    What was built before is kept out of the garbage collector, which would otherwise look at it again and again.
    """
    gc.freeze()
    start = time.perf_counter()
    result = work()
    return result, (time.perf_counter() - start) * 1000


def topic_id(topic: int) -> TopicId:
    return TopicId(uuid.UUID(int=topic + 2))


def leader_and_isr(topics: int) -> ControlRequest:
    return LeaderAndIsrRequest(
        BrokerId(1001),
        ControllerEpoch(7),
        tuple(
            LeaderAndIsrTopic(
                f"topic-{t}",
                topic_id(t),
                tuple(LeaderAndIsrPartition(p, 7, 1, 0, REPLICAS, 0, REPLICAS) for p in range(PARTITIONS_PER_TOPIC)),
            )
            for t in range(topics)
        ),
        (),
    )


def update_metadata(topics: int) -> ControlRequest:
    return UpdateMetadataRequest(
        BrokerId(1001),
        ControllerEpoch(7),
        tuple(
            UpdateMetadataTopic(
                f"topic-{t}",
                topic_id(t),
                tuple(UpdateMetadataPartition(p, 7, 1, 0, REPLICAS, 0, REPLICAS) for p in range(PARTITIONS_PER_TOPIC)),
            )
            for t in range(topics)
        ),
        tuple(Broker(BrokerId(b), BrokerEpoch(-1), (Endpoint("PLAINTEXT", "127.0.0.1", 9092 + b),)) for b in REPLICAS),
    )


def stop_replica(topics: int) -> ControlRequest:
    return StopReplicaRequest(
        BrokerId(1001),
        ControllerEpoch(7),
        tuple(
            StopReplicaTopic(
                f"topic-{t}",
                tuple(StopReplicaPartition(p, EPOCH_DURING_DELETE, True) for p in range(PARTITIONS_PER_TOPIC)),
            )
            for t in range(topics)
        ),
    )


def leader_and_isr_response(topics: int) -> Response:
    rows = (TopicIdError(None, topic_id(t), p, 0) for t in range(topics) for p in range(PARTITIONS_PER_TOPIC))
    return LeaderAndIsrResponse.of_rows(0, tuple(rows))


def stop_replica_response(topics: int) -> Response:
    rows = (TopicError(f"topic-{t}", p, 0) for t in range(topics) for p in range(PARTITIONS_PER_TOPIC))
    return StopReplicaResponse.of_rows(0, tuple(rows))


def metadata_response(topics: int) -> Response:
    return MetadataResponse(
        tuple(MetadataBroker(BrokerId(b), "127.0.0.1", 9092 + b) for b in REPLICAS),
        "cluster",
        BrokerId(1),
        tuple(
            MetadataTopic(
                0,
                f"topic-{t}",
                topic_id(t),
                False,
                tuple(MetadataPartition(0, p, 1, 0, REPLICAS, REPLICAS) for p in range(PARTITIONS_PER_TOPIC)),
            )
            for t in range(topics)
        ),
    )


def describe_log_dirs_response(topics: int) -> Response:
    held = tuple(
        LogDirTopic(f"topic-{t}", tuple(LogDirPartition(p, 1 << 20, 0, False) for p in range(PARTITIONS_PER_TOPIC)))
        for t in range(topics)
    )
    return DescribeLogDirsResponse((LogDir(0, "/var/lib/kafka", held),))


def measure_request(name: str, version: int, build: Callable[[], ControlRequest]) -> Row:
    request, build_ms = timed(build)
    body, encode_ms = timed(lambda: encode_control_body(request, version))
    buffers, frame_ms = timed(lambda: body.frame(1, "1001", BrokerEpoch(1 << 33)))
    payload = b"".join(buffers)[4:]
    decoded, decode_ms = timed(lambda: decode_request(payload))
    if decoded.value.request != request:  # type: ignore[union-attr]
        raise AssertionError(f"{name} v{version} does not come back as it was")
    return Row(f"{name} v{version}", len(payload), build_ms, encode_ms, frame_ms, decode_ms)


def measure_response(api: ApiKey, name: str, version: int, build: Callable[[], Response]) -> Row:
    response, build_ms = timed(build)
    payload, encode_ms = timed(lambda: encode_response(api, version, 1, response))
    (_, decoded), decode_ms = timed(lambda: decode_response(api, version, payload))
    if decoded != response:
        raise AssertionError(f"{name} v{version} does not come back as it was")
    return Row(f"{name} v{version}", len(payload), build_ms, encode_ms, None, decode_ms)


def measure(partitions: int) -> list[Row]:
    """Return one row per message, each about `partitions` partitions; layouts are compiled before the measurement."""
    rows(1)
    return rows(max(1, partitions // PARTITIONS_PER_TOPIC))


def rows(topics: int) -> list[Row]:
    """Return one row per message about that many topics."""
    return [
        measure_request("LeaderAndIsrRequest", 2, lambda: without_ids(leader_and_isr(topics))),
        measure_request("LeaderAndIsrRequest", 7, lambda: leader_and_isr(topics)),
        measure_request("UpdateMetadataRequest", 5, lambda: without_ids(update_metadata(topics))),
        measure_request("UpdateMetadataRequest", 8, lambda: update_metadata(topics)),
        measure_request("StopReplicaRequest", 4, lambda: stop_replica(topics)),
        measure_response(ApiKey.LEADER_AND_ISR, "LeaderAndIsrResponse", 7, lambda: leader_and_isr_response(topics)),
        measure_response(ApiKey.STOP_REPLICA, "StopReplicaResponse", 4, lambda: stop_replica_response(topics)),
        measure_response(ApiKey.METADATA, "MetadataResponse", 12, lambda: metadata_response(topics)),
        measure_response(
            ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirsResponse", 4, lambda: describe_log_dirs_response(topics)
        ),
    ]


def without_ids(request: ControlRequest) -> ControlRequest:
    """Return the request in the form of a cluster without topic ids."""
    match request:
        case LeaderAndIsrRequest(controller, epoch, topics, leaders):
            return LeaderAndIsrRequest(controller, epoch, tuple(t._replace(topic_id=None) for t in topics), leaders)
        case UpdateMetadataRequest(controller, epoch, metadata_topics, brokers):
            bare = tuple(t._replace(topic_id=None) for t in metadata_topics)
            return UpdateMetadataRequest(controller, epoch, bare, brokers)
        case StopReplicaRequest():
            return request


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wire", description=__doc__)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    measured = measure(options.partitions)
    if options.json:
        print(json.dumps({"partitions": options.partitions, "rows": [asdict(row) for row in measured]}, indent=2))
        return
    print(
        f"{options.partitions} partitions\n{'message':<28}{'MB':>7}{'build':>9}{'encode':>9}{'frame':>9}{'decode':>9}"
    )
    for row in measured:
        frame = "" if row.frame_ms is None else f"{row.frame_ms:.2f}"
        print(
            f"{row.message:<28}{row.bytes / 1e6:>7.1f}{row.build_ms:>9.0f}{row.encode_ms:>9.0f}"
            f"{frame:>9}{row.decode_ms:>9.0f}"
        )


if __name__ == "__main__":
    main()
