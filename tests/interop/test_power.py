"""Holding `/controller` is not enough: real brokers that refuse our epoch, our principal, or our protocol.

A broker of Kafka remembers the highest controller epoch that it has seen until it restarts, asks its authorizer before
anything else, and may have no PLAINTEXT listener at all.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lethe.adapters.kafka.client import KafkaConnection
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.cluster.daemons import ControllerDaemon
from lethe.cluster.kafka import ibp_property
from lethe.cluster.kafka_fetch import KafkaVersion
from lethe.cluster.local import LocalCluster
from lethe.protocol.kafka.codec import encode_control_body
from lethe.protocol.kafka.control import ApiKey, probe_request
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.versions import InterBrokerProtocol, control_versions
from lethe.protocol.vocabulary import NO_EPOCH, BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Data, GetData, SetData
from lethe.protocol.zookeeper.znodes import decode_controller_epoch
from tests.fakes.zookeeper_cluster import apply
from tests.interop.conditions import (
    complaints,
    controller,
    create,
    delete,
    gone_everywhere,
    is_known_to_all,
    is_whole,
    kafka_leads,
    plan,
    until,
)
from tests.interop.conftest import MakeCluster

pytestmark = [pytest.mark.interop, pytest.mark.zookeeper, pytest.mark.processes, pytest.mark.timeout(600)]

HEALED_WITHIN_S = 60.0
"""Seconds on a machine of its own."""
SASL_ONLY = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="admin" password="secret" user_admin="secret";'
    ),
}


def authorizing() -> Mapping[str, str]:
    """Brokers whose authorizer lets nobody command but the brokers themselves, who log in with SASL; a PLAINTEXT
    listener is there for everybody else."""
    return {
        **SASL_ONLY,
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin",
        "allow.everyone.if.no.acl.found": "false",
    }


@asynccontextmanager
async def guest(cluster: LocalCluster, version: str, directory: Path, **more: str) -> AsyncIterator[ControllerDaemon]:
    """A controller that is told to take control, started and not waited for."""
    daemon = ControllerDaemon(
        1000,
        directory / "guest",
        {
            "zookeeper.connect": cluster.zookeeper_connect,
            "controller.takeover": "once",
            **ibp_property(KafkaVersion.parse(version)),
            **more,
        },
    )
    daemon.launch()
    try:
        yield daemon
    finally:
        await daemon.stop()


async def epoch(session: ZooKeeperSession) -> int:
    (found,) = await session.read([GetData(paths.controller_epoch())])
    assert isinstance(found, Data)
    return int(decode_controller_epoch(found.data))


async def set_epoch(session: ZooKeeperSession, value: int) -> None:
    """Write the epoch behind the controller's back: its next write fails, and its next term has this epoch."""
    await apply(session, SetData(paths.controller_epoch(), str(value).encode(), ANY_VERSION))


async def test_epoch_below_what_brokers_have_seen_is_raised(kafka_cluster: MakeCluster, version: str) -> None:
    """As after a restored ZooKeeper. Kafka's own controller stays active and is refused by every broker there."""
    assignment = [(1, 2, 3), (2, 3, 1)]
    async with kafka_cluster(version) as cluster, cluster.session() as session:
        daemon = await cluster.active_controller()
        await create(session, plan("orders", *assignment, version=version))
        await until(is_whole(session, "orders", assignment), "orders is whole")
        await set_epoch(session, 400)
        await create(session, plan("later", *assignment, version=version))
        await until(is_known_to_all(session, 3, "orders", "later"), "brokers obey epoch 400")
        assert await epoch(session) == 400

        await set_epoch(session, 2)
        await delete(session, "orders")
        await gone_everywhere(cluster, session, "orders", limit_s=HEALED_WITHIN_S)
        raised = await epoch(session)
        assert 400 < raised < 4 * 400
        holder = await controller(session)
        assert holder is not None
        assert holder.broker_id == daemon.id
        ready = await daemon.get("/readyz")
        assert ready is not None
        assert ready["ok"] is True, ready
        assert "is raised to" in daemon.process.output()
        assert [line for line in complaints(cluster) if "controller epoch" not in line] == []


async def test_control_stays_with_kafka_where_brokers_only_speak_sasl(
    kafka_cluster: MakeCluster, version: str, tmp_path: Path
) -> None:
    async with kafka_cluster(version, 2, controllers=0, properties=SASL_ONLY) as cluster, cluster.session() as session:
        kafka = await kafka_leads(session)
        before = await epoch(session)
        async with guest(cluster, version, tmp_path) as daemon:
            await _says_why(daemon, "Lethe cannot command broker 1, because it has no PLAINTEXT listener (it")
            # Its controller dies: Kafka's other one leads, and not the guest, which stands all the time.
            await cluster.kafka_broker(kafka).kill()
            other = 3 - kafka

            async def other_leads() -> bool:
                found = await controller(session)
                return found is not None and found.broker_id == other

            await until(other_leads, f"broker {other} leads")
            assert await epoch(session) == before + 1
            await create(session, plan("orders", (other,), version=version))
            await until(is_whole(session, "orders", [(other,)]), "Kafka's controller works")
            await _says_why(daemon, "cannot command")


@pytest.mark.slow
async def test_control_stays_with_kafka_where_an_authorizer_refuses_us_until_it_does_not(
    kafka_cluster: MakeCluster, version: str, tmp_path: Path
) -> None:
    properties = authorizing()
    async with kafka_cluster(version, 2, controllers=0, properties=properties) as cluster, cluster.session() as session:
        kafka = await kafka_leads(session)
        before = await epoch(session)
        async with guest(cluster, version, tmp_path) as daemon:
            await _says_why(daemon, "the authorizer of broker 1, broker 2 refuses this controller")
            await create(session, plan("orders", (1, 2), (2, 1), version=version))
            await until(is_whole(session, "orders", [(1, 2), (2, 1)]), "Kafka's controller works")
            holder = await controller(session)
            assert holder is not None
            assert holder.broker_id == kafka
            assert await epoch(session) == before

            await _grant(session)
            await until(daemon.is_active, "the guest takes control once it is allowed to")
            await delete(session, "orders")

            async def is_gone() -> bool:
                (found,) = await session.read([GetData(paths.topic("orders"))])
                return not isinstance(found, Data)

            await until(is_gone, "orders is gone")

            await _revoke(session)
            await create(session, plan("later", (1, 2), version=version))

            async def kafka_has_it() -> bool:
                found = await controller(session)
                return found is not None and found.admin is None

            await until(kafka_has_it, "control is given back, since no broker obeys")
            await until(is_whole(session, "later", [(1, 2)]), "Kafka's controller works")
            assert "no registered broker has accepted a request" in daemon.process.output()


async def _says_why(daemon: ControllerDaemon, why: str) -> None:
    async def is_said() -> bool:
        ready = await daemon.get("/readyz")
        return ready is not None and ready["ok"] is False and why in str(ready)

    await until(is_said, f"/readyz says: {why}")
    assert why in daemon.process.output()


ACL = "/kafka-acl/Cluster/kafka-cluster"
ALLOWED = {"principal": "User:ANONYMOUS", "permissionType": "Allow", "operation": "ClusterAction", "host": "*"}


async def _grant(session: ZooKeeperSession) -> None:
    """As kafka-acls.sh writes it, and tells the brokers of it."""
    await session.ensure_path("/kafka-acl/Cluster")
    await apply(session, Create(ACL, json.dumps({"version": 1, "acls": [ALLOWED]}).encode()))
    await _tell_of_acl(session)


async def _revoke(session: ZooKeeperSession) -> None:
    await apply(session, SetData(ACL, json.dumps({"version": 1, "acls": []}).encode(), ANY_VERSION))
    await _tell_of_acl(session)


async def _tell_of_acl(session: ZooKeeperSession) -> None:
    await session.ensure_path("/kafka-acl-changes")
    await apply(session, Create("/kafka-acl-changes/acl_changes_", b"Cluster:kafka-cluster", sequential=True))


async def test_probe_changes_nothing_at_a_broker(kafka_cluster: MakeCluster, version: str) -> None:
    """Before any controller has spoken to it, and after, a broker refuses it and obeys its controller as before."""
    async with kafka_cluster(version, 1, controllers=0) as cluster, cluster.session() as session:
        await kafka_leads(session)
        await create(session, plan("orders", (1,), version=version))
        await until(is_whole(session, "orders", [(1,)]), "orders is whole")
        host, port = await cluster.kafka_broker(1).listener()
        ibp = InterBrokerProtocol.parse(KafkaVersion.parse(version).inter_broker_protocol)
        body = encode_control_body(probe_request(BrokerId(7)), control_versions(ibp).of(ApiKey.STOP_REPLICA))
        async with await KafkaConnection.open(host, port, "probe") as connection:
            for _ in range(3):
                answer = await connection.send_body(body, NO_EPOCH)
                assert answer.error == ErrorCode.STALE_CONTROLLER_EPOCH
        await create(session, plan("later", (1,), version=version))
        await until(is_known_to_all(session, 1, "orders", "later"), "Kafka's controller is obeyed")
        assert complaints(cluster) == []
