"""Fixtures around a real ZooKeeper: one JVM per test run, a chroot of its own for each test.

A conftest.py takes what it needs by importing it:

    from tests.fakes.zookeeper_fixtures import zookeeper_chroot, zookeeper_server  # noqa: F401
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

import pytest

from lethe.cluster.zookeeper import EmbeddedZooKeeper, ZooKeeperSettings

_numbers = itertools.count()


@functools.cache
def shared_zookeeper() -> EmbeddedZooKeeper:
    """The run's ZooKeeper, started when it is first asked for; it ends with the interpreter."""
    zookeeper = EmbeddedZooKeeper(ZooKeeperSettings(tick_time_ms=200))
    zookeeper.start()
    return zookeeper


@pytest.fixture
def zookeeper_server() -> EmbeddedZooKeeper:
    """The run's ZooKeeper; not to be stopped, killed or paused by a test."""
    return shared_zookeeper()


@pytest.fixture
def zookeeper_chroot(zookeeper_server: EmbeddedZooKeeper) -> str:
    """A connect string with a chroot that no other test uses: `127.0.0.1:port/test-n`."""
    return f"{zookeeper_server.connect_string}/test-{next(_numbers)}"


@pytest.fixture
def own_zookeeper() -> Iterator[EmbeddedZooKeeper]:
    """A ZooKeeper of the test's own, to be paused, killed and started again."""
    with EmbeddedZooKeeper(ZooKeeperSettings(tick_time_ms=200)) as zookeeper:
        yield zookeeper
