"""Common parts of `lethe controller` and `lethe broker`: read the configuration, set up logs, run one event loop."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from lethe.adapters.logs import LogFormat
from lethe.admin.refusal import Exit, Refusal
from lethe.cli.answer import Answer

Config = TypeVar("Config")

File = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE",
        help="A Kafka server.properties. KAFKA_… and LETHE_… variables override it, or stand for it.",
        show_default=False,
    ),
]
LogLevel = Annotated[str, typer.Option("--log-level", help="DEBUG, INFO, WARNING or ERROR.")]
Logs = Annotated[LogFormat, typer.Option("--log-format", help="Lines for people, or JSON for machines.")]


def run_daemon(
    load: Callable[[Path | None, Mapping[str, str]], Config],
    run: Callable[[Config], Coroutine[Any, Any, int]],
    file: Path | None,
    log_level: str,
    log_format: LogFormat,
) -> Answer:
    """Run the daemon until SIGTERM or SIGINT, and return its exit code: 0 stopped, 1 failed, 2 could not start, 4
    stopped with something left to do. Raises Refusal with all errors of the configuration."""
    import os

    import uvloop

    from lethe.adapters.logs import configure_logging
    from lethe.adapters.properties import ConfigError
    from lethe.protocol.kafka.codec import preload

    configure_logging(log_level, log_format)
    try:
        config = load(file, os.environ)
    except ConfigError as error:
        raise Refusal(f"the configuration cannot be used:\n{error}", Exit.USAGE) from error
    with without_hypothesis():
        preload()
    return Answer(None, exit=Exit(uvloop.run(run(config))))


@contextmanager
def without_hypothesis() -> Iterator[None]:
    """Make hypothesis unimportable in the block, unless it is imported already.

    kio registers its types with hypothesis where that is installed, as in development. In a directory that hypothesis
    has not seen before, this takes a second and 200 MB, which a daemon does not need.
    """
    hidden = "hypothesis" not in sys.modules
    if hidden:
        sys.modules["hypothesis"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if hidden:
            del sys.modules["hypothesis"]
