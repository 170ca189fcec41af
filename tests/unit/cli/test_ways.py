"""Which way a command takes to the cluster, by its line and the environment, and what has no meaning there."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from lethe.admin.refusal import Exit
from lethe.cli.main import app
from lethe.cli.ways import NEEDS_BROKERS, NEEDS_ZOOKEEPER

NOBODY = "127.0.0.1:1"


def lethe(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(app, [*arguments], env=environment)


def words(done: Result) -> str:
    """What was said, without the frame around it."""
    return " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.parametrize("command", ["list", "describe", "create", "alter", "delete"])
def test_one_way_is_needed_and_two_are_refused(command: str) -> None:
    both = lethe("topics", command, "--zookeeper", NOBODY, "--bootstrap-server", NOBODY)
    assert both.exit_code == Exit.USAGE
    assert "--zookeeper and --bootstrap-server are two ways to the same cluster: give one of them" in words(both)
    none = lethe("topics", command)
    assert none.exit_code == Exit.USAGE
    assert "Give --zookeeper HOST:PORT, or --bootstrap-server HOST:PORT" in words(none)


def test_the_environment_is_one_level_below_the_line() -> None:
    both = {"LETHE_ZOOKEEPER_CONNECT": NOBODY, "LETHE_BOOTSTRAP_SERVER": NOBODY}
    refused = lethe("topics", "list", **both)
    assert refused.exit_code == Exit.USAGE
    assert "LETHE_ZOOKEEPER_CONNECT and LETHE_BOOTSTRAP_SERVER are both set" in words(refused)
    typed = lethe("topics", "list", "--bootstrap-server", "127.0.0.1:2", **both)
    assert typed.exit_code == Exit.UNREACHABLE
    assert "cannot connect to 127.0.0.1:2" in typed.stderr
    alone = lethe("topics", "list", LETHE_BOOTSTRAP_SERVER="127.0.0.1:2")
    assert "cannot connect to 127.0.0.1:2" in alone.stderr


def test_all_dead_servers_are_named_at_once() -> None:
    done = lethe("topics", "list", "--bootstrap-server", "127.0.0.1:1,127.0.0.1:2", "--json")
    assert done.exit_code == Exit.UNREACHABLE
    told = json.loads(done.stdout)["error"]
    assert "cannot connect to 127.0.0.1:1" in told
    assert "cannot connect to 127.0.0.1:2" in told


def test_a_server_that_is_none_is_refused_before_the_cluster_is_asked() -> None:
    done = lethe("topics", "list", "--bootstrap-server", "127.0.0.1")
    assert done.exit_code == Exit.USAGE
    assert "'127.0.0.1' is no host:port" in done.stderr


@pytest.mark.parametrize(
    "line",
    [
        "delete a --owe",
        "delete a --unreadable",
        "delete --plan p.json",
        "delete a --grace 7d",
        "delete --from-candidates lake",
        "create a --partitions 1 --replication-factor 1 --start-index 0",
        "alter a --partitions 4 --disable-rack-aware",
    ],
)
def test_options_that_need_zookeeper_name_the_remedy(line: str) -> None:
    done = lethe("topics", *line.split(), "--bootstrap-server", NOBODY)
    assert done.exit_code == Exit.USAGE
    said = words(done)
    assert any(remedy in said for remedy in NEEDS_ZOOKEEPER.values()), said


@pytest.mark.parametrize("option", ["--timeout-ms 1000", "--command-config client.properties"])
def test_options_that_need_brokers_name_the_remedy(option: str) -> None:
    done = lethe("topics", "list", *option.split(), "--zookeeper", NOBODY)
    assert done.exit_code == Exit.USAGE
    assert set(NEEDS_BROKERS.values()) == {"is for --bootstrap-server, and no broker is asked here: leave it out"}
    assert f"{option.split()[0]} is for --bootstrap-server" in words(done)


@pytest.mark.parametrize("line", ["undelete a", "trash list", "pause-deletions", "resume-deletions", "plan-delete a"])
def test_commands_that_only_zookeeper_can_serve_say_so(line: str) -> None:
    for given in (("--bootstrap-server", NOBODY), (f"--bootstrap-server={NOBODY}",)):
        done = lethe("topics", *line.split(), *given)
        assert done.exit_code == Exit.USAGE
        assert "needs --zookeeper: what it reads or writes is not known to brokers" in words(done)
