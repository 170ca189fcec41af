"""The writes that change a configuration in ZooKeeper, for the controller and for tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Operation, SetData
from lethe.protocol.zookeeper.znodes import ConfigChange, encode_config, encode_config_change

_ROOT: Final = "/config/"


def config_operations(path: str, config: Mapping[str, str], version: int | None) -> tuple[Operation, ...]:
    """Return the writes of the settings and of their change notification, to be applied together.

    `version` is that of the settings' znode when it was read, None if it did not exist."""
    data = encode_config(config)
    return (
        Create(path, data) if version is None else SetData(path, data, version),
        config_notification(path),
    )


def config_notification(path: str) -> Create:
    """Return the notification that makes brokers and the controller read the settings in this znode again."""
    change = ConfigChange(path.removeprefix(_ROOT))
    return Create(paths.config_change(), encode_config_change(change), sequential=True)
