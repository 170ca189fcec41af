"""Brokers with an authorizer: what they do not tell of is not taken for missing."""

from __future__ import annotations

import json

import pytest

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.protocol.zookeeper.operations import Create
from lethe.survey.brokers import broker_asker
from lethe.survey.leftovers import leftovers
from lethe.survey.zookeeper import read_tree
from tests.fakes.zookeeper_cluster import apply
from tests.interop.conditions import create, is_known_to_all, is_whole, plan, survey, until
from tests.interop.conftest import MakeCluster

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.timeout(600),
]

EVERYWHERE = [(1, 2), (2, 1)]
PROPERTIES = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
ALICES = {
    "version": 1,
    "acls": [{"principal": "User:alice", "permissionType": "Allow", "operation": "All", "host": "*"}],
}


async def test_a_topic_that_brokers_hide_is_not_called_missing(kafka_cluster: MakeCluster, version: str) -> None:
    async with kafka_cluster(version, 2, properties=PROPERTIES) as cluster, cluster.session() as zookeeper:
        await create(zookeeper, *(plan(name, *EVERYWHERE, version=version) for name in ("open", "secret")))
        await until(is_known_to_all(zookeeper, 2, "open", "secret"), "all brokers know the topics")
        for name in ("open", "secret"):
            await until(is_whole(zookeeper, name, EVERYWHERE), f"{name} is whole")
        assert (await survey(cluster, zookeeper)).problems == ()
        await apply(
            zookeeper,
            Create("/kafka-acl/Topic/secret", json.dumps(ALICES).encode()),
            Create("/kafka-acl-changes/acl_changes_", b"Topic:secret", sequential=True),
        )

        async def is_hidden() -> bool:
            tree, _ = await read_tree(zookeeper)
            told = [(await broker_asker(PLAINTEXT_REACH)(broker)).cache for broker in tree.brokers]
            return len(told) == 2 and all(cache is not None and set(cache) == {"open"} for cache in told)

        await until(is_hidden, "no broker tells of the topic")
        seen = await survey(cluster, zookeeper)
        assert (leftovers(seen), seen.in_motion) == ((), ("secret",))
        assert [problem.where for problem in seen.problems] == ["broker 1", "broker 2"]
        assert "secret" in seen.problems[0].what
