"""A real ZooKeeper, and Kafka's own authorizer where its jars have been fetched."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.session import open_session
from tests.authorizer.compare import configure
from tests.authorizer.kafka import KafkaAuthorizers, in_cache, kafka_authorizers
from tests.fakes.zookeeper_fixtures import shared_zookeeper

VERSIONS = ("3.9.1", pytest.param("2.5.1", marks=[pytest.mark.slow, pytest.mark.long]))
"""One JVM is quick enough for `make test` and for CI, two are not; `make authorizer` asks both."""
_numbers = itertools.count()


@pytest.fixture(scope="module", params=VERSIONS)
def kafka(request: pytest.FixtureRequest) -> Iterator[KafkaAuthorizers]:
    """Authorizers of one version, one for each of the SETTINGS, on a ZooKeeper without ACLs."""
    found = in_cache(request.param)
    if found is None:
        pytest.skip(f"Kafka {request.param} has not been fetched: make kafka")
    with kafka_authorizers(found) as started:
        configure(started, shared_zookeeper().connect_string)
        yield started


@pytest.fixture
async def connect() -> str:
    """A connect string with a chroot of this test's own, which is there."""
    chroot = f"/authorizer-{next(_numbers)}"
    server = shared_zookeeper().connect_string
    async with open_session(ZooKeeperConfig(parse_connect_string(server)), lambda _: None) as session:
        await session.ensure_path(chroot)
    return f"{server}{chroot}"
