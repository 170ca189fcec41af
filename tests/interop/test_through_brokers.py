"""`lethe topics` through brokers alone, in ZooKeeper mode: with Kafka's own controller, and with an advertised one."""

from __future__ import annotations

from typing import Any

import pytest

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.admin.client_cluster import open_cluster
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_alteration import TopicChangeRequest
from lethe.admin.topic_creation import TopicCreationRequest
from lethe.cli.topics_alter_brokers import client_alteration
from lethe.cli.topics_create import client_creations
from lethe.cli.topics_delete_brokers import BrokersDeletion, brokers_deletion
from lethe.cli.topics_describe import shown_description
from lethe.cli.topics_list import shown_listing
from tests.interop.clients import bootstrap
from tests.interop.conditions import complaints, gone_everywhere, name_a_controller, until
from tests.interop.conftest import WHOSE, MakeCluster

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.timeout(600),
]


@pytest.mark.parametrize("controllers", WHOSE)
async def test_topics_live_and_die(
    kafka_cluster: MakeCluster, version: str, controllers: int, unused_tcp_port: int
) -> None:
    async with (
        kafka_cluster(version, controllers=controllers, listed=bool(controllers)) as cluster,
        cluster.session() as session,
    ):
        await until(name_a_controller(session, 3), "every broker names a controller")
        servers = [f"127.0.0.1:{unused_tcp_port}", *bootstrap(cluster)]
        async with open_cluster(PLAINTEXT_REACH, servers, timeout_ms=300_000) as brokers:
            wanted = [TopicCreationRequest("orders", 3, 2, config={"retention.ms": "60000"})]
            assert (await client_creations(brokers, wanted)).lines == ("Created topic orders.",)

            async def is_shown() -> bool:
                return (await shown_listing(brokers)).lines == ("orders",)

            # Kafka's controller answers when its own broker shows the topic; another one may be asked here.
            await until(is_shown, "the broker that is asked shows the topic")
            with pytest.raises(Refusal, match="TOPIC_ALREADY_EXISTS: Topic 'orders' already exists."):
                await client_creations(brokers, wanted)
            grown = await client_alteration(brokers, TopicChangeRequest(("orders",), 5))
            assert grown.exit is Exit.OK, grown
            described: Any = (await shown_description(brokers, ["orders"])).data
            assert (described[0]["partition_count"], described[0]["config"]) == (5, {"retention.ms": "60000"})
            longer = TopicChangeRequest(("orders",), config={"segment.ms": "90000"}, delete_config=("retention.ms",))
            altered = await client_alteration(brokers, longer)
            assert altered.exit is Exit.OK, altered
            described = (await shown_description(brokers, ["orders"])).data
            assert described[0]["config"] == {"segment.ms": "90000"}
            same = await client_alteration(brokers, TopicChangeRequest(("orders",), config={"segment.ms": "90000"}))
            assert same.lines == ("Topic orders is already as requested.",)
            deleted = await brokers_deletion(brokers, BrokersDeletion(("orders",), wait=True, timeout_ms=300_000))
            assert deleted.exit is Exit.OK, deleted
            assert (await shown_listing(brokers)).lines == ()
        # Brokers are clean before the controller removes the znodes, which clients do not see.
        await gone_everywhere(cluster, session, "orders")
        assert complaints(cluster) == []
