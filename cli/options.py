"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from lethe.cli.completing import complete_topics

_ZOOKEEPER: Final = typer.Option(
    "--zookeeper",
    metavar="HOST:PORT[,HOST:PORT][/CHROOT]",
    envvar="LETHE_ZOOKEEPER_CONNECT",
    help="Where ZooKeeper is: the brokers' zookeeper.connect. The environment says who the command is there: "
    "LETHE_ZOOKEEPER_SASL_USERNAME and LETHE_ZOOKEEPER_SASL_PASSWORD_FILE, LETHE_ZOOKEEPER_DIGEST, or "
    "KAFKA_ZOOKEEPER_SSL_….",
    show_default=False,
)
ZooKeeper = Annotated[str, _ZOOKEEPER]
ZooKeeperOrBrokers = Annotated[str | None, _ZOOKEEPER]
"""Of a command that also has `BootstrapServer`; `cli.ways` leaves one of the two."""
BootstrapServer = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        metavar="HOST:PORT[,HOST:PORT]",
        envvar="LETHE_BOOTSTRAP_SERVER",
        help="Instead of --zookeeper: brokers of the cluster, with ZooKeeper or KRaft, that are asked as any client "
        "asks. One that answers is enough.",
        show_default=False,
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        envvar="LETHE_COMMAND_CONFIG",
        help="How brokers are reached: a client.properties of Kafka, with security.protocol, ssl.… and sasl.…; "
        "PLAINTEXT without it.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
ExcludeInternal = Annotated[bool, typer.Option("--exclude-internal", help="Leave Kafka's internal topics out.")]
TimeoutMs = Annotated[int, typer.Option("--timeout-ms", min=1, help="How long to wait at most, in milliseconds.")]
BrokersTimeoutMs = Annotated[
    int,
    typer.Option(
        "--timeout-ms", min=1, help="With --bootstrap-server: how long brokers may take for all of it, in milliseconds."
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TOPIC",
        help="Topics, by name; also by --topic.",
        autocompletion=complete_topics,
        show_default=False,
    ),
]
TopicNames = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="TOPIC",
        help="The same as the argument; may be repeated.",
        autocompletion=complete_topics,
        show_default=False,
    ),
]
AbsentNames = Annotated[
    list[str] | None, typer.Argument(metavar="TOPIC", help="Topics, by name; also by --topic.", show_default=False)
]
"""Of topics that do not exist, which no shell can complete."""
AbsentTopicNames = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC", help="The same as the argument; may be repeated.", show_default=False),
]
Expressions = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TOPIC",
        help="Topics: names, or regular expressions that have to match whole names; also by --topic.",
        autocompletion=complete_topics,
        show_default=False,
    ),
]
Config = Annotated[
    list[str] | None,
    typer.Option("--config", metavar="NAME=VALUE", help="A setting of the topic; may be repeated.", show_default=False),
]
DisableRackAware = Annotated[bool, typer.Option("--disable-rack-aware", help="Place replicas regardless of racks.")]
IfExists = Annotated[bool, typer.Option("--if-exists", help="Succeed even if a topic does not exist.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]


def given(names: Sequence[str] | None, topic: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names from arguments and options, each once, arguments first."""
    return tuple(dict.fromkeys((*(names or ()), *(topic or ()))))
