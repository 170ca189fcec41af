"""A real broker's pure parts: its properties, its command line, what is read from its logs."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.cluster.kafka import KafkaBroker, ibp_property, internal_topics, kafka_command, racks
from lethe.cluster.kafka_fetch import KafkaDistribution, KafkaVersion
from lethe.cluster.local import ClusterSettings

KAFKA = KafkaDistribution(KafkaVersion(3, 9, 1), Path("/jars"))


def no_session() -> AbstractAsyncContextManager[ZooKeeperSession]:
    raise AssertionError("nobody asks ZooKeeper here")


@pytest.fixture
def broker(tmp_path: Path) -> KafkaBroker:
    own = {"zookeeper.connect": "127.0.0.1:2181/a", "num.io.threads": "9", "broker.rack": "r1"}
    return KafkaBroker(KAFKA, 3, tmp_path, 2, own, no_session)


def test_its_properties_are_kafkas_and_ours_give_way(broker: KafkaBroker, tmp_path: Path) -> None:
    broker.write_configuration()
    lines = broker.config_file.read_text().splitlines()
    assert {"broker.id=3", "zookeeper.connect=127.0.0.1:2181/a", "num.io.threads=9", "broker.rack=r1"} <= {*lines}
    assert f"log.dirs={tmp_path}/logs-0,{tmp_path}/logs-1" in lines
    assert "listeners=PLAINTEXT://127.0.0.1:0" in lines
    assert "log4j.logger.kafka.controller=INFO, controller" in (tmp_path / "log4j.properties").read_text()


def test_racks_and_copies_depend_on_the_place_and_the_number() -> None:
    assert [racks(("a", "b"), index) for index in range(3)] == [{"broker.rack": name} for name in "aba"]
    assert racks((), 1) == {}
    assert internal_topics(1)["transaction.state.log.min.isr"] == "1"
    assert internal_topics(5)["offsets.topic.replication.factor"] == "3"
    assert ibp_property(KafkaVersion(2, 5, 1)) == {"inter.broker.protocol.version": "2.5"}


def test_the_heap_is_small_and_the_main_class_comes_last() -> None:
    command = kafka_command("java", "/jars/*", Path("/d"), 32, ["kafka.Kafka", "/d/server.properties"])
    assert command[1:3] == ["-Xmx32m", "-Xms32m"]
    assert "-Dlog4j.configuration=file:/d/log4j.properties" in command
    assert command[-4:] == ["-cp", "/jars/*", "kafka.Kafka", "/d/server.properties"]


@pytest.mark.parametrize(
    "line",
    [
        "INFO Awaiting socket connections on 127.0.0.1:40123. (kafka.network.DataPlaneAcceptor)",
        "INFO Awaiting socket connections on localhost/127.0.0.1:40123. (kafka.network.Acceptor)",
    ],
)
async def test_its_address_and_its_start_are_read_from_its_log(broker: KafkaBroker, line: str) -> None:
    assert (broker.address, await broker.is_ready()) == (None, False)
    broker.log_file.write_text(f"[2020-01-01 00:00:00,000] {line}\n")
    assert broker.address == ("127.0.0.1", 40123)
    assert await broker.is_ready() is False
    with broker.log_file.open("a") as log:
        log.write("[2020-01-01 00:00:01,000] INFO [KafkaServer id=3] started (kafka.server.KafkaServer)\n")
    assert await broker.is_ready() is True


def test_its_complaints_are_told(broker: KafkaBroker) -> None:
    assert broker.errors() == []
    broker.controller_log.write_text("[2020] INFO fine (k)\n[2020] ERROR [Controller id=3] not fine (k)\n\tat k.K\n")
    broker.state_change_log.write_text("[2020] FATAL lost (k)\njava.io.IOException: no\n\tat k.K\n[2020] INFO x (k)\n")
    assert broker.errors() == [
        "controller.log: [2020] ERROR [Controller id=3] not fine (k)",
        "state-change.log: [2020] FATAL lost (k): java.io.IOException: no",
    ]


def test_a_cluster_of_real_brokers_needs_their_kafka() -> None:
    with pytest.raises(ValueError, match="need a version of Kafka"):
        ClusterSettings(kafka_brokers=1)
    with pytest.raises(ValueError, match="less than none"):
        ClusterSettings(kafka=KAFKA, kafka_brokers=3, brokers=-1)
    assert ClusterSettings(kafka=KAFKA, kafka_brokers=3, brokers=0, controllers=0).kafka_brokers == 3
