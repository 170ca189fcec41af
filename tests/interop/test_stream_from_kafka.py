"""The journal's topic in a real Kafka, followed by Spark's source for it: the tables are those of a run over the files,
though the stream is killed twice on the way."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from lethe.cli import pipeline
from lethe.pipeline.report.lake_reader import LakeReader
from lethe.pipeline.tables import CONTROLLER_EVENTS
from lethe.protocol.journal import DEFAULT_TOPIC
from lethe.protocol.lake import IDENTITY
from lethe.protocol.security.scram import ScramMechanism
from tests.fakes.answering_broker import AnsweringBroker, served
from tests.fakes.secure_broker import SecureBroker, scram
from tests.interop.clients import bootstrap
from tests.interop.conditions import create, delete, gone_everywhere, is_known_to_all, plan, until
from tests.interop.conftest import MakeCluster
from tests.interop.spark_source import spark_jars
from tests.interop.test_journal_topic import arrived, filed, second_controller

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.timeout(2700),
]

LIMIT_S: Final = 900.0
"""A machine that is busy with something else takes minutes for a batch."""
SMALL: Final = ("--conf", "spark.driver.memory=600m", "--conf", "spark.sql.shuffle.partitions=1")
FEW: Final = ("--max-bytes-per-trigger", "12000")
"""So that what a few deletions write is several batches."""
TABLES: Final = (
    *("controller_events", "deletion_spans", "replica_deletions", "controller_tenures"),
    *("deletion_slo", "slow_brokers", "daily_reclaim", "quarantine"),
)
OF_THE_RUN: Final = ("_ingested_at", "_batch_id", "_source_file")


def line(command: str, lake: Path, *options: str) -> list[str]:
    """`lethe pipeline COMMAND`, in a process with a session of its own."""
    given = ("--lake", str(lake), "--master", "local[2]", *SMALL, *options)
    return [sys.executable, "-m", "lethe", "pipeline", command, *given]


def spark(command: str, lake: Path, *options: str, expected: int = 0) -> subprocess.CompletedProcess[str]:
    """It has come to its end."""
    done = subprocess.run(line(command, lake, *options), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == expected, done.stdout + done.stderr
    return done


def rows(lake: Path, table: str) -> list[str]:
    """What the table says, but for what says how it came there."""
    shown = pipeline.show(table, str(lake), 1_000_000, None, None).data
    assert isinstance(shown, dict)
    found: Any = shown["rows"]
    return sorted(json.dumps({key: one[key] for key in one if key not in OF_THE_RUN}) for one in found)


def in_bronze(lake: Path) -> int:
    """How many lines the lake holds now, whatever it still lacks."""
    if not (lake / IDENTITY).exists():
        return 0
    return sum(batch.num_rows for batch in LakeReader(str(lake)).batches(CONTROLLER_EVENTS, ["id"]))


def told(text: str) -> list[dict[str, Any]]:
    """The batches that were told of."""
    found = [json.loads(one) for one in text.splitlines(keepends=True) if one.endswith("\n")]
    return [one for one in found if "batch" in one]


class Following:
    """A stream that goes on until it is killed."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path, lake: Path) -> None:
        self._process = process
        self._output = output
        self._checkpoint = lake / "_checkpoint"

    def batches(self) -> list[dict[str, Any]]:
        """Those that it has told of. It must not have ended by itself."""
        assert self._process.poll() is None, self._output.with_suffix(".err").read_text()
        return told(self._output.read_text())

    def has_noted(self, batch: int) -> bool:
        """Whether Spark has noted that the batch is done."""
        return (self._checkpoint / "commits" / str(batch)).exists()

    def kill(self) -> None:
        """With all its processes, at once."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def following(lake: Path, output: Path, *options: str) -> Iterator[Following]:
    command = line("stream", lake, *options, "--every", "1s", "--json-lines", *FEW)
    with output.open("wb") as file, output.with_suffix(".err").open("wb") as errors:
        process = subprocess.Popen(command, stdout=file, stderr=errors, start_new_session=True)
    stream = Following(process, output, lake)
    try:
        yield stream
    finally:
        if process.poll() is None:
            stream.kill()


def holds(condition: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    return lambda: asyncio.to_thread(condition)


async def test_tables_from_the_topic_are_those_of_a_run_over_the_files(
    kafka_cluster: MakeCluster, version: str, tmp_path: Path
) -> None:
    jars = await asyncio.to_thread(spark_jars)
    async with kafka_cluster(version, 1) as cluster, cluster.session() as session:
        brokers = ",".join(bootstrap(cluster))
        await create(session, plan(DEFAULT_TOPIC, (1,), (1,), (1,), version=version))
        await until(is_known_to_all(session, 1, DEFAULT_TOPIC), "the broker knows the journal's topic")
        second = second_controller(cluster, version, tmp_path)
        await second.start()
        streamed, lake = tmp_path / "streamed", tmp_path / "lake"
        topic = ("--kafka", brokers, "--conf", f"spark.jars={jars}")

        async def some_deletions(number: int) -> None:
            names = [f"orders-{number}-{n}" for n in range(3)]
            await create(session, *(plan(name, (1,), (1,), version=version) for name in names))
            await delete(session, *names)
            await gone_everywhere(cluster, session, *names)
            await arrived(cluster, second.journal_dir)

        try:
            await cluster.controllers[0].stop()
            await until(second.is_active, "the second controller leads")
            await some_deletions(0)
            await killed_in_a_batch(streamed, tmp_path / "first.log", topic)
            await some_deletions(1)
            await killed_after_a_batch(streamed, tmp_path / "second.log", topic)
            assert await second.stop() == 0
            sent = await arrived(cluster, second.journal_dir)
        finally:
            await second.stop()
        batches = await once(streamed, topic)
        assert sum(one["new"] for one in batches) > 0
        # The controller sends a line twice where it missed the broker's answer.
        assert sum(one["duplicate"] for one in batches) <= len(sent) - len(set(sent)), "it went on where it was killed"
        assert await once(streamed, topic) == []
        await asyncio.to_thread(spark, "run", lake, "--journal", str(second.journal_dir))
        assert len(rows(lake, "controller_events")) == len(filed(second.journal_dir)) > 50
        for table in TABLES:
            assert rows(streamed, table) == rows(lake, table), table
        assert len(rows(lake, "deletion_spans")) == 6


async def killed_in_a_batch(lake: Path, output: Path, topic: Sequence[str]) -> None:
    """When the lines of its second batch are in bronze, and the other tables do not know of them yet."""
    with following(lake, output, *topic) as stream:
        await until(holds(lambda: len(stream.batches()) >= 1), "the first batch is done", LIMIT_S)
        lines = stream.batches()[0]["new"]
        await until(holds(lambda: in_bronze(lake) > lines), "the second batch's lines have come", LIMIT_S)
        stream.kill()
        assert not stream.has_noted(1)


async def killed_after_a_batch(lake: Path, output: Path, topic: Sequence[str]) -> None:
    """When the batch that was repeated is done."""
    with following(lake, output, *topic) as stream:
        await until(holds(lambda: len(stream.batches()) >= 1), "a batch is done", LIMIT_S)
        repeated = stream.batches()[0]
        stream.kill()
    assert (repeated["batch"], repeated["read"]) == (1, 0), "its lines were there"
    assert repeated["days"], "the tables that the one before it had not come to were made"


async def once(lake: Path, topic: Sequence[str]) -> list[dict[str, Any]]:
    done = await asyncio.to_thread(spark, "stream", lake, *topic, "--once", "--json-lines")
    return told(done.stdout)


async def test_spark_logs_in_with_a_password_that_is_nowhere_but_in_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker is ours, and has no topic: it is enough that Spark's consumer has logged in."""
    jars = await asyncio.to_thread(spark_jars)
    password = "correct-horse-battery"
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="lethe" password="{password}";\n'
    )
    # Spark's log lies there.
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    broker = SecureBroker(mechanisms=scram(ScramMechanism.SHA_512, "lethe", password))
    async with broker.running() as port:
        topic = ("--kafka", f"127.0.0.1:{port}", "--command-config", str(config), "--conf", f"spark.jars={jars}")
        with following(tmp_path / "lake", tmp_path / "told.log", *topic) as stream:
            await until(holds(lambda: "lethe" in broker.principals), "Spark's consumer has logged in", LIMIT_S)
            processes = await asyncio.to_thread(command_lines)
            stream.kill()
    assert any("spark.jars" in each for each in processes), "Spark's own command line is among them"
    assert not any(password in each for each in processes)
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path != config]
    assert [path.name for path in written if path.name.startswith("lethe-pipeline-")], "Spark's log is among them"
    assert [path for path in written if password.encode() in path.read_bytes()] == []


def command_lines() -> list[str]:
    """Return what everybody on this machine sees of its processes."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(place.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


async def test_where_the_package_cannot_be_fetched_the_message_says_what_to_do(tmp_path: Path) -> None:
    nowhere = tmp_path / "ivy.xml"
    nowhere.write_text(
        '<ivysettings><settings defaultResolver="none"/>'
        f'<caches defaultCacheDir="{tmp_path}/cache"/>'
        f'<resolvers><filesystem name="none"><artifact pattern="{tmp_path}/[artifact].[ext]"/></filesystem></resolvers>'
        "</ivysettings>"
    )
    mirror = ("--conf", f"spark.jars.ivySettings={nowhere}")
    async with served(AnsweringBroker()) as broker:
        server = f"127.0.0.1:{broker.endpoints[1].port}"
        options = ("--kafka", server, "--once", *mirror)
        done = await asyncio.to_thread(spark, "stream", tmp_path / "lake", *options, expected=2)
    remedies = ("spark.jars.ivySettings=FILE", "spark.jars=A.jar,B.jar", "spark-sql-kafka-0-10_2.13:VERSION")
    for words in ("spark-sql-kafka-0-10", "Maven Central", *remedies, "--journal DIR"):
        assert words in done.stderr, done.stderr
