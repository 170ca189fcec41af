"""Options that several commands have, spelled and explained once."""

from __future__ import annotations

from typing import Annotated

import typer

ZooKeeper = Annotated[
    str,
    typer.Option(
        "--zookeeper",
        metavar="HOST:PORT[,HOST:PORT][/CHROOT]",
        envvar="LETHE_ZOOKEEPER_CONNECT",
        help="Where ZooKeeper is: the brokers' zookeeper.connect. LETHE_ZOOKEEPER_DIGEST may hold user:password.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
ExcludeInternal = Annotated[bool, typer.Option("--exclude-internal", help="Leave Kafka's internal topics out.")]
TimeoutMs = Annotated[int, typer.Option("--timeout-ms", min=1, help="How long to wait at most, in milliseconds.")]
Expression = Annotated[
    str | None,
    typer.Option(
        "--topic", help="A topic, or a regular expression that has to match the whole name.", show_default=False
    ),
]
