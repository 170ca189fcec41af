"""Znodes: the exact bytes that Kafka 3.9 writes, and what is read from those of every version."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from lethe.protocol.vocabulary import (
    Broker,
    BrokerEpoch,
    BrokerId,
    Endpoint,
    LeaderAndIsr,
    ReplicaAssignment,
    SecurityProtocol,
    TopicId,
    TopicPartition,
)
from lethe.protocol.zookeeper import znodes
from lethe.protocol.zookeeper.znodes import MalformedZnode

ID = TopicId(uuid.UUID("6f1c2f0e-8d3a-4b57-9a3e-0c1d2e3f4a5b"))
ID_TEXT = "bxwvDo06S1eaPgwdLj9KWw"


# --- topics -------------------------------------------------------------------------------------------------------


def test_a_topic_is_written_as_kafka_does() -> None:
    topic = znodes.TopicZnode({1: ReplicaAssignment((2, 3, 1), (3,), (1,)), 0: ReplicaAssignment((1, 2))}, ID)
    assert znodes.encode_topic(topic) == (
        b'{"partitions":{"0":[1,2],"1":[2,3,1]},"topic_id":"' + ID_TEXT.encode() + b'",'
        b'"adding_replicas":{"1":[3]},"removing_replicas":{"1":[1]},"version":3}'
    )


def test_a_topic_without_id_has_no_key_for_it() -> None:
    topic = znodes.TopicZnode({0: ReplicaAssignment((1,))})
    assert znodes.encode_topic(topic) == (
        b'{"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{},"version":3}'
    )
    assert b"topic_id" not in znodes.encode_topic(znodes.TopicZnode(topic.assignments, ID), version=2)
    assert znodes.encode_topic(topic, version=1) == b'{"partitions":{"0":[1]},"version":1}'


def test_what_an_old_version_cannot_hold_is_refused() -> None:
    moving = znodes.TopicZnode({0: ReplicaAssignment((1, 2), (2,))})
    with pytest.raises(ValueError, match="version 1"):
        znodes.encode_topic(moving, version=1)
    with pytest.raises(ValueError, match="not 4"):
        znodes.encode_topic(moving, version=4)


@pytest.mark.parametrize(
    "data, expected",
    [
        (b'{"version":1,"partitions":{"0":[1,2]}}', znodes.TopicZnode({0: ReplicaAssignment((1, 2))})),
        (
            b'{"version":2,"partitions":{"3":[1,2]},"adding_replicas":{"3":[2]},"removing_replicas":{},"x":[{}]}',
            znodes.TopicZnode({3: ReplicaAssignment((1, 2), (2,))}),
        ),
        (
            b'{"partitions":{"10":[2],"9":[1]},"topic_id":"' + ID_TEXT.encode() + b'","version":3}',
            znodes.TopicZnode({9: ReplicaAssignment((1,)), 10: ReplicaAssignment((2,))}, ID),
        ),
        (b'{"version":99,"partitions":{},"topic_id":null,"adding_replicas":null}', znodes.TopicZnode()),
        (b'{"version":3,"partitions":{},"topic_id":"AAAAAAAAAAAAAAAAAAAAAA"}', znodes.TopicZnode()),
    ],
)
def test_every_version_of_a_topic_is_read(data: bytes, expected: znodes.TopicZnode) -> None:
    decoded = znodes.decode_topic("t", data)
    assert decoded == expected
    assert list(decoded.assignments) == sorted(decoded.assignments)


@pytest.mark.parametrize(
    "data, reason",
    [
        (None, "no data"),
        (b"", "no data"),
        (b"hello", "not JSON"),
        (b"[1]", "JSON object"),
        (b"{}", "'partitions'"),
        (b'{"partitions":null}', "'partitions'"),
        (b'{"partitions":[]}', "must be an object"),
        (b'{"partitions":{"-1":[1]}}', "'-1'"),
        (b'{"partitions":{"01":[1]}}', "'01'"),
        (b'{"partitions":{"2147483648":[1]}}', "2147483648"),
        (b'{"partitions":{"0":[1,1]}}', "twice"),
        (b'{"partitions":{"0":[true]}}', "found true"),
        (b'{"partitions":{"0":["1"]}}', "the string '1'"),
        (b'{"partitions":{"0":[1.0]}}', "found 1.0"),
        (b'{"partitions":{"0":[-1]}}', "between 0"),
        (b'{"partitions":{"0":[99999999999999999999999]}}', "whole number"),
        (b'{"partitions":{"0":[4294967296]}}', "between"),
        (b'{"partitions":{"0":{"1":2}}}', "array"),
        (b'{"partitions":{"0":[1]},"topic_id":"short"}', "short"),
        (b'{"partitions":{"0":[1],"1000000":[1]}}', "partition 1000000"),
        (b'{"partitions":{"2147483647":[1]}}', "at most 1,000,000"),
        (b'{"partitions":{"0":[1]},"topic_id":7}', "'topic_id'"),
        (b'{"partitions":{"0":[1]},"topic_id":"\\u00e4\\u00e4"}', "is none"),
        (b'{"partitions":{"0":[1]},"adding_replicas":{"0":[2,2]}}', "twice"),
        (b'{"partitions":{"\xff":[1]}}', "not JSON"),
    ],
)
def test_a_malformed_topic_is_explained(data: bytes | None, reason: str) -> None:
    with pytest.raises(MalformedZnode, match="/brokers/topics/t ") as caught:
        znodes.decode_topic("t", data)
    assert reason in caught.value.reason
    assert caught.value.path == "/brokers/topics/t"


# --- partition states ---------------------------------------------------------------------------------------------


def test_a_state_is_written_as_kafka_does() -> None:
    state = LeaderAndIsr(leader=1, leader_epoch=2, isr=(1, 2, 3), controller_epoch=3, partition_epoch=9)
    assert znodes.encode_state(state) == (
        b'{"controller_epoch":3,"leader":1,"version":1,"leader_epoch":2,"isr":[1,2,3]}'
    )
    recovering = state._replace(recovery_state=1, isr=(), leader=-1)
    assert znodes.encode_state(recovering) == (
        b'{"controller_epoch":3,"leader":-1,"version":1,"leader_recovery_state":1,"leader_epoch":2,"isr":[]}'
    )
    for each in (state, recovering):
        assert znodes.decode_state("t", 0, znodes.encode_state(each), each.partition_epoch) == each


def test_a_state_without_data_is_no_state() -> None:
    assert znodes.decode_state("t", 0, None, 0) is None
    assert znodes.decode_state("t", 0, b"", 0) is None


@pytest.mark.parametrize(
    "data, reason",
    [
        (b"no", "not JSON"),
        (b"7", "JSON object"),
        (b"{}", "'leader'"),
        (b'{"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":null}', "'isr'"),
        (b'{"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":"12"}', "'isr'"),
        (b'{"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":{"1":2}}', "'isr'"),
        (b'{"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[1,1]}', "twice"),
        (b'{"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[-1]}', "'isr'"),
        (b'{"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[[1]]}', "'isr'"),
        (b'{"leader":true,"leader_epoch":0,"controller_epoch":1,"isr":[1]}', "'leader'"),
        (b'{"leader":-2,"leader_epoch":0,"controller_epoch":1,"isr":[1]}', "'leader'"),
        (b'{"leader":1,"leader_epoch":-1,"controller_epoch":1,"isr":[1]}', "'leader_epoch'"),
        (b'{"leader":1,"leader_epoch":0,"controller_epoch":"1","isr":[1]}', "'controller_epoch'"),
        (b'{"leader":1,"leader_epoch":0,"controller_epoch":1e3,"isr":[1]}', "'controller_epoch'"),
        (b'{"leader":1,"leader_epoch":0,"controller_epoch":9999999999,"isr":[1]}', "'controller_epoch'"),
        (b'{"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[1],"leader_recovery_state":2}', "0 or 1"),
        (b'{"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[1],"leader_recovery_state":null}', "0 or 1"),
        (b'{"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[1],"leader_recovery_state":true}', "0 or 1"),
    ],
)
def test_a_malformed_state_is_explained(data: bytes, reason: str) -> None:
    with pytest.raises(MalformedZnode, match="/brokers/topics/t/partitions/5/state ") as caught:
        znodes.decode_state("t", 5, data, 0)
    assert reason in caught.value.reason


# --- brokers ------------------------------------------------------------------------------------------------------

BROKER = Broker(
    BrokerId(1),
    BrokerEpoch(77),
    (Endpoint("INTERNAL", "::1", 9093, SecurityProtocol.SSL), Endpoint("PLAINTEXT", "h", 9092)),
    rack="r1",
    features=(("metadata.version", 1, 2),),
)


def test_a_broker_is_written_as_kafka_does() -> None:
    assert znodes.encode_broker(BROKER, timestamp_ms=5) == (
        b'{"features":{"metadata.version":{"min_version":1,"max_version":2}},'
        b'"listener_security_protocol_map":{"INTERNAL":"SSL","PLAINTEXT":"PLAINTEXT"},'
        b'"endpoints":["INTERNAL://[::1]:9093","PLAINTEXT://h:9092"],"rack":"r1","jmx_port":-1,"port":9092,"host":"h",'
        b'"version":5,"timestamp":"5"}'
    )
    secured = Broker(BrokerId(1), BrokerEpoch(1), BROKER.endpoints[:1])
    assert znodes.encode_broker(secured, timestamp_ms=5, version=4, jmx_port=9) == (
        b'{"listener_security_protocol_map":{"INTERNAL":"SSL"},"endpoints":["INTERNAL://[::1]:9093"],'
        b'"jmx_port":9,"port":-1,"host":null,"version":4,"timestamp":"5"}'
    )
    assert znodes.decode_broker(1, 77, znodes.encode_broker(BROKER, timestamp_ms=5)) == BROKER
    with pytest.raises(ValueError, match="not 1"):
        znodes.encode_broker(BROKER, timestamp_ms=5, version=1)


@pytest.mark.parametrize(
    "data, endpoints",
    [
        (b'{"version":1,"host":"h","port":9092,"jmx_port":1,"timestamp":"1"}', (Endpoint("PLAINTEXT", "h", 9092),)),
        (
            b'{"version":2,"endpoints":["PLAINTEXT://h:1","SSL://g:2"],"host":"h","port":1}',
            (Endpoint("PLAINTEXT", "h", 1), Endpoint("SSL", "g", 2, SecurityProtocol.SSL)),
        ),
        (b'{"version":3,"endpoints":["plaintext://:1"],"rack":null}', (Endpoint("PLAINTEXT", "", 1),)),
        (
            b'{"version":6,"endpoints":["IN://h:1"],"listener_security_protocol_map":{"IN":"SASL_SSL"},"new":1}',
            (Endpoint("IN", "h", 1, SecurityProtocol.SASL_SSL),),
        ),
    ],
)
def test_every_version_of_a_broker_is_read(data: bytes, endpoints: tuple[Endpoint, ...]) -> None:
    assert znodes.decode_broker(3, 9, data) == Broker(BrokerId(3), BrokerEpoch(9), endpoints)


@pytest.mark.parametrize(
    "data, reason",
    [
        (None, "no data"),
        (b'{"version":0}', "'version'"),
        (b'{"version":1,"host":null,"port":1}', "'host'"),
        (b'{"version":1,"host":"h","port":70000}', "'port'"),
        (b'{"version":4}', "'endpoints'"),
        (b'{"version":4,"endpoints":[]}', "empty"),
        (b'{"version":4,"endpoints":["h:1"]}', "LISTENER"),
        (b'{"version":4,"endpoints":["SSL://h:99999"]}', "LISTENER"),
        (b'{"version":4,"endpoints":["SSL://h:1","SSL://g:1"]}', "twice"),
        (b'{"version":4,"endpoints":["IN://h:1"]}', "no known security protocol"),
        (b'{"version":4,"endpoints":["IN://h:1"],"listener_security_protocol_map":{"IN":"X"}}', "'X'"),
        (b'{"version":4,"endpoints":["IN://h:1"],"listener_security_protocol_map":{"IN":7}}', "found 7"),
        (b'{"version":4,"endpoints":["IN://h:1"],"listener_security_protocol_map":7}', "must be an object"),
        (b'{"version":5,"endpoints":["SSL://h:1"],"features":{"f":{"min_version":2,"max_version":1}}}', "'f'"),
        (b'{"version":5,"endpoints":["SSL://h:1"],"rack":{}}', "'rack'"),
    ],
)
def test_a_malformed_broker_is_explained(data: bytes | None, reason: str) -> None:
    with pytest.raises(MalformedZnode, match="/brokers/ids/3 ") as caught:
        znodes.decode_broker(3, 9, data)
    assert reason in caught.value.reason


# --- the cluster as a whole ---------------------------------------------------------------------------------------


def test_the_controller_is_written_and_read() -> None:
    znode = znodes.ControllerZnode(BrokerId(5), 1700000000000)
    v2 = b'{"version":2,"brokerid":5,"timestamp":"1700000000000","kraftControllerEpoch":-1}'
    assert znodes.encode_controller(znode) == v2
    assert znodes.encode_controller(znode, version=1) == b'{"version":1,"brokerid":5,"timestamp":"1700000000000"}'
    assert znodes.decode_controller(v2) == znodes.decode_controller(znodes.encode_controller(znode, version=1)) == znode
    assert znodes.decode_controller(b'{"brokerid":5,"timestamp":12}') == znodes.ControllerZnode(BrokerId(5))
    kraft = znodes.decode_controller(b'{"version":2,"brokerid":5,"timestamp":"1","kraftControllerEpoch":3}')
    assert kraft.is_kraft
    assert not znode.is_kraft


def test_a_controller_of_lethe_says_where_it_is_asked() -> None:
    znode = znodes.ControllerZnode(BrokerId(5), 17, admin="http://host:9800")
    v2 = b'{"version":2,"brokerid":5,"timestamp":"17","kraftControllerEpoch":-1,"lethe":{"admin":"http://host:9800"}}'
    v1 = b'{"version":1,"brokerid":5,"timestamp":"17","lethe":{"admin":"http://host:9800"}}'
    assert (znodes.encode_controller(znode), znodes.encode_controller(znode, version=1)) == (v2, v1)
    assert znodes.decode_controller(v2) == znodes.decode_controller(v1) == znode


@pytest.mark.parametrize("odd", [b"null", b"1", b'"http://host:1"', b"[]", b"{}", b'{"admin":7}', b'{"admin":""}'])
def test_what_a_controller_says_beside_kafkas_fields_never_makes_it_unreadable(odd: bytes) -> None:
    assert znodes.decode_controller(b'{"brokerid":5,"lethe":' + odd + b"}") == znodes.ControllerZnode(BrokerId(5))


def test_the_controller_epoch_is_text() -> None:
    assert znodes.encode_controller_epoch(12) == b"12"
    assert znodes.decode_controller_epoch(b"12") == 12


def test_producer_ids_and_cluster_id_are_written_and_read() -> None:
    block = znodes.ProducerIdBlock(BrokerId(1), 0, 999)
    assert znodes.encode_producer_id_block(block) == (b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}')
    assert znodes.decode_producer_id_block(znodes.encode_producer_id_block(block)) == block
    assert znodes.decode_producer_id_block(None) is None

    assert znodes.encode_cluster_id("x") == b'{"version":"1","id":"x"}'
    assert znodes.decode_cluster_id(b'{"version":"1","id":"x"}') == "x"


# --- requests, notifications, configuration -----------------------------------------------------------------------


def test_requests_and_notifications_are_written_and_read() -> None:
    moves = {TopicPartition("t", 0): (1, 2)}
    assert znodes.encode_reassignment(moves) == (
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'
    )
    assert znodes.decode_reassignment(znodes.encode_reassignment(moves)) == moves

    twice = (TopicPartition("t", 0), TopicPartition("u", 1), TopicPartition("t", 0))
    data = b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"u","partition":1}]}'
    assert znodes.encode_preferred_replica_election(twice[:2]) == data
    assert znodes.encode_isr_change(twice[:2]) == data
    assert znodes.decode_preferred_replica_election(znodes.encode_preferred_replica_election(twice)) == twice[:2]
    assert znodes.decode_isr_change("/isr", znodes.encode_isr_change(twice)) == twice[:2]

    assert znodes.encode_log_dir_event(4) == b'{"version":1,"broker":4,"event":1}'
    assert znodes.decode_log_dir_event("/log", b'{"version":1,"broker":4,"event":1}') == 4


def test_configuration_is_written_and_read() -> None:
    config = {"retention.ms": "1", "cleanup.policy": "compact"}
    assert znodes.encode_config(config) == b'{"version":1,"config":{"retention.ms":"1","cleanup.policy":"compact"}}'
    assert znodes.decode_config("/c", znodes.encode_config(config)) == config
    assert znodes.decode_config("/c", None) == znodes.decode_config("/c", b'{"version":1}') == {}

    change = znodes.ConfigChange("topics/t")
    assert znodes.encode_config_change(change) == b'{"version":2,"entity_path":"topics/t"}'
    assert znodes.decode_config_change("/c", znodes.encode_config_change(change)) == change
    assert znodes.decode_config_change("/c", b'{"version":1,"entity_type":"topics","entity_name":"t"}') == change


@pytest.mark.parametrize(
    "decode, data",
    [
        (znodes.decode_controller, b'{"brokerid":"5"}'),
        (znodes.decode_controller, b'{"brokerid":5,"kraftControllerEpoch":"x"}'),
        (znodes.decode_controller_epoch, b""),
        (znodes.decode_controller_epoch, b"-1"),
        (znodes.decode_controller_epoch, b"99999999999"),
        (znodes.decode_controller_epoch, b"\xd9\xa1"),
        (znodes.decode_cluster_id, b'{"id":5}'),
        (znodes.decode_producer_id_block, b'{"broker":1,"block_start":"9","block_end":"1"}'),
        (znodes.decode_producer_id_block, b'{"broker":1,"block_start":"99999999999999999999","block_end":"1"}'),
        (znodes.decode_producer_id_block, b'{"broker":1,"block_start":0,"block_end":"1"}'),
        (znodes.decode_reassignment, b'{"partitions":[{"topic":"t","partition":0}]}'),
        (znodes.decode_reassignment, b'{"partitions":["t"]}'),
        (znodes.decode_preferred_replica_election, b'{"partitions":[{"topic":1,"partition":0}]}'),
        (lambda data: znodes.decode_isr_change("/i", data), b'{"partitions":{}}'),
        (lambda data: znodes.decode_log_dir_event("/l", data), b'{"broker":-1}'),
        (lambda data: znodes.decode_config("/c", data), b'{"config":{"a":1}}'),
        (lambda data: znodes.decode_config_change("/c", data), b'{"version":1,"entity_type":"x","entity_name":"t"}'),
        (lambda data: znodes.decode_config_change("/c", data), b'{"version":2}'),
    ],
)
def test_other_malformed_znodes_are_refused(decode: Callable[[bytes], Any], data: bytes) -> None:
    with pytest.raises(MalformedZnode):
        decode(data)


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("room", [50, 1_000, 5_000, 20_000])
def test_a_topic_of_most_partitions_fills_the_room(replicas: int, room: int) -> None:
    def size(partitions: int) -> int:
        assignments = {each: ReplicaAssignment(tuple(range(replicas))) for each in range(partitions)}
        return len(znodes.encode_topic(znodes.TopicZnode(assignments))) - len(znodes.encode_topic(znodes.TopicZnode()))

    most = znodes.most_partitions(replicas, room)
    assert size(most) <= room <= size(most + 1)
