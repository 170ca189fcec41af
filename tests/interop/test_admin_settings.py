"""Kafka's tools alter users and features through our advertised controller, which asks who they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from lethe.cluster.local import LocalCluster
from tests.interop.clients import bootstrap
from tests.interop.conditions import complaints, until
from tests.interop.conftest import WHOSE, MakeSecureCluster, fetched
from tests.interop.java_clients import attempt
from tests.interop.secure_listeners import BROKERS, ScramOverTls, SecureListeners

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.timeout(600),
]
VERSION = "3.9.1"
"""Kafka 2.5.1 has none of these requests: its tools write to ZooKeeper."""
ANN = ("--entity-type", "users", "--entity-name", "ann")


class Tools:
    """Runs Kafka's tools as the brokers' user."""

    def __init__(self, cluster: LocalCluster, listeners: SecureListeners, directory: Path) -> None:
        self._cluster = cluster
        self._directory = directory
        self._file = str(listeners.client_file(BROKERS))

    async def run(self, tool: str, *arguments: str) -> tuple[int, str]:
        servers = ",".join(bootstrap(self._cluster))
        everything = ("--bootstrap-server", servers, "--command-config", self._file, *arguments)
        return await attempt(fetched(VERSION), tool, everything, self._directory)

    async def configure(self, *arguments: str) -> str:
        code, said = await self.run("ConfigCommand", *arguments)
        assert code == 0, said
        return said


async def ann_logs_in(cluster: LocalCluster, listeners: SecureListeners, password: str) -> bool:
    """Whether a broker takes this password of `ann`."""
    access = {**listeners.aiokafka(BROKERS), "sasl_plain_username": "ann", "sasl_plain_password": password}
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap(cluster)[0], **access)
    try:
        await client.start()
    except KafkaError:
        return False
    finally:
        await client.close()
    return True


@pytest.mark.parametrize("controllers", WHOSE)
async def test_kafkas_tools_store_describe_and_delete_a_credential_that_brokers_take(
    secure_cluster: MakeSecureCluster, controllers: int, tmp_path: Path
) -> None:
    scene = secure_cluster(ScramOverTls, VERSION, 2, controllers=controllers, listed=bool(controllers))
    async with scene as (cluster, listeners):
        if controllers:
            await cluster.active_controller()
        tools = Tools(cluster, listeners, tmp_path / "tools")
        assert not await ann_logs_in(cluster, listeners, "ann-secret-1")

        stored = "SCRAM-SHA-512=[iterations=8192,password=ann-secret-1]"
        said = await tools.configure(*ANN, "--alter", "--add-config", stored)
        assert "Completed updating config for user ann." in said
        await until(lambda: ann_logs_in(cluster, listeners, "ann-secret-1"), "a broker takes the password")
        said = await tools.configure(*ANN, "--describe")
        assert "SCRAM credential configs for user-principal 'ann' are SCRAM-SHA-512=iterations=8192" in said

        said = await tools.configure(*ANN, "--alter", "--delete-config", "SCRAM-SHA-512")
        assert "Completed updating config for user ann." in said
        code, said = await tools.run("ConfigCommand", *ANN, "--alter", "--delete-config", "SCRAM-SHA-512")
        assert (code, "Attempt to delete a user credential that does not exist" in said) == (1, True), said

        code, said = await tools.run("FeatureCommand", "upgrade", "--feature", "metadata.version=21")
        assert (code, "the provided feature is not supported" in said) == (1, True), said
        assert complaints(cluster) == []
        assert "ann-secret-1" not in "".join(each.process.output() for each in cluster.controllers)
