"""What is configured and its way to the core: takeovers, sizes, the trash."""

from __future__ import annotations

from pathlib import Path

import pytest

from lethe.adapters.properties import ConfigError
from lethe.controller.core.config import DEFAULT_OPERATIONS_PER_GROUP, Takeover
from lethe.controller.runtime.configuration import ControllerConfig, load_controller_config
from lethe.controller.runtime.configured import core_config
from lethe.protocol.deletion_grace import GraceRule


def load(lines: str, tmp_path: Path) -> ControllerConfig:
    path = tmp_path / "server.properties"
    path.write_text(f"broker.id=1000\nzookeeper.connect=127.0.0.1:2181\n{lines}\n")
    return load_controller_config(path, {})


def test_nobody_is_robbed_unless_that_is_configured(tmp_path: Path) -> None:
    config = load("", tmp_path)
    assert (config.takeover, config.takeover_grace_ms) == (Takeover.NEVER, 5_000)


@pytest.mark.parametrize(
    "value,expected", [("never", Takeover.NEVER), ("Once", Takeover.ONCE), ("always", Takeover.ALWAYS)]
)
def test_what_is_configured_reaches_the_core(value: str, expected: Takeover, tmp_path: Path) -> None:
    lines = f"controller.takeover={value}\ncontroller.takeover.interval.ms=5\ncontroller.takeover.interval.max.ms=7"
    core = core_config(load(lines, tmp_path))
    assert (core.takeover, core.takeover_interval_ms, core.takeover_interval_max_ms) == (expected, 5, 7)


def test_another_word_is_refused_with_the_words_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="never, once and always"):
        load("controller.takeover=sometimes", tmp_path)


def test_a_request_to_a_broker_is_no_larger_than_what_this_file_has_brokers_take(tmp_path: Path) -> None:
    assert load("", tmp_path).max_broker_request_bytes == 16 * 1024 * 1024
    assert load("lethe.broker.request.max.bytes=2048", tmp_path).max_broker_request_bytes == 2048
    assert load("socket.request.max.bytes=4096", tmp_path).max_broker_request_bytes == 4096


def test_sizes_of_slices_and_removals_reach_the_core(tmp_path: Path) -> None:
    default = core_config(load("", tmp_path))
    assert (default.partitions_per_slice, default.max_operations_per_group) == (10_000, 800)
    small = core_config(
        load("lethe.partitions.per.slice=3\nlethe.removal.operations.per.group=6", tmp_path),
    )
    assert (small.partitions_per_slice, small.max_operations_per_group) == (3, 6)


@pytest.mark.parametrize("value", ["0", str(DEFAULT_OPERATIONS_PER_GROUP + 1)])
def test_a_size_of_removals_out_of_range_is_refused(value: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"lethe\.removal\.operations\.per\.group"):
        load(f"lethe.removal.operations.per.group={value}", tmp_path)


def test_grace_and_free_space_of_the_trash_reach_the_core(tmp_path: Path) -> None:
    assert (core_config(load("", tmp_path)).grace, core_config(load("", tmp_path)).trash_free_percent) == ((), 0)
    core = core_config(load("lethe.deletion.grace=orders.*:24h, *:0\nlethe.trash.free.percent=15", tmp_path))
    assert core.grace == (GraceRule("orders.*", 86_400_000), GraceRule("*", 0))
    assert core.trash_free_percent == 15


@pytest.mark.parametrize("line", ["lethe.deletion.grace=orders", "lethe.trash.free.percent=100"])
def test_what_the_trash_cannot_follow_is_refused(line: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=line.partition("=")[0]):
        load(line, tmp_path)
