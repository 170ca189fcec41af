"""What limits clients' changes, by the controller's properties."""

from __future__ import annotations

from pathlib import Path

import pytest

from lethe.adapters.properties import ConfigError
from lethe.controller.core.config import CoreConfig
from lethe.controller.core.topic_policy import NO_POLICY, TopicPolicy
from lethe.controller.runtime.configuration import ControllerConfig, load_controller_config
from lethe.controller.runtime.configured import core_config

LISTENERS = "listeners=PLAINTEXT://127.0.0.1:9092\ninter.broker.listener.name=PLAINTEXT\n"
CREATE = "create.topic.policy.class.name=com.example.Names\n"
ALTER = "alter.config.policy.class.name=com.example.Settings\n"


def load(lines: str, tmp_path: Path) -> ControllerConfig:
    path = tmp_path / "server.properties"
    path.write_text(f"broker.id=1000\nzookeeper.connect=127.0.0.1:2181\n{lines}\n")
    return load_controller_config(path, {})


def core(lines: str, tmp_path: Path) -> CoreConfig:
    return core_config(load(lines, tmp_path))


def test_defaults(tmp_path: Path) -> None:
    config = core("", tmp_path)
    assert (config.mutation_quota_window_s, config.topic_policy) == (11, NO_POLICY)


def test_the_files_own(tmp_path: Path) -> None:
    config = core(
        "controller.quota.window.num=10\ncontroller.quota.window.size.seconds=3\n"
        "lethe.policy.topic.names=orders.*, bills-*\nlethe.policy.partitions.max=60\n"
        "lethe.policy.replication.factor.min=2\nlethe.policy.replication.factor.max=4\n"
        "lethe.policy.request.partitions.max=1000",
        tmp_path,
    )
    assert config.mutation_quota_window_s == 30
    assert config.topic_policy == TopicPolicy(("orders.*", "bills-*"), 60, 2, 4, 1000)


@pytest.mark.parametrize(
    "lines, words",
    [
        ("controller.quota.window.num=0", "controller.quota.window.num='0': is out of range"),
        ("lethe.policy.topic.names=a b", "lethe.policy.topic.names='a b': has 'a b', which matches no topic"),
        ("lethe.policy.partitions.max=-1", "lethe.policy.partitions.max='-1': is out of range"),
        (
            "lethe.policy.replication.factor.min=3\nlethe.policy.replication.factor.max=2",
            "lethe.policy.replication.factor.max='2': is below lethe.policy.replication.factor.min=3",
        ),
    ],
)
def test_wrong_values(lines: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load(lines, tmp_path)
    assert words in str(refused.value)


def test_a_controller_that_clients_reach_does_not_start_without_the_policies_of_java(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load(LISTENERS + CREATE + ALTER, tmp_path)
    first, second = str(refused.value).splitlines()
    assert first.endswith(
        "create.topic.policy.class.name='com.example.Names': names a Java class, which Lethe cannot run; use "
        "lethe.policy.topic.names, lethe.policy.partitions.max and lethe.policy.replication.factor.min, remove the "
        "line, or set lethe.policy.java.ignore=true to start without the policy"
    )
    assert "alter.config.policy.class.name='com.example.Settings': names a Java class" in second


def test_it_does_if_it_is_told_to_and_says_so(tmp_path: Path) -> None:
    config = load(LISTENERS + CREATE + "lethe.policy.java.ignore=true", tmp_path)
    (warning,) = [each for each in config.warnings if "policy" in each]
    assert warning.endswith(
        "create.topic.policy.class.name is ignored, as lethe.policy.java.ignore says: Lethe does not run it"
    )


def test_clients_do_not_reach_a_guest(tmp_path: Path) -> None:
    assert load(CREATE + ALTER, tmp_path).topic_policy == NO_POLICY
