"""`lethe zookeeper`: a real ZooKeeper in the foreground, from the jars that come with PySpark."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from lethe.admin.refusal import Exit, Refusal
from lethe.cli.answer import Answer
from lethe.cli.render import note
from lethe.cli.running import finish_sync

Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 takes any free one.")]
Host = Annotated[str, typer.Option("--host", help="Address to listen on. It asks for no login.")]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Where the data stay; without it they are gone at the end.", show_default=False),
]
HeapMb = Annotated[
    int,
    typer.Option("--heap-mb", min=64, help="Largest heap of the JVM in MiB; more for over 100,000 partitions."),
]


def zookeeper(port: Port = 2181, host: Host = "127.0.0.1", data_dir: DataDir = None, heap_mb: HeapMb = 512) -> None:
    """Run a ZooKeeper for trials and tests until interrupted. Needs Java 17 and the extra `zookeeper`."""
    finish_sync(lambda: run(port, host, data_dir, heap_mb))


def run(port: int, host: str, data_dir: Path | None, heap_mb: int) -> Answer:
    """Run it until SIGINT, SIGTERM or SIGHUP. Raises Refusal where it cannot start, or ends by itself."""
    from lethe.cluster.zookeeper import EmbeddedZooKeeper, ZooKeeperSettings, ZooKeeperStartFailed

    asked_to_end = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: asked_to_end.set())
    settings = ZooKeeperSettings(
        data_dir.resolve() if data_dir else None,
        port,
        host=host,
        heap_mb=heap_mb,
        durable=data_dir is not None,
    )
    try:
        with EmbeddedZooKeeper(settings) as server:
            note(f"ZooKeeper listens on {server.connect_string}, data in {server.data_dir}")
            while not asked_to_end.wait(0.5):
                if not server.is_running:
                    raise Refusal(f"ZooKeeper has ended unexpectedly; its output is in {server.log_file}")
    except ZooKeeperStartFailed as error:
        raise Refusal(str(error), Exit.USAGE) from error
    return Answer(None)
