"""Common parts of commands about lakes: options, requirements, and values as JSON."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lethe.admin.refusal import Exit, Refusal

if TYPE_CHECKING:
    from lethe.protocol.journal import JsonValue

EXTRA: Final = "pip install 'lethe-kafka[pipeline]'"
EVERY_CORE: Final = "local[*]"

Lake = Annotated[
    str,
    typer.Option(
        "--lake",
        metavar="DIR",
        help="Where the tables are: a directory, or a URI of a file system that Spark supports. It is "
        "made where it is missing or empty; one that holds anything else is refused.",
        show_default=False,
    ),
]
MadeLake = Annotated[
    str,
    typer.Option(
        "--lake",
        metavar="DIR",
        help="The lake that `lethe pipeline run` made: a directory, or a URI that Arrow can open (hdfs://, s3://, gs://).",
        show_default=False,
    ),
]
Surveys = Annotated[
    list[str] | None,
    typer.Option(
        "--surveys",
        metavar="DIR",
        help="What `lethe survey --out DIR` keeps: that directory, or a survey in it; may be repeated.",
        show_default=False,
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        help="Where Spark runs: local[*], spark://host:7077, yarn, k8s://...",
        show_default="local[*]; under spark-submit its master",
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; may be repeated.", show_default=False),
]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="DAY", help="First day, as 2026-01-31, in UTC; all without.", show_default=False),
]
To = Annotated[
    str | None, typer.Option("--to", metavar="DAY", help="Last day, in UTC; all without.", show_default=False)
]

StateOf = Annotated[
    str | None,
    typer.Option(
        "--state-of",
        metavar="DAY",
        help="The lake as it was at the end of this day, in UTC: yesterday, or the day before.",
        show_default="as it is",
    ),
]


def is_submitted() -> bool:
    """Return whether `spark-submit` has started this process, and with it Spark's JVM."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def spark_master(master: str | None, conf: Sequence[str]) -> str | None:
    """Return where Spark is to run; None if that is decided, because `spark-submit` has started it. Raises ValueError
    for options that come too late then."""
    if not is_submitted():
        return master or EVERY_CORE
    if master is not None or conf:
        option = "--conf" if master is None else "--master"
        raise ValueError(f"{option} is an option of spark-submit, which has started Spark: give it before the file")
    return None


def settings(texts: Sequence[str]) -> dict[str, str]:
    """Return Spark's settings from KEY=VALUE texts. Raises ValueError."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (equals and key.startswith("spark.")):
            raise ValueError(f"--conf {text!r} is not of the form spark.KEY=VALUE")
        found[key] = value
    return found


def day(option: str, text: str | None) -> datetime.date | None:
    """Parse `2026-01-31`; None without a text. Raises ValueError naming the option."""
    if text is None:
        return None
    try:
        return datetime.date.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{option} {text!r} is not a day such as 2026-01-31") from error


def end_of(state_of: str | None) -> datetime.datetime | None:
    """Return the last moment of the day of `--state-of`; None without a text. Raises ValueError."""
    found = day("--state-of", state_of)
    if found is None:
        return None
    if found >= datetime.datetime.now(datetime.UTC).date():
        raise ValueError(f"--state-of {found}: this day is not over: leave --state-of out to see the lake as it is")
    return datetime.datetime.combine(found, datetime.time.max, datetime.UTC)


@contextmanager
def the_extra(command: str = "lethe pipeline") -> Iterator[None]:
    """Turn a missing package into a message that says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("pyspark", "py4j", "pyarrow", "deltalake"):
            raise
        raise Refusal(f"{package} is not installed, and {command} needs it: {EXTRA}", Exit.USAGE) from error


def need_java() -> None:
    """Raise Refusal where Spark would find no Java."""
    if is_submitted():
        return
    from lethe.cluster.java import JavaUnusable, java_executable

    try:
        java_executable("lethe pipeline")
    except JavaUnusable as error:
        raise Refusal(str(error), Exit.USAGE) from error


def spark_trouble(error: Exception) -> Refusal | None:
    """Return a refusal for an error of Spark that a file system caused, such as a full disk, or the cluster."""
    from lethe.pipeline.io.files import (
        SHARED_PATHS,
        file_system_problem,
        missing_file,
        unopenable_file,
        unreadable_file,
    )
    from lethe.pipeline.session import ENDED, is_ended

    if is_ended(error):
        return Refusal(ENDED, Exit.UNREACHABLE)
    if (words := unopenable_file(error)) is not None:
        return Refusal(f"Spark could not continue: it cannot open {words}", Exit.UNREACHABLE)
    if (file := missing_file(error)) is not None:
        why = f"no {file} is there for an executor. If the file was removed meanwhile, run again; {SHARED_PATHS}"
        return Refusal(f"Spark could not continue: {why}", Exit.UNREACHABLE)
    words = file_system_problem(error)
    if words is None:
        if (file := unreadable_file(error)) is None:
            return None
        remedy = "put a copy of it back; if it is a table's, another lake can be made from journals and surveys"
        return Refusal(f"Spark could not continue: it cannot read {file}: {remedy}", Exit.UNREACHABLE)
    where = "the lake is full, or the place for what does not fit into memory (--conf spark.local.dir=DIR)"
    return Refusal(f"Spark could not continue: {words}; is there room? {where}", Exit.UNREACHABLE)


def plain(value: object) -> JsonValue:
    """Return a cell as JSON: instants in RFC 3339 with milliseconds."""
    match value:
        case datetime.datetime():
            return value.astimezone(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case datetime.date():
            return value.isoformat()
        case list() | tuple():
            return [plain(one) for one in value]
        case dict():
            return {str(name): plain(one) for name, one in value.items()}
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)
