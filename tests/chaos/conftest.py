"""A real ZooKeeper for the tests of the checker's readers."""

from __future__ import annotations

from tests.fakes.zookeeper_fixtures import own_zookeeper  # noqa: F401
