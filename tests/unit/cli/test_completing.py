"""Topic names in bash, by typer's own mechanism: what the cluster has, and nothing at all where it cannot be asked."""

from __future__ import annotations

import asyncio
import time

import pytest
from typer.testing import CliRunner, Result

from lethe.cli import completing
from lethe.cli.main import app
from tests.fakes.served_cluster import ServedCluster, serving, topic


def served() -> ServedCluster:
    return ServedCluster({name: topic(n, (1,)) for n, name in enumerate(("orders", "orders.eu", "bills"), start=1)})


def completed(line: str, **environment: str) -> Result:
    """What bash is told for the last word of the line."""
    words = line.split(" ")
    asked = {"_LETHE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    return CliRunner().invoke(app, [], prog_name="lethe", env={**asked, **environment})


def names(done: Result) -> list[str]:
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.fixture
def in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take longer than a person waits."""
    monkeypatch.setattr(completing, "LIMIT_S", 60.0)


@pytest.mark.usefixtures("in_time")
async def test_topics_of_the_brokers_on_the_line_or_in_the_environment() -> None:
    async with serving(served(), 1) as kafka:

        async def offered(line: str, **environment: str) -> list[str]:
            return names(await asyncio.to_thread(completed, line, **environment))

        at = f"--bootstrap-server {kafka.servers}"
        assert await offered(f"lethe topics delete {at} ") == ["bills", "orders", "orders.eu"]
        assert await offered(f"lethe topics describe {at} orders") == ["orders", "orders.eu"]
        assert await offered(f"lethe topics list {at} --topic b") == ["bills"]
        assert await offered("lethe topics alter orders o", LETHE_BOOTSTRAP_SERVER=kafka.servers) == ["orders.eu"]
        asked = len(kafka.asked)
        assert await offered("lethe topics create o", LETHE_BOOTSTRAP_SERVER=kafka.servers) == []
        assert len(kafka.asked) == asked, "names of new topics are not completed"


@pytest.mark.usefixtures("in_time")
async def test_what_is_no_topic_name_is_not_put_into_the_line() -> None:
    kafka = served()
    kafka.topics |= {name: topic(9, (1,)) for name in ("o$(reboot)", "o;reboot", "o\nreboot", "o\x1b]0;", "o reboot")}
    async with serving(kafka, 1):
        line = f"lethe topics delete --bootstrap-server {kafka.servers} o"
        done = await asyncio.to_thread(completed, line)
    assert names(done) == ["orders", "orders.eu"]


def test_nothing_is_written_where_the_cluster_cannot_be_asked() -> None:
    dead = "127.0.0.1:1"
    assert names(completed(f"lethe topics delete --bootstrap-server {dead} o")) == []
    assert names(completed("lethe topics delete --bootstrap-server nowhere o")) == []
    assert names(completed("lethe topics delete --zookeeper 127.0.0.1:x o")) == []
    assert names(completed("lethe topics delete o")) == []
    assert names(completed(f"lethe topics delete --bootstrap-server {dead} --zookeeper {dead} o")) == []


def test_zookeeper_is_not_waited_for_longer_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completing, "LIMIT_S", 0.2)
    began = time.monotonic()
    assert names(completed("lethe topics undelete o", LETHE_ZOOKEEPER_CONNECT="127.0.0.1:1")) == []
    assert names(completed("lethe topics delete o", LETHE_ZOOKEEPER_CONNECT="127.0.0.1:1")) == []
    assert time.monotonic() - began < 10 - 1, "a session is waited for for ten seconds"
