"""A real ZooKeeper for the tests of this directory."""

from tests.fakes.zookeeper_fixtures import own_zookeeper, zookeeper_chroot, zookeeper_server

__all__ = ["own_zookeeper", "zookeeper_chroot", "zookeeper_server"]
