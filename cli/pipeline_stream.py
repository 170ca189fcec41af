"""`lethe pipeline stream`: keeps the tables current while journals grow."""

from __future__ import annotations

import datetime
import json
import re
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lethe.admin.refusal import Exit, Refusal
from lethe.cli.answer import Answer
from lethe.cli.broker_access import unusable_config, warn
from lethe.cli.lake_options import Conf, Lake, Master, Surveys, need_java, plain, settings, spark_master, the_extra
from lethe.cli.options import CommandConfig
from lethe.cli.pipeline_kafka import require_broker, why_refused
from lethe.cli.render import line, note
from lethe.cli.running import finish_sync
from lethe.cli.spark_log import spark_log
from lethe.cli.stale_rule import Force, Protect, StuckAfter, UnwrittenDays, rule_changes
from lethe.protocol.counting import counted
from lethe.protocol.journal import DEFAULT_TOPIC

if TYPE_CHECKING:
    from lethe.pipeline.jobs.stream import BatchProgress, StreamOptions
    from lethe.protocol.journal import JsonValue

Journals = Annotated[
    list[str] | None,
    typer.Option(
        "--journal",
        metavar="DIR",
        help="A journal to follow: a directory of *.jsonl, a file or a pattern, on a local disk; may be repeated.",
        show_default=False,
    ),
]

KAFKA_ARTIFACT: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LENGTH: Final = re.compile(r"(\d{1,6})(s|m|h|d)\Z")


def stream_command(
    lake: Lake,
    journal: Journals = None,
    surveys: Surveys = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint",
            metavar="DIR",
            help="Where it notes how far it has read; in the lake without.",
            show_default=False,
        ),
    ] = None,
    every: Annotated[str, typer.Option("--every", metavar="TIME", help="How often it looks: 30s, 5m.")] = "30s",
    once: Annotated[bool, typer.Option("--once", help="Ingest the files that are there, and end.")] = False,
    watermark: Annotated[
        str,
        typer.Option("--watermark", metavar="TIME", help="Lines that are later than this are left for `run`: 12h, 7d."),
    ] = "7d",
    max_bytes: Annotated[
        int, typer.Option("--max-bytes-per-trigger", min=1, help="About how much of the journals it reads at a time.")
    ] = 256 * 1024 * 1024,
    kafka: Annotated[
        str | None,
        typer.Option("--kafka", metavar="BOOTSTRAP", help="Read the journal's topic there too.", show_default=False),
    ] = None,
    kafka_topic: Annotated[
        str, typer.Option("--kafka-topic", metavar="TOPIC", help="Which topic holds the journal.")
    ] = DEFAULT_TOPIC,
    unwritten_days: UnwrittenDays = None,
    protect: Protect = None,
    force: Force = False,
    stuck_after: StuckAfter = None,
    master: Master = None,
    conf: Conf = None,
    command_config: CommandConfig = None,
    json_lines: Annotated[bool, typer.Option("--json-lines", help="Print a JSON object for each batch.")] = False,
) -> None:
    """Follow growing journals and new surveys, and keep the tables current. Ends cleanly on Ctrl-C and SIGTERM.

    Goes on where it was, also after a kill. Without news stuck_now is made anew each minute, as time passes. Lines that
    are later than the watermark are kept in quarantine until `lethe pipeline run` takes them in.
    """

    def command() -> Answer:
        with the_extra():
            from lethe.pipeline.jobs.stream import KafkaTopic, StreamOptions
        plan = StreamOptions(
            tuple(journal or ()),
            tuple(surveys or ()),
            None if kafka is None else KafkaTopic(kafka, kafka_topic, source_security(command_config)),
            checkpoint,
            None if once else seconds("--every", every),
            datetime.timedelta(seconds=seconds("--watermark", watermark)),
            max_bytes,
            rule_changes=rule_changes(unwritten_days, protect, stuck_after, force=force),
        )
        return stream(lake, plan, spark_master(master, conf or []), settings(conf or []), json_lines, command_config)

    finish_sync(command, as_json=json_lines)


def source_security(command_config: Path | None) -> dict[str, str]:
    """Return the options of Spark's source for the file. Raises Refusal with all its errors, and writes its warnings on
    standard error."""
    if command_config is None:
        return {}
    from lethe.adapters.properties import ConfigError
    from lethe.pipeline.io.kafka_options import kafka_options

    try:
        return kafka_options(command_config, warn)
    except ConfigError as error:
        raise unusable_config(command_config, error) from error


def seconds(option: str, text: str) -> int:
    """Parse `30s`, `5m`, `12h` or `7d`. Raises ValueError."""
    found = _LENGTH.match(text)
    if found is None or not int(found[1]):
        raise ValueError(f"{option} {text!r} is no length of time, such as 30s, 5m, 12h or 7d")
    return int(found[1]) * _UNITS[found[2]]


def stream(
    lake: str,
    plan: StreamOptions,
    master: str | None,
    conf: Mapping[str, str],
    json_lines: bool,
    command_config: Path | None = None,
) -> Answer:
    """Run until stopped, or without `every_s` until no input is left. Raises Refusal, ValueError and OSError.

    `command_config`: the file that the options of `plan.kafka` come from.
    """
    if not (plan.journals or plan.surveys or plan.kafka):
        raise ValueError("nothing to follow: name a journal (--journal DIR), surveys (--surveys DIR) or --kafka")
    with the_extra():
        from lethe.pipeline import session
        from lethe.pipeline.io.lake import Lake as TheLake
        from lethe.pipeline.io.lock import Locked
        from lethe.pipeline.jobs.executors import watched_executors
        from lethe.pipeline.jobs.stream import Stream, StreamFailed
    need_java()
    if plan.kafka:
        require_broker(plan.kafka.bootstrap, plan.kafka.protocol)
        if master is not None:
            conf = with_package(conf, session.SPARK_VERSION)
    stopping = threading.Event()
    batches = 0

    def on_batch(progress: BatchProgress) -> None:
        nonlocal batches
        batches += 1
        line(json.dumps(as_data(progress)) if json_lines else in_words(progress))

    with spark_log(if_not_started=_package_words(plan)) as log, _ended_by_signals(stopping):
        spark = session.build_session(master, conf, log=log)
        try:
            if not json_lines:
                note("following; Ctrl-C ends it between two batches" if plan.every_s else "taking in what is there")
            clock = lambda: datetime.datetime.now(datetime.UTC)  # noqa: E731
            with watched_executors(spark, note), _ended_by_signals(stopping):
                Stream(spark, TheLake(spark, lake), plan, clock, on_batch, note, stopping).run()
        except Locked as error:
            raise Refusal(str(error), Exit.BUSY) from error
        except StreamFailed as error:
            why = why_refused(plan.kafka.bootstrap, command_config) if plan.kafka else ""
            raise Refusal(
                f"the stream ended: {error}{why}; what Spark said is in {log or session.DRIVER_LOG}", Exit.UNREACHABLE
            ) from error
        finally:
            spark.stop()
    data: JsonValue = {"batches": batches, "stopped": stopping.is_set()}
    return Answer(data, (f"Ended after {counted(batches, 'batch', 'batches')}; the same command continues here.",))


def as_data(progress: BatchProgress) -> dict[str, JsonValue]:
    """Return a batch for `--json-lines`."""
    done = progress.done
    return {
        "batch": done.batch,
        **done.counts._asdict(),
        "surveys": done.surveys,
        "surveys_refused": done.refused,
        "watermark": plain(done.watermark),
        "days": [str(day) for day in done.days],
        "took_ms": progress.took_ms,
        "behind_bytes": progress.behind_bytes,
    }


def in_words(progress: BatchProgress) -> str:
    """Return a batch as one line, without zeros."""
    done, counts = progress.done, progress.done.counts
    parts = [
        f"{number:,} {word}"
        for number, word in (
            (counts.new, "new"),
            (counts.duplicate, "known or twice"),
            (counts.late, "late"),
            (counts.bad, "quarantined"),
            (counts.lost, "ranges lost to rotation"),
            (done.surveys, "surveys"),
            (done.refused, "surveys left out"),
        )
        if number
    ]
    if progress.behind_bytes:
        parts.append(f"{progress.behind_bytes / 1e6:,.1f} MB behind")
    watermark = "" if done.watermark is None else f"  watermark {done.watermark:%Y-%m-%d %H:%M}"
    return f"batch {done.batch}: {', '.join(parts) or 'nothing new'}  {progress.took_ms / 1000:.1f} s{watermark}"


def with_package(conf: Mapping[str, str], version: str) -> dict[str, str]:
    """Add Spark's package for Kafka of that version, where `conf` names neither it nor its jar."""
    packages, jars = conf.get("spark.jars.packages", ""), conf.get("spark.jars", "")
    if KAFKA_ARTIFACT.partition(":")[2] in f"{packages} {jars}":
        return {**conf}
    return {**conf, "spark.jars.packages": ",".join(filter(None, (packages, f"{KAFKA_ARTIFACT}:{version}")))}


def _package_words(plan: StreamOptions) -> str:
    if plan.kafka is None:
        return ""
    return (
        "; --kafka needs Spark's package for Kafka, which is fetched from Maven Central: where that cannot be reached, "
        "name a mirror (--conf spark.jars.ivySettings=FILE) or give the jars (--conf spark.jars=A.jar,B.jar); where it "
        f"has no such version yet, name the newest (--conf spark.jars.packages={KAFKA_ARTIFACT}:VERSION); or follow "
        "the files (--journal DIR)"
    )


@contextmanager
def _ended_by_signals(stopping: threading.Event) -> Iterator[None]:
    """Set the event on SIGTERM and SIGINT. Spark's session replaces the handler of SIGINT, so enter this again after it
    has started."""

    def handle(_: int, __: object) -> None:
        stopping.set()

    before: dict[signal.Signals, object] = {}
    for number in (signal.SIGTERM, signal.SIGINT):
        before[number] = signal.signal(number, handle)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)  # type: ignore[arg-type]
