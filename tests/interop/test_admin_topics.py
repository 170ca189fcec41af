"""Kafka's TopicCommand and Python's admin clients: our advertised controller answers them as Kafka's own does."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from lethe.cluster.local import LocalCluster
from tests.interop.clients import bootstrap
from tests.interop.conditions import complaints, gone_everywhere, name_a_controller, until
from tests.interop.conftest import WHOSE, MakeCluster, fetched
from tests.interop.java_clients import attempt
from tests.interop.python_admins import (
    LIMIT_S,
    aiokafka_administers,
    kafka_python_administers,
    librdkafka_administers,
)

pytestmark = [pytest.mark.interop, pytest.mark.zookeeper, pytest.mark.processes, pytest.mark.timeout(600)]


class Topics(NamedTuple):
    """Runs TopicCommand of one version against this cluster."""

    cluster: LocalCluster
    version: str
    directory: Path

    async def __call__(self, *arguments: str, fails: bool = False) -> str:
        """Return what the tool prints, errors included; it must end well unless it `fails`."""
        servers = ",".join(bootstrap(self.cluster))
        tool = "TopicCommand"
        code, said = await attempt(
            fetched(self.version), tool, ("--bootstrap-server", servers, *arguments), self.directory
        )
        assert code == int(fails), said
        return said


@pytest.mark.parametrize("controllers", WHOSE)
async def test_topics_live_and_die_by_kafkas_tool(
    kafka_cluster: MakeCluster, version: str, controllers: int, tmp_path: Path
) -> None:
    async with (
        kafka_cluster(version, controllers=controllers, listed=bool(controllers)) as cluster,
        cluster.session() as session,
    ):
        await until(name_a_controller(session, 3), "every broker names a controller")
        topics = Topics(cluster, version, tmp_path / "topics")
        sizes = ("--partitions", "3", "--replication-factor", "2")
        said = await topics("--create", "--topic", "orders", *sizes, "--config", "retention.ms=60000")
        assert "Created topic orders." in said
        said = await topics("--create", "--topic", "orders", *sizes, fails=True)
        assert re.search("Topic '?orders'? already exists", said), said
        await topics("--create", "--topic", "placed", "--replica-assignment", "1:2,3:1")
        said = await topics("--create", "--topic", "wide", "--partitions", "1", "--replication-factor", "5", fails=True)
        assert "5 larger than available brokers: 3." in said
        assert sorted((await topics("--list")).split()) == ["orders", "placed"]
        said = await topics("--describe")
        assert _described(said, "orders") == (3, 2)
        assert _described(said, "placed") == (2, 2)
        assert [topic for topic in ("orders", "placed") if "retention.ms=60000" in _head(said, topic)] == ["orders"]
        assert [line.split("Replicas: ")[1].split()[0] for line in _rows(said, "placed")] == ["1,2", "3,1"]
        await topics("--alter", "--topic", "orders", "--partitions", "5")
        said = await topics("--alter", "--topic", "orders", "--partitions", "4", fails=True)
        assert "Topic currently has 5 partitions, which is higher than the requested 4." in said
        said = await topics("--describe", "--topic", "orders")
        assert _described(said, "orders") == (5, 2)
        assert all(line.split("Leader: ")[1].split()[0] in {"1", "2", "3"} for line in _rows(said, "orders"))
        await topics("--delete", "--topic", "orders")
        assert (await topics("--list")).split() == ["placed"]
        await topics("--delete", "--topic", "placed")
        await gone_everywhere(cluster, session, "orders", "placed")
        assert complaints(cluster) == []


def _rows(said: str, topic: str) -> list[str]:
    """Lines of `--describe` about the topic's partitions."""
    return [line for line in said.splitlines() if f"Topic: {topic}\t" in line and "Partition: " in line]


def _head(said: str, topic: str) -> str:
    """The line of `--describe` about the whole topic."""
    (line,) = [line for line in said.splitlines() if f"Topic: {topic}\t" in line and "PartitionCount: " in line]
    return line


def _described(said: str, topic: str) -> tuple[int, int]:
    """Number of partitions and replication factor, as `--describe` has them."""
    fields = dict(field.strip().split(": ", 1) for field in _head(said, topic).split("\t") if ": " in field)
    return int(fields["PartitionCount"]), int(fields["ReplicationFactor"])


# --- Python -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("controllers", WHOSE)
async def test_python_clients_create_grow_and_delete_topics(
    kafka_cluster: MakeCluster, version: str, controllers: int
) -> None:
    async with (
        kafka_cluster(version, controllers=controllers, listed=bool(controllers)) as cluster,
        cluster.session() as session,
    ):
        await until(name_a_controller(session, 3), "every broker names a controller")
        servers = bootstrap(cluster)
        # Kafka's controller answers when its own broker shows what was done; another one may be asked next.
        is_everywhere = bool(controllers)
        await aiokafka_administers(servers, is_everywhere)
        await asyncio.wait_for(asyncio.to_thread(kafka_python_administers, servers, is_everywhere), LIMIT_S)
        await asyncio.wait_for(asyncio.to_thread(librdkafka_administers, servers, is_everywhere), LIMIT_S)
        await gone_everywhere(cluster, session, "aio", "python", "rd")
        assert complaints(cluster) == []
