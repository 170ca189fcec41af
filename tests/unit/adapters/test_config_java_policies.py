"""Agents with the policy on changes of configurations, which is a Java class; `test_config_client_changes` has the
controller's."""

from __future__ import annotations

from pathlib import Path

import pytest

from lethe.adapters.properties import ConfigError
from lethe.broker.runtime.configuration import BrokerConfig, load_broker_config

POLICY = "alter.config.policy.class.name=com.example.Settings\n"


def load(tmp_path: Path, lines: str) -> BrokerConfig:
    path = tmp_path / "agent.properties"
    path.write_text(f"broker.id=1\nzookeeper.connect=127.0.0.1:2181\nlog.dirs={tmp_path / 'logs'}\n{lines}")
    return load_broker_config(path, {})


def test_an_agent_does_not_start_without_the_policy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="names a Java class, which Lethe cannot run; use ACLs for AlterConfigs"):
        load(tmp_path, POLICY)


def test_it_does_if_it_is_told_to_and_says_so(tmp_path: Path) -> None:
    config = load(tmp_path, POLICY + "lethe.policy.java.ignore=true\n")
    assert any("alter.config.policy.class.name is ignored" in each for each in config.warnings)


def test_the_policy_on_new_topics_is_the_controllers(tmp_path: Path) -> None:
    load(tmp_path, "create.topic.policy.class.name=com.example.Names\n")
