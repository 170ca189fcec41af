"""Protected topics as commands see them, and the refusal that names the pattern."""

from __future__ import annotations

import pytest

from lethe.admin.protection import demand_unprotected, read_protected
from lethe.admin.refusal import Refusal
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create
from lethe.survey.evidence import ProtectedTopics
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply, elect

DEFAULT = paths.config_broker_default()


@pytest.fixture
async def cluster(session: FakeSession) -> FakeSession:
    config = {"lethe.protected.topics": "orders, b*"}
    await apply(session, Create(DEFAULT, znodes.encode_config(config)))
    return session


async def test_without_a_controller_the_patterns_in_zookeeper_count(cluster: FakeSession) -> None:
    assert await read_protected(cluster) == ProtectedTopics(("orders", "b*"), DEFAULT)
    await demand_unprotected(cluster, ["orders.eu"])
    with pytest.raises(Refusal) as refused:
        await demand_unprotected(cluster, ["orders", "orders.eu", "bills"])
    first, second = str(refused.value).splitlines()
    assert first.startswith(f"orders is not deleted because it is protected (in {DEFAULT}) (by the pattern orders)")
    assert "change lethe.protected.topics" in second


async def test_a_controllers_own_patterns_come_first(cluster: FakeSession) -> None:
    own = znodes.encode_config({"lethe.protected.topics": ""})
    await elect(cluster, 1001, admin="http://127.0.0.1:1")
    await apply(cluster, Create(paths.config_broker(BrokerId(1001)), own))
    assert (await read_protected(cluster)).patterns == ()


async def test_a_controller_of_kafka_obeys_no_patterns(cluster: FakeSession) -> None:
    await elect(cluster, 1)
    assert await read_protected(cluster) == ProtectedTopics(())
