"""The writes that change a configuration."""

from __future__ import annotations

import pytest

from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.config_writes import config_operations
from lethe.protocol.zookeeper.operations import Create, SetData


@pytest.mark.parametrize(
    "path, entity",
    [
        (paths.config_topic("t"), "topics/t"),
        (paths.config_broker(9), "brokers/9"),
        (paths.config_broker_default(), "brokers/<default>"),
        (paths.config_user("a b"), "users/a%20b"),
    ],
)
def test_settings_are_written_with_a_notification_that_names_them(path: str, entity: str) -> None:
    create, notify = config_operations(path, {"retention.ms": "5"}, None)
    assert create == Create(path, b'{"version":1,"config":{"retention.ms":"5"}}')
    data = f'{{"version":2,"entity_path":"{entity}"}}'.encode()
    assert notify == Create("/config/changes/config_change_", data, sequential=True)
    assert config_operations(path, {}, 4)[0] == SetData(path, b'{"version":1,"config":{}}', 4)
