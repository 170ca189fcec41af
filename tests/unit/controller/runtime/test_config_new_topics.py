"""What new topics get, by the brokers' own properties in the controller's file."""

from __future__ import annotations

from pathlib import Path

import pytest

from lethe.adapters.properties import ConfigError
from lethe.controller.core.config import NewTopics
from lethe.controller.runtime.configuration import load_controller_config
from lethe.controller.runtime.configured import core_config
from lethe.protocol.kafka.topic_defaults import BrokerSetting, ConfigSource


def new_topics(lines: str, tmp_path: Path) -> NewTopics:
    path = tmp_path / "server.properties"
    path.write_text(f"broker.id=1000\nzookeeper.connect=127.0.0.1:2181\n{lines}\n")
    return core_config(load_controller_config(path, {})).new_topics


def test_kafkas_defaults_where_the_file_has_none(tmp_path: Path) -> None:
    assert new_topics("", tmp_path) == NewTopics(1, 1, {}, False)


def test_the_files_own(tmp_path: Path) -> None:
    lines = (
        "num.partitions=6\ndefault.replication.factor=3\nlog.retention.hours=100\n"
        "unclean.leader.election.enable=true\nremote.log.storage.system.enable=true"
    )
    assert new_topics(lines, tmp_path) == NewTopics(
        6,
        3,
        {
            "unclean.leader.election.enable": BrokerSetting("true", ConfigSource.FILE),
            "log.retention.hours": BrokerSetting("100", ConfigSource.FILE),
        },
        True,
    )


@pytest.mark.parametrize(
    "line,words",
    [
        ("num.partitions=0", "num.partitions='0': is out of range"),
        ("default.replication.factor=40000", "default.replication.factor='40000': is out of range"),
        ("log.roll.ms=0", "log.roll.ms='0': is refused by brokers: Value must be at least 1"),
        ("log.cleanup.policy=x", "is refused by brokers: String must be one of: compact, delete"),
        ("unclean.leader.election.enable=x", "is neither true nor false"),
    ],
)
def test_what_brokers_refuse_is_refused_here(line: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        new_topics(line, tmp_path)
    assert len(refused.value.problems) == 1
