"""A controller with listeners among brokers with TLS, SASL and rights: they find it, log in, and ask it.

Brokers log in as they do among themselves. A user without rights may connect and may not ask for what brokers ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from lethe.adapters.kafka.config_reach import load_client_reach
from lethe.cluster.local import LocalCluster
from tests.interop.clients import LIMIT_S, bootstrap, produce, read_all
from tests.interop.conditions import (
    answers,
    complaints,
    create,
    delete,
    has_no_directories,
    is_known_to_all,
    is_whole,
    plan,
    stops_in_good_order,
    until,
)
from tests.interop.conftest import MakeSecureCluster
from tests.interop.secure_listeners import BROKERS, GUEST, KINDS, LETHE, SecureListeners

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.timeout(600),
]
ROWS = [(1, 2), (2, 1)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
async def test_brokers_ask_a_controller_that_asks_who_they_are(
    secure_cluster: MakeSecureCluster, kind: type[SecureListeners], version: str
) -> None:
    scene = secure_cluster(kind, version, 2, controllers=1, listed=True)
    async with scene as (cluster, listeners), cluster.session() as session:
        reach = load_client_reach(listeners.client_file(LETHE))
        (controller,) = cluster.controllers
        await create(session, plan("orders", *ROWS, version=version))
        await until(is_known_to_all(session, 2, "orders", reach=reach), "both brokers know the topic")
        await until(is_whole(session, "orders", ROWS), "orders is whole")
        told = await answers(session, reach)
        assert [each.controller for each in told] == [controller.id, controller.id]

        access = listeners.aiokafka(BROKERS)
        stored = await produce(bootstrap(cluster), "orders", range(100), idempotent=True, **access)
        assert len(stored) == 100
        await stops_in_good_order(cluster, 2)
        assert sorted(await read_all(bootstrap(cluster), "orders", 2, **access)) == sorted(stored)
        await cluster.kafka_broker(2).start(120)
        await until(is_whole(session, "orders", ROWS), "orders is whole again")

        await delete(session, "orders")
        await until(has_no_directories(cluster, "orders"), "the directories are gone")
        assert complaints(cluster) == []
        output = controller.process.output()
        assert not [line for line in output.splitlines() if "refuse" in line.lower()], output


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
async def test_clients_create_and_delete_topics_by_their_rights(
    secure_cluster: MakeSecureCluster, kind: type[SecureListeners], version: str
) -> None:
    """They reach the controller as themselves: what it answers itself is not forwarded, so it needs no other name."""
    scene = secure_cluster(kind, version, 2, controllers=1, listed=True)
    async with scene as (cluster, listeners), cluster.session() as session:
        await cluster.active_controller()
        reach = load_client_reach(listeners.client_file(LETHE))
        await until(is_known_to_all(session, 2, reach=reach), "both brokers tell clients of the cluster")
        async with administering(cluster, listeners, GUEST) as client:
            refused = (await client.create_topics([NewTopic("orders", 2, 2)])).topic_errors
            assert [row[:3] for row in refused] == [("orders", 29, "Authorization failed.")]
        async with administering(cluster, listeners, BROKERS) as client:
            created = (await client.create_topics([NewTopic("orders", 2, 2)])).topic_errors
            assert [row[:2] for row in created] == [("orders", 0)]
            await until(is_whole(session, "orders", [(1, 2), (1, 2)]), "orders is whole")
        async with administering(cluster, listeners, GUEST) as client:
            refused = (await client.delete_topics(["orders"])).topic_error_codes
            assert [row[:2] for row in refused] == [("orders", 29)]
        async with administering(cluster, listeners, BROKERS) as client:
            deleted = (await client.delete_topics(["orders"])).topic_error_codes
            assert [row[:2] for row in deleted] == [("orders", 0)]
        await until(has_no_directories(cluster, "orders"), "the directories are gone")
        assert complaints(cluster) == []


@asynccontextmanager
async def administering(
    cluster: LocalCluster, listeners: SecureListeners, user: str
) -> AsyncIterator[AIOKafkaAdminClient]:
    """An admin client of this user."""
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap(cluster), **listeners.aiokafka(user))
    try:
        async with asyncio.timeout(LIMIT_S):
            await client.start()
            yield client
    finally:
        await client.close()
