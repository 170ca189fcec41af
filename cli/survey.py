"""`lethe survey`: reads the three places, and lists what is left over in each."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.refusal import Exit, Refusal
from lethe.cli.answer import Answer, Table
from lethe.cli.broker_access import reach_from
from lethe.cli.log_dirs import (
    LogDirLists,
    LogDirs,
    of_this_cluster,
    owned_log_dirs,
    parse_log_dir_lists,
    parse_log_dirs,
)
from lethe.cli.options import AsJson, CommandConfig, ZooKeeper
from lethe.cli.running import finish
from lethe.cli.zookeeper_access import with_session
from lethe.protocol.counting import counted
from lethe.protocol.findings import Reason
from lethe.protocol.journal import JsonValue
from lethe.protocol.zookeeper import paths

if TYPE_CHECKING:
    from lethe.survey.leftovers import Leftover
    from lethe.survey.views import Survey, ZooKeeperTree

Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Keep what was seen, in a new directory below DIR (made where it is missing). docs/surveys.md says what "
        "is in it.",
        show_default=False,
    ),
]

Textfile = Annotated[
    Path | None,
    typer.Option(
        "--textfile",
        metavar="FILE",
        help="Write what was found as a FILE.prom for the textfile collector of Prometheus' node exporter; for cron. "
        "docs/metrics.md says what is in it.",
        show_default=False,
    ),
]


def survey(
    zookeeper: ZooKeeper,
    log_dir: LogDirs = None,
    log_dirs: LogDirLists = None,
    out: Out = None,
    textfile: Textfile = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Look at ZooKeeper, at every broker's metadata cache and at the disks, and list what is left over.

    No controller is asked. Exit code 0 only where nothing is left over and everything was seen, log directories of
    other machines as their brokers tell of them; 1 where something is, whether or not everything could be seen; 3 where
    nothing is, as far as could be seen, as with a broker that is down and whose log directories were not named. What
    could not be seen stands in a survey that is kept, too.

    Bytes of deleted replicas that wait for log.segment.delete.delay.ms are shown as pending and do not change the exit
    code; where a broker does not tell that setting, as Lethe's agents do not, 60000 is assumed. One minute later they
    are overdue, and the exit code is 1; so it is at once where their broker is not registered.
    """

    async def command() -> Answer:
        known, named = parse_log_dirs(log_dir or ()), parse_log_dir_lists(log_dirs or ())
        owned = await asyncio.to_thread(owned_log_dirs, known, named)
        reach = reach_from(command_config)
        if textfile is not None:
            await _demand_textfile(textfile)
        if out is not None:
            await _demand_out(out)

        async def answer(session: ZooKeeperSession) -> Answer:
            return await survey_answer(session, reach, await of_this_cluster(session, owned), out, textfile)

        return await with_session(zookeeper, answer)

    finish(command, as_json=as_json)


async def survey_answer(
    session: ZooKeeperSession,
    reach: BrokerReach,
    log_dirs: dict[int, list[Path]],
    out: Path | None = None,
    textfile: Path | None = None,
) -> Answer:
    """Take a survey and return its findings; keep it below `out`, and write counts for Prometheus to `textfile`. Raises
    Refusal where that fails."""
    from lethe.survey.as_json import survey_to_json
    from lethe.survey.leftovers import leftovers
    from lethe.survey.take import take_survey
    from lethe.survey.views import printable

    taken = await take_survey(session, reach, log_dirs=log_dirs, read_local_disks=True, with_times=out is not None)
    kept = None if out is None else printable(str(await _keep(taken, out)))
    findings = leftovers(taken)
    if textfile is not None:
        await _write_textfile(textfile, taken, findings)
    code = Exit.OK
    if not all(finding.within_delay for finding in findings):
        code = Exit.NO
    elif not taken.is_complete:
        code = Exit.UNREACHABLE
    data: dict[str, JsonValue] = {**survey_to_json(taken, findings), "kept": kept}
    lines = (*_lines(taken, findings), *(() if kept is None else (f"Kept in {kept}",)))
    return Answer(data, lines, tuple(_tables(taken, findings)), code)


async def _demand_out(out: Path) -> None:
    from lethe.survey.keep import SaveFailed, require_writable

    try:
        await asyncio.to_thread(require_writable, out)
    except SaveFailed as failed:
        raise Refusal(f"--out: {failed}", Exit.USAGE) from failed


async def _keep(taken: Survey, out: Path) -> Path:
    from lethe.survey.keep import SaveFailed, save_survey

    try:
        return await asyncio.to_thread(save_survey, taken, out)
    except SaveFailed as failed:
        raise Refusal(f"--out: {failed}", Exit.USAGE) from failed


async def _demand_textfile(path: Path) -> None:
    from lethe.adapters.atomic_files import demand_replaceable

    if path.suffix != ".prom":
        raise ValueError(f"--textfile {path}: the collector reads files that end in .prom, and no others")
    with _textfile_failures(path):
        await asyncio.to_thread(demand_replaceable, path)


async def _write_textfile(path: Path, taken: Survey, findings: Sequence[Leftover]) -> None:
    from lethe.adapters.atomic_files import replace_file
    from lethe.survey.textfile import format_textfile

    with _textfile_failures(path):
        await asyncio.to_thread(replace_file, path, format_textfile(taken, findings))


@contextlib.contextmanager
def _textfile_failures(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Refusal(f"--textfile: {path} cannot be written: {error.strerror or error}", Exit.USAGE) from error


def _lines(taken: Survey, findings: Sequence[Leftover]) -> list[str]:
    from lethe.survey.debts import debts_lines

    tree = taken.zookeeper
    answered = sum(answer.cache is not None for answer in taken.answers)
    lines = [
        f"ZooKeeper: {_topics(tree)}, {_controller(tree)}",
        f"Caches:    {answered} of {counted(len(tree.brokers), 'broker')} answered",
        f"Disks:     {_disks(taken)}{_described_only(taken)}",
    ]
    if taken.in_motion:
        lines.append(f"Changing meanwhile, so nothing is said of them: {', '.join(taken.in_motion)}")
    lines += [f"Owed: {line}" for line in debts_lines(tree)]
    delayed = [finding for finding in findings if finding.reason is Reason.NOT_RECLAIMED_YET]
    if not findings:
        lines.append(nothing(taken))
    elif all(finding.within_delay for finding in findings):
        size = sum(finding.size_bytes for finding in delayed)
        what = counted(len(delayed), "directory", "directories")
        soon = f" {what} with {counted(size, 'byte')} will be removed within the brokers' delay." if delayed else ""
        lines.append(f"{nothing(taken)}{soon}")
    return lines


def _topics(tree: ZooKeeperTree) -> str:
    """Return how many topics there are and are marked, as far as they could be seen."""
    unseen = f" ({tree.unseen_topics} of them could not be read)" if tree.unseen_topics else ""
    partitions = f"{_at_least(bool(unseen))}{counted(tree.seen_partitions, 'partition')}"
    topics = f"{counted(len(tree.topics), 'topic')}{unseen} with {partitions}"
    marked = f"{len(tree.marked)} marked for deletion" if tree.knows_markers else "marks for deletion unseen"
    return f"{topics if tree.knows_topics else 'topics unseen'}, {marked}"


def _at_least(is_part: bool) -> str:
    """Return how a number begins that was counted in a part alone."""
    return "at least " if is_part else ""


def _controller(tree: ZooKeeperTree) -> str:
    if tree.controller is not None:
        return f"controller {tree.controller.broker_id}"
    return "no controller" if tree.could_read(paths.CONTROLLER) else "controller unseen"


def _disks(taken: Survey) -> str:
    """Return how many log directories were seen, of how many brokers where these are not all, and what they hold."""
    if not taken.log_dirs:
        return "no log directory seen"
    size = sum(d.size_bytes for view in taken.log_dirs for d in view.directories)
    known = {broker.id for broker in taken.zookeeper.brokers}
    seen = known & {view.broker for view in taken.log_dirs}
    brokers = f" of {len(seen)} of {counted(len(known), 'broker')}" if seen < known else ""
    held = f"{_at_least(any(view.problem for view in taken.log_dirs))}{counted(size, 'byte')}"
    return f"{counted(len(taken.log_dirs), 'log directory', 'log directories')}{brokers} with {held}"


def nothing(taken: Survey) -> str:
    """Return the message without findings; it claims only what was seen."""
    if not taken.is_complete:
        return "Nothing is left over, as far as could be seen."
    read, known = taken.read_log_dirs, len(taken.log_dirs)
    if read == known:
        return "Nothing is left over."
    where = (
        f"on the {read} of {counted(known, 'log directory', 'log directories')} that were read"
        if read
        else "on disks as far as brokers tell"
    )
    others = "; brokers reported the others" if read else ""
    return f"Nothing is left over in ZooKeeper, in the caches and {where}{others}."


def _described_only(taken: Survey) -> str:
    """Return how many directories only their brokers described, and what that leaves out."""
    from lethe.survey.views import LogDirSource

    told = sum(view.source is LogDirSource.BROKER for view in taken.log_dirs)
    if not told:
        return ""
    left_out = "without quarantined or pending directories, and without topic ids"
    return f" ({told} of them as their brokers report: {left_out})"


def _tables(taken: Survey, findings: Sequence[Leftover]) -> list[Table]:
    from lethe.survey.views import printable

    tables = []
    if findings:
        rows = tuple(
            (
                finding.place.value,
                "" if finding.broker is None else str(finding.broker),
                finding.standing.value,
                printable(finding.what),
                finding.why,
                f"{finding.size_bytes:,}" if finding.size_bytes else "",
            )
            for finding in findings
        )
        tables.append(Table(("place", "broker", "standing", "what", "why", "bytes"), rows, "Left over"))
    if taken.problems:
        tables.append(Table(("where", "why"), taken.problems, "Could not be seen"))
    return tables
