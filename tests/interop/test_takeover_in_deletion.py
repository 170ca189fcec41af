"""Control is taken in the middle of a deletion: what brokers have deleted already is not made again."""

from __future__ import annotations

import logging
import time

import pytest

from lethe.adapters.kafka.reach import BrokerReach
from lethe.admin.rescue_control import RescueController, TakeoverSettings, in_control
from lethe.cluster.kafka import KafkaBroker
from lethe.cluster.kafka_fetch import KafkaVersion
from lethe.controller.core.scope import EVERYTHING
from lethe.protocol.kafka.versions import InterBrokerProtocol
from lethe.protocol.vocabulary import BrokerId
from tests.interop.conditions import controller, delete, gone_everywhere, until
from tests.interop.conftest import MakeCluster
from tests.interop.test_lost_and_found import THREE, holders, in_service

pytestmark = [pytest.mark.interop, pytest.mark.zookeeper, pytest.mark.processes, pytest.mark.timeout(600)]

logger = logging.getLogger(__name__)
PARTITIONS = 400


def text_of(broker: KafkaBroker) -> tuple[str, str]:
    """What the broker has logged, and what it has logged about replicas."""
    return broker.process.output(), broker.state_change_log.read_text(errors="replace")


@pytest.mark.slow
async def test_what_is_deleted_already_is_not_created_again(kafka_cluster: MakeCluster, version: str) -> None:
    """Two of three brokers have deleted 400 replicas each and the third one sleeps when Lethe takes over from Kafka."""
    rows = [THREE[number % 3] for number in range(PARTITIONS)]
    async with (
        kafka_cluster(version, controllers=0, log_dirs=2, session_timeout_ms=18_000) as cluster,
        cluster.session() as session,
    ):
        await in_service(session, version, orders=rows, kept=THREE)
        holder = await controller(session)
        assert holder is not None
        sleeper = next(broker for broker in cluster.kafka_brokers if broker.id != holder.broker_id)
        sleeper.pause()
        await delete(session, "orders")

        async def the_others_are_done() -> bool:
            return holders(cluster, "orders") == {sleeper.id}

        await until(the_others_are_done, "the brokers that are awake have deleted their replicas")
        before = [text_of(broker) for broker in cluster.kafka_brokers]

        async def work(guest: RescueController) -> float:
            await guest.elected()
            since_s = time.monotonic()
            sleeper.resume()
            await gone_everywhere(cluster, session, "orders")
            return time.monotonic() - since_s

        ibp = InterBrokerProtocol.parse(KafkaVersion.parse(version).inter_broker_protocol)
        means = TakeoverSettings(cluster.zookeeper_connect, BrokerId(1999), ibp, BrokerReach("PLAINTEXT"))
        took_s = await in_control(means, EVERYTHING, work)
        created, errors = 0, 0
        for broker, (output, states) in zip(cluster.kafka_brokers, before, strict=True):
            now, states_now = text_of(broker)
            created += now[len(output) :].count("Created log for partition orders-")
            lines = states_now[len(states) :].splitlines()
            errors += sum("ERROR" in line and "orders" in line for line in lines)
        logger.info("Kafka %s: %d logs created, %d errors, gone after %.1f s", version, created, errors, took_s)
        assert created == 0
        assert errors == 0
