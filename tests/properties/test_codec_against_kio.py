"""kio as an oracle: its serialiser and ours must agree on every version of every message, both ways."""

import dataclasses
import uuid
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader

from lethe.protocol.kafka.codec import decode_request, decode_response, encode_request, encode_response
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.versions import SPOKEN
from tests.fakes.kio_messages import Kind, field_type, header_bytes, kio_bytes, schema_of

MODULES = {
    ApiKey.LEADER_AND_ISR: "LeaderAndIsr",
    ApiKey.STOP_REPLICA: "StopReplica",
    ApiKey.UPDATE_METADATA: "UpdateMetadata",
    ApiKey.CONTROLLED_SHUTDOWN: "ControlledShutdown",
    ApiKey.API_VERSIONS: "ApiVersions",
    ApiKey.METADATA: "Metadata",
    ApiKey.DESCRIBE_CONFIGS: "DescribeConfigs",
    ApiKey.DESCRIBE_LOG_DIRS: "DescribeLogDirs",
    ApiKey.ALTER_PARTITION: "AlterPartition",
    ApiKey.ALLOCATE_PRODUCER_IDS: "AllocateProducerIds",
    ApiKey.CREATE_TOPICS: "CreateTopics",
    ApiKey.DELETE_TOPICS: "DeleteTopics",
    ApiKey.CREATE_PARTITIONS: "CreatePartitions",
    ApiKey.ELECT_LEADERS: "ElectLeaders",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "AlterPartitionReassignments",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "ListPartitionReassignments",
    ApiKey.ALTER_CONFIGS: "AlterConfigs",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "IncrementalAlterConfigs",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "DescribeUserScramCredentials",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "AlterUserScramCredentials",
    ApiKey.UPDATE_FEATURES: "UpdateFeatures",
    ApiKey.DESCRIBE_CLUSTER: "DescribeCluster",
    ApiKey.FIND_COORDINATOR: "FindCoordinator",
    ApiKey.LIST_GROUPS: "ListGroups",
    ApiKey.DESCRIBE_GROUPS: "DescribeGroups",
    ApiKey.LIST_OFFSETS: "ListOffsets",
    ApiKey.LIST_TRANSACTIONS: "ListTransactions",
    ApiKey.OFFSET_FETCH: "OffsetFetch",
    ApiKey.OFFSET_COMMIT: "OffsetCommit",
    ApiKey.SASL_HANDSHAKE: "SaslHandshake",
    ApiKey.SASL_AUTHENTICATE: "SaslAuthenticate",
}
MESSAGES = [
    pytest.param(api, version, kind, id=f"{name}{kind}-v{version}")
    for api, name in MODULES.items()
    for version in range(SPOKEN[api].min, SPOKEN[api].max + 1)
    for kind in ("Request", "Response")
]

TOPICS = st.sampled_from(["a", "orders", "x" * 126, "y" * 127, "z" * 249])
IDS = st.integers(2, 50).map(lambda n: uuid.UUID(int=n))
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": st.integers(-128, 127),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "string": TOPICS | st.text(max_size=5),
    "uuid": IDS | st.none(),
    "error_code": st.sampled_from(KioErrorCode),
    "bytes": st.binary(max_size=5) | st.integers(126, 130).map(bytes),
    "timedelta_i64": st.integers(0, 2**40).map(lambda ms: timedelta(milliseconds=ms)),
    "timedelta_i32": st.integers(0, 2**31 - 1).map(lambda ms: timedelta(milliseconds=ms)),
}
FIXED_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "is_k_raft_controller": st.just(False),
    "type_": st.just(0),
    "security_protocol": st.integers(0, 3),
}
"""What our values do not tell, because a ZooKeeper-mode controller sends one thing only."""


def field_strategy(f: dataclasses.Field[Any]) -> st.SearchStrategy[Any]:
    if f.name in FIXED_FIELDS:
        return FIXED_FIELDS[f.name]
    item, is_array, nullable = field_type(f)
    if is_array:
        items = entity_strategy(item) if dataclasses.is_dataclass(item) else SCALARS[f.metadata["kafka_type"]]
        strategy: st.SearchStrategy[Any] = st.lists(items, max_size=3).map(tuple)
        if f.name in ("isr", "replicas"):
            strategy |= st.integers(125, 130).map(lambda length: tuple(range(length)))
    else:
        strategy = SCALARS[f.metadata["kafka_type"]]
    return strategy | st.none() if nullable and f.metadata.get("kafka_type") != "uuid" else strategy


def entity_strategy(schema: Any) -> st.SearchStrategy[Any]:
    built = st.builds(schema, **{f.name: field_strategy(f) for f in dataclasses.fields(schema)})
    return built.map(canonical)


def canonical(entity: Any) -> Any:
    """Order what our values group: flat lists by topic, and answers by topic id without empty or double topics."""
    changes: dict[str, Any] = {}
    for flat in ("ungrouped_partition_states", "ungrouped_partitions"):
        if hasattr(entity, flat):
            changes[flat] = tuple(sorted(getattr(entity, flat), key=lambda each: each.topic_name))
    if type(entity).__name__ == "LeaderAndIsrResponse" and hasattr(entity, "topics"):
        topics = {topic.topic_id: topic for topic in entity.topics if topic.partition_errors}
        changes["topics"] = tuple(topics.values())
    if type(entity).__name__ == "StopReplicaRequest" and hasattr(entity, "delete_partitions"):
        named = [*getattr(entity, "topics", ()), *getattr(entity, "ungrouped_partitions", ())]
        if not any(getattr(each, "partition_indexes", True) for each in named):
            changes["delete_partitions"] = False
    if type(entity).__name__ == "UpdateMetadataEndpoint" and hasattr(entity, "listener") and not entity.listener:
        changes["listener"] = "PLAINTEXT"
    return dataclasses.replace(entity, **changes)


@pytest.mark.parametrize("api, version, kind", MESSAGES)
def test_what_kio_writes_we_read_and_write_again(api: ApiKey, version: int, kind: Kind) -> None:
    schema = schema_of(MODULES[api], version, kind)

    @settings(max_examples=25)
    @given(entity=entity_strategy(schema), correlation_id=st.integers(0, 2**31 - 1))
    def check(entity: Any, correlation_id: int) -> None:
        payload = header_bytes(schema, api, version, correlation_id) + kio_bytes(entity)
        if kind == "Request":
            header, value = decode_request(payload)
            assert (header.api, header.version, header.correlation_id) == (api, version, correlation_id)
            again = encode_request(value, version, correlation_id, header.client_id)
        else:
            # An error 35 in an ApiVersions answer means that the rest is version 0, whatever was asked for.
            if api is ApiKey.API_VERSIONS and entity.error_code.value == 35:
                return
            answered, response = decode_response(api, version, payload)
            assert answered == correlation_id
            again = encode_response(api, version, correlation_id, response)
        assert again == payload
        body = again[len(header_bytes(schema, api, version, correlation_id)) :]
        assert entity_reader(schema)(body, 0) == (entity, len(body))

    check()
