"""`lethe pipeline`: makes tables from journals and surveys, and shows them."""

from __future__ import annotations

import datetime
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lethe.admin.refusal import Exit, Refusal
from lethe.cli.answer import Answer, Table
from lethe.cli.commands import group
from lethe.cli.lake_options import (
    Conf,
    From,
    Lake,
    MadeLake,
    Master,
    StateOf,
    Surveys,
    To,
    day,
    end_of,
    need_java,
    plain,
    settings,
    spark_master,
    the_extra,
)
from lethe.cli.options import AsJson
from lethe.cli.render import note
from lethe.cli.running import finish_sync
from lethe.cli.spark_log import spark_log
from lethe.cli.stale_rule import Force, Protect, StuckAfter, UnwrittenDays, rule_changes
from lethe.protocol.counting import counted
from lethe.protocol.lake_rules import LakeRules
from lethe.protocol.shell_words import option

if TYPE_CHECKING:
    from lethe.pipeline.jobs.report import DayRange, RunReport
    from lethe.pipeline.jobs.rules import RuleChanges
    from lethe.protocol.journal import JsonValue

app = typer.Typer(
    cls=group(
        {
            "run": "pipeline:run_command",
            "prepare": "pipeline_prepare:prepare_command",
            "show": "pipeline:show_command",
            "tables": "pipeline:tables_command",
            "stream": "pipeline_stream:stream_command",
        }
    ),
    help="Make tables of journals and surveys, and look at them.",
    no_args_is_help=True,
)

WAIT_S: Final = 300.0
"""Many times the duration of a stream's batch."""
SHOWN_REFUSALS: Final = 20
FIRST_YEAR: Final = 1970
LAST_YEAR: Final = 9998

Journals = Annotated[
    list[str] | None,
    typer.Option(
        "--journal",
        metavar="DIR",
        help="A journal: a directory of *.jsonl or *.jsonl.gz, a file or a pattern; may be repeated.",
        show_default=False,
    ),
]
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of", metavar="TIME", help="The moment that tables speak of, in RFC 3339; now without.", show_default=False
    ),
]
Wait = Annotated[
    float,
    typer.Option(
        "--wait",
        metavar="SECONDS",
        min=0,
        help="How long to wait for another process that writes to the lake, or for executors.",
    ),
]
Limit = Annotated[int, typer.Option("--limit", min=1, help="How many rows to show at most.")]
OfTopic = Annotated[
    str | None,
    typer.Option("--topic", metavar="TOPIC", help="Only rows about this topic, oldest days first.", show_default=False),
]


def run_command(
    lake: Lake,
    journal: Journals = None,
    surveys: Surveys = None,
    first: From = None,
    last: To = None,
    as_of: AsOf = None,
    unwritten_days: UnwrittenDays = None,
    protect: Protect = None,
    force: Force = False,
    stuck_after: StuckAfter = None,
    master: Master = None,
    conf: Conf = None,
    wait_s: Wait = WAIT_S,
    as_json: AsJson = False,
) -> None:
    """Read journals and surveys, add what is new to the lake, and make the tables anew that depend on it.

    The same days twice change nothing. Exit code 1 where the audit found that something is broken, 5 where another
    process writes to the lake and does not come to an end.
    """
    finish_sync(
        lambda: run(
            lake,
            journal or [],
            surveys or [],
            days(first, last),
            clock(as_of),
            spark_master(master, conf or []),
            settings(conf or []),
            as_json,
            rule_changes(unwritten_days, protect, stuck_after, force=force),
            wait_s,
        ),
        as_json=as_json,
    )


def show_command(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Which table; `lethe pipeline tables` names them.")],
    lake: MadeLake,
    limit: Limit = 20,
    first: From = None,
    last: To = None,
    topic: OfTopic = None,
    state_of: StateOf = None,
    as_json: AsJson = False,
) -> None:
    """Show rows of a table, the newest days first. Needs neither Spark nor Java.

    The table controller_events has the lines of the journal: --topic shows those about the topic, its partitions and
    replicas.
    """
    finish_sync(lambda: show(table, lake, limit, first, last, topic, state_of), as_json=as_json)


def tables_command(
    lake: Annotated[str | None, typer.Option("--lake", metavar="DIR", help="Count their rows in this lake.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the tables and what they hold."""
    finish_sync(lambda: list_tables(lake), as_json=as_json)


# --- options ------------------------------------------------------------------------------------------------------


def days(first: str | None, last: str | None) -> DayRange:
    """Parse days. Raises ValueError naming an invalid text, and for a range that ends before it begins."""
    with the_extra():
        from lethe.pipeline.jobs.report import DayRange
    return DayRange(day("--from", first), day("--to", last))


def clock(as_of: str | None) -> Callable[[], datetime.datetime]:
    """Return the system clock, or one that stands at the given moment. Raises ValueError."""
    if as_of is None:
        return lambda: datetime.datetime.now(datetime.UTC)
    stopped_at = moment(as_of)
    return lambda: stopped_at


def moment(text: str) -> datetime.datetime:
    """Parse a moment, and return it in UTC, as days of tables are. Raises ValueError naming an invalid text."""
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"--as-of {text!r} is no RFC 3339 time, such as 2026-01-31T12:00:00Z") from error
    if found.tzinfo is None:
        raise ValueError(f"--as-of {text!r} has no time zone: write {found.isoformat()}Z for UTC")
    if not FIRST_YEAR <= found.year <= LAST_YEAR:
        raise ValueError(f"--as-of {text!r} is not of the years {FIRST_YEAR} to {LAST_YEAR}")
    return found.astimezone(datetime.UTC)


# --- commands -----------------------------------------------------------------------------------------------------


def run(
    lake: str,
    journals: Sequence[str],
    surveys: Sequence[str],
    wanted: DayRange,
    now: Callable[[], datetime.datetime],
    master: str | None,
    conf: Mapping[str, str],
    quiet: bool,
    said: RuleChanges | None = None,
    wait_s: float = 0.0,
) -> Answer:
    """Run the batch job once. Raises Refusal, ValueError and OSError."""
    if not (journals or surveys):
        raise ValueError("nothing to read: name a journal (--journal DIR), surveys (--surveys DIR) or both")
    with the_extra():
        from lethe.pipeline import session
        from lethe.pipeline.io.lake import Lake as TheLake
        from lethe.pipeline.io.lock import Locked
        from lethe.pipeline.jobs import batch
        from lethe.pipeline.jobs.executors import watched_executors
        from lethe.pipeline.jobs.unchanged import RunInputs, look
    batch_id = f"{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
    began = time.monotonic()
    changes = said or rule_changes(None, None, None, force=False)
    session.settings_of(master or "", conf)
    seen = look(RunInputs(lake, journals, surveys, wanted, changes), now(), batch_id=batch_id)
    if seen.report is not None:
        return answer(seen.report, lake, time.monotonic() - began)
    need_java()
    with spark_log() as log, stages(quiet=quiet) as stage:
        stage("starting Spark")
        spark = session.build_session(master, conf, log=log, input_bytes=seen.unread_bytes)
        try:
            with watched_executors(spark, stage, wait_s):
                report = batch.run(
                    *(spark, TheLake(spark, lake), journals, surveys, wanted, now),
                    batch_id=batch_id,
                    stage=stage,
                    rule_changes=changes,
                    wait_s=wait_s,
                )
        except Locked as error:
            raise Refusal(f"{error} (it was waited for {wait_s:g} s; --wait SECONDS)", Exit.BUSY) from error
        finally:
            spark.stop()
    return answer(report, lake, time.monotonic() - began)


def answer(report: RunReport, lake: str, took_s: float) -> Answer:
    """Return the run's results as text, tables and data."""
    taken = Table(
        ("table", "read", "new", "known or twice", "late", "quarantined"),
        tuple((one.table, *(f"{number:,}" for number in one[1:])) for one in report.taken),
        "Ingested",
    )
    tables = [taken]
    if report.rows:
        rows = tuple((name, f"{count:,}") for name, count in report.rows.items())
        tables.append(Table(("table", "rows"), rows, "Made anew"))
    if report.refused:
        shown = tuple((one.path, one.why) for one in report.refused[:SHOWN_REFUSALS])
        tables.append(Table(("survey", "why"), shown, f"Surveys that were left out: {len(report.refused)}"))
    made = report.made
    span = f"{made[0]} to {made[-1]}, {counted(len(made), 'day')}" if made else "none"
    lines = [f"Lake {lake}: days made anew: {span}; {took_s:.1f} s"]
    if report.rules is not None:
        rules = report.rules
        kept = f", never {', '.join(rules.protected)}" if rules.protected else ""
        lines.append(
            f"Unused is what was not written to for {counted(rules.unwritten_days, 'day')}{kept}; "
            "stuck is what has waited for "
            f"{rules.stuck_after_ms / 1000:g} s"
        )
    if report.errors or report.warnings:
        found = f"{counted(report.errors, 'error')}, {counted(report.warnings, 'warning')}"
        lines.append(f"The audit found {found}: lethe pipeline show violations {option('--lake', lake)}")
    data: dict[str, JsonValue] = {
        "batch_id": report.batch_id,
        "taken": [dict(one._asdict()) for one in report.taken],
        "refused": [dict(one._asdict()) for one in report.refused],
        "days": [str(day) for day in report.days],
        "made": [str(day) for day in report.made],
        "rows": dict(report.rows),
        "errors": report.errors,
        "warnings": report.warnings,
        "rules": None if report.rules is None else rules_to_json(report.rules),
        "took_ms": round(took_s * 1000),
    }
    return Answer(data, tuple(lines), tuple(tables), Exit.NO if report.errors else Exit.OK)


def rules_to_json(rules: LakeRules) -> dict[str, JsonValue]:
    """Return the rules of the lake, under the names of the options."""
    return {
        "unwritten_days": rules.unwritten_days,
        "protect": [*rules.protected],
        "stuck_after_ms": rules.stuck_after_ms,
    }


def show(
    name: str,
    lake: str,
    limit: int,
    first: str | None,
    last: str | None,
    topic: str | None = None,
    state_of: str | None = None,
) -> Answer:
    """Return the newest rows of a table, or the oldest about a topic. Raises ValueError and Refusal."""
    with the_extra():
        from lethe.pipeline.report.lake_reader import LakeReader, and_filters, of_days, of_topic
        from lethe.pipeline.tables import TABLES
    table = TABLES.get(name)
    if table is None:
        raise ValueError(f"there is no table {name!r}; there are {', '.join(TABLES)}")
    wanted = days(first, last)
    if not table.is_partitioned and (first or last):
        raise ValueError(f"{name} is not by days: leave --from and --to out")
    about = None if topic is None else of_topic(table, topic)
    reader = LakeReader(lake, end_of(state_of))
    names = [name for name in table.schema.names if name not in table.repeated]
    columns = _sort_columns(table.key, names)
    order = [f"-{column}" if column == "day" and topic is None else column for column in columns]
    best, total = reader.first(table, names, order, limit, and_filters(of_days(wanted), about))
    rows = [] if best is None else best.to_pylist()
    cells = tuple(tuple(_text(row[column]) for column in names) for row in rows)
    data: JsonValue = {
        "table": name,
        "total": total,
        "rows": [{column: plain(value) for column, value in row.items()} for row in rows],
    }
    line = f"{name}: {len(rows):,} of {counted(total, 'row')}"
    return Answer(data, (line,), (Table(tuple(names), cells),) if rows else ())


def list_tables(lake: str | None) -> Answer:
    """Return all tables; with a lake, with their numbers of rows."""
    with the_extra():
        from lethe.pipeline.report.lake_reader import LakeReader
        from lethe.pipeline.tables import TABLES
    reader = None if lake is None else LakeReader(lake)
    rows, data = [], []
    for table in TABLES.values():
        count = None
        if reader is not None:
            some = table.schema.names[:1]
            count = sum(batch.num_rows for batch in reader.batches(table, some)) if reader.has(table) else None
        by = table.day_of or ""
        rows.append((table.layer.value, table.name, ", ".join(table.key), by, "" if count is None else f"{count:,}"))
        one: dict[str, JsonValue] = {"layer": table.layer.value, "table": table.name, "key": list(table.key)}
        data.append({**one, "day_of": table.day_of, "rows": count})
    return Answer(list(data), (), (Table(("layer", "table", "key", "by day of", "rows"), tuple(rows)),))


# --- helpers ------------------------------------------------------------------------------------------------------


@contextmanager
def stages(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show the stage of a run: as one moving line on a terminal, else as lines; nothing with `quiet`."""
    began = time.monotonic()
    if quiet:
        yield lambda _: None
    elif not sys.stderr.isatty():
        yield lambda what: note(f"{time.monotonic() - began:6.1f} s  {what}")
    else:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True)) as bars:

            def begin(what: str) -> None:
                for task in bars.task_ids:
                    bars.update(task, total=1, completed=1)
                bars.add_task(what, total=None)

            yield begin


def _sort_columns(key: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the columns to sort by: day, time unless the key has it, then key."""
    return [name for name in dict.fromkeys(("day", *(() if "time" in key else ("time",)), *key)) if name in names]


def _text(value: object) -> str:
    shown = plain(value)
    if shown is None:
        return ""
    return shown if isinstance(shown, str) else str(shown)
