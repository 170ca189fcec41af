"""The command as a whole: quick to start, and its daemons refuse what they cannot use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("aiohttp", "aiozk", "kio", "prometheus_client", "pyspark", "rich.table", "uvloop")


def lethe(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lethe", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_listing_all_commands_imports_nothing_heavy() -> None:
    code = f"""
import sys
from typer.main import get_command
from lethe.cli.main import app
for command in get_command(app).commands.values():
    list(getattr(command, "commands", {{}}).values())
assert "lethe.cli.topics_delete" in sys.modules
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


def test_a_command_imports_no_other_command() -> None:
    code = """
import sys
from lethe.cli.main import app
app(["topics", "list", "--zookeeper", "127.0.0.1:1", "--topic", "a("], standalone_mode=False)
print(*[name for name in sys.modules if name.startswith("lethe.cli.topics")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "lethe.cli.topics lethe.cli.topics_list\n"


def test_the_version() -> None:
    done = lethe("--version")
    assert (done.returncode, done.stdout) == (0, "lethe 0.1.0\n")


def test_a_configuration_that_is_not_there(tmp_path: Path) -> None:
    done = lethe("controller", str(tmp_path / "none.properties"))
    assert done.returncode == 2
    assert "none.properties" in done.stderr
    assert "Traceback" not in done.stderr


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=one\nzookeeper.connect=nowhere:x\nlog.dirs=\n")
    done = lethe("broker", str(file))
    assert done.returncode == 2
    for words in ("server.properties:1: broker.id='one'", "server.properties:2: zookeeper.connect", "log.dirs"):
        assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_log_level_that_is_none() -> None:
    done = lethe("controller", "--log-level", "LOUD")
    assert done.returncode == 2
    assert "LOUD" in done.stderr


@pytest.mark.parametrize(
    "arguments,words",
    [
        (("--topic", "a b", "--partitions", "1", "--replication-factor", "1"), "a b"),
        (("--topic", "a", "--partitions", "0", "--replication-factor", "1"), "--partitions must be larger than 0"),
        (("--topic", "a", "--partitions", "1", "--replication-factor", "0"), "--replication-factor must be"),
        (("--topic", "a", "--replica-assignment", "1:1"), "1:1"),
        (("--topic", "a", "--replica-assignment", "1:2", "--config", "retention.m=1"), "retention.m"),
        (("--topic", "a", "--replica-assignment", "1:2", "--config", "retention.ms=x"), "retention.ms"),
    ],
)
def test_what_no_cluster_could_create_is_bad_usage_and_needs_no_zookeeper(
    arguments: tuple[str, ...], words: str
) -> None:
    done = lethe("topics", "create", "--zookeeper", "127.0.0.1:1", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr
