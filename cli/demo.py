"""`lethe demo`: runs a cluster on this machine, creates and deletes topics, and shows that nothing is left.

The demo itself is in `cluster.demo`, its output in `cli.demo_show`.
"""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lethe.admin.refusal import Exit, Refusal
from lethe.cli.answer import Answer
from lethe.cli.options import AsJson
from lethe.cli.render import note, show
from lethe.cli.running import finish_sync

if TYPE_CHECKING:
    from lethe.cluster.demo_plan import DemoOptions
    from lethe.cluster.demo_result import DemoResult
    from lethe.cluster.kafka import KafkaBroker
    from lethe.cluster.kafka_fetch import KafkaDistribution, KafkaVersion
    from lethe.cluster.local import LocalCluster

Topics = Annotated[int | None, typer.Option("--topics", help="Topics. (default: 30; 200 with --chaos)")]
Partitions = Annotated[int | None, typer.Option("--partitions", help="Of each topic. (default: 4; 2 with --chaos)")]
ReplicationFactor = Annotated[
    int | None,
    typer.Option(
        "--replication-factor",
        help="Replicas of each partition. (default: 3; 2 with --chaos, so that some topics do without the broker "
        "that is killed)",
    ),
]
Size = Annotated[
    int | None, typer.Option("--bytes", help="Bytes of segments in each replica. (default: 131072; 16384 with --chaos)")
]
Brokers = Annotated[
    str,
    typer.Option(
        "--brokers",
        metavar="N|kafka:VERSION[:N]",
        help="Broker agents, or real Kafka brokers of any version from 2.5 to 3.9 (kafka:3.9.1), which are fetched the "
        "first time; each with two log directories. Real brokers are three unless a number follows "
        "(kafka:3.9.1:5).",
    ),
]
Controllers = Annotated[int, typer.Option("--controllers", help="Controllers: one leads, the others stand by.")]
WorkDir = Annotated[
    Path | None,
    typer.Option(
        "--work-dir",
        help="An empty directory for everything, logs and journals included; it is kept. Without it, a temporary one.",
        show_default=False,
    ),
]
Chaos = Annotated[
    bool, typer.Option("--chaos", help="Kill a broker, then the active controller, while topics are being deleted.")
]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the cluster running at the end, until Ctrl-C.")]
Limit = Annotated[float, typer.Option("--limit", min=1.0, help="Seconds that each stage may take.")]


def demo(
    chaos: Chaos = False,
    topics: Topics = None,
    partitions: Partitions = None,
    replication_factor: ReplicationFactor = None,
    size: Size = None,
    brokers: Brokers = "3",
    controllers: Controllers = 2,
    work_dir: WorkDir = None,
    keep: Keep = False,
    limit: Limit = 120.0,
    as_json: AsJson = False,
) -> None:
    """Start ZooKeeper, controllers and brokers, create topics, delete them, and look whether anything is left.

    Needs Java 17 or newer. Exit code 0 only where all three places (ZooKeeper, every metadata cache, every disk) were
    seen whole and are clean; 1 where something is left over or was not done in time.
    """

    def command() -> Answer:
        from lethe.cluster.demo_plan import DemoOptions, require_memory

        kafka, count = wanted_brokers(brokers)
        usual = DemoOptions(
            controllers=controllers, brokers=count, work_dir=work_dir, limit_s=limit, chaos=chaos, kafka=kafka
        )
        sizes = (200, 2, 2, 16_384) if chaos else (30, 4, min(3, count), 131_072)
        options = replace(
            usual,
            topics=sizes[0] if topics is None else topics,
            partitions=sizes[1] if partitions is None else partitions,
            replication_factor=sizes[2] if replication_factor is None else replication_factor,
            bytes_per_replica=sizes[3] if size is None else size,
        )
        require_memory(options, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1_000_000)
        return run(options, keep=keep, as_json=as_json)

    finish_sync(command, as_json=as_json and not keep)


def wanted_brokers(text: str) -> tuple[KafkaVersion | None, int]:
    """Return the Kafka that `--brokers` names (None: agents), and the number of brokers. Raises ValueError."""
    from lethe.cluster.kafka_fetch import KafkaVersion

    kind, _, rest = text.partition(":")
    version, _, number = rest.partition(":")
    count = (number or "3") if kind == "kafka" else text
    if not count.isascii() or not count.isdigit():
        raise ValueError(f"--brokers {text}: give a number, or kafka:VERSION, such as kafka:3.9.1 or kafka:3.9.1:5")
    return (KafkaVersion.parse(version) if kind == "kafka" else None), int(count)


def run(options: DemoOptions, *, keep: bool, as_json: bool) -> Answer:
    """Run the demo and return its answer. Where the cluster is kept, the answer is shown before this returns. Raises
    Refusal where the demo failed."""
    from lethe.cluster.demo import DaemonFailed, DemoFailed
    from lethe.cluster.java import JavaUnusable
    from lethe.cluster.kafka_fetch import KafkaUnavailable, fetch_kafka
    from lethe.cluster.zookeeper import ZooKeeperStartFailed

    try:
        kafka = None if options.kafka is None else fetch_kafka(options.kafka, note)
        return asyncio.run(_run(options, kafka, keep=keep, as_json=as_json))
    except (ZooKeeperStartFailed, JavaUnusable, KafkaUnavailable) as error:
        raise Refusal(str(error), Exit.USAGE) from error
    except (DaemonFailed, DemoFailed) as error:
        raise Refusal(str(error)) from error
    except asyncio.CancelledError as error:
        raise KeyboardInterrupt from error


async def _run(options: DemoOptions, kafka: KafkaDistribution | None, *, keep: bool, as_json: bool) -> Answer:
    from lethe.cli.demo_show import answer, watching
    from lethe.cluster.demo import run_demo
    from lethe.cluster.demo_chaos import Chaos

    this = asyncio.current_task()
    assert this is not None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, this.cancel)

    async def linger(cluster: LocalCluster, result: DemoResult) -> None:
        watcher.close()
        show(answer(result), as_json=as_json)
        note(_where(cluster))
        asked = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, asked.set)
        await asked.wait()

    with watching(quiet=as_json) as watcher:
        extension = Chaos() if options.chaos else None
        result = await run_demo(options, watcher, kafka=kafka, extension=extension, afterwards=linger if keep else None)
    final = answer(result)
    return Answer(None, exit=final.exit) if keep else final


def _where(cluster: LocalCluster) -> str:
    lines = [
        f"The cluster is left running in {cluster.work_dir}; Ctrl-C ends it.",
        f"  export LETHE_ZOOKEEPER_CONNECT={cluster.zookeeper_connect}",
        "  lethe topics create --topic orders --partitions 3 --replication-factor 1",
        "  lethe topics delete --topic orders --wait",
        "  lethe survey",
        *(f"  {each.name}: its board {each.http_url}/, log {each.log_file}" for each in cluster.controllers),
        *(f"  {each.name}: {each.http_url}/state, log {each.log_file}" for each in cluster.brokers),
        *(f"  {broker.name}: {_address(broker)}, log {broker.log_file}" for broker in cluster.kafka_brokers),
    ]
    return "\n".join(lines)


def _address(broker: KafkaBroker) -> str:
    return "ended" if broker.address is None else ":".join(map(str, broker.address))
