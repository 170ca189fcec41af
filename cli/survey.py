"""`lethe survey`: the three places as they are, and what is left over in each of them."""

from __future__ import annotations

import os.path
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adapters.zookeeper.interface import ZooKeeperSession
from cli.answer import Answer, Exit, Table
from cli.options import AsJson, ZooKeeper
from cli.running import finish
from cli.zookeeper_access import with_session

if TYPE_CHECKING:
    from survey.leftovers import Leftover
    from survey.views import Survey

LogDirs = Annotated[
    list[str] | None,
    typer.Option(
        "--log-dir",
        metavar="BROKER=PATH",
        help="A log directory on this machine and the broker that owns it, which may be down; may be repeated. Those "
        "of live brokers are found without. Directories elsewhere are known by what their brokers tell of them, which "
        "leaves out what was set aside or waits for its removal.",
        show_default=False,
    ),
]


def survey(zookeeper: ZooKeeper, log_dir: LogDirs = None, as_json: AsJson = False) -> None:
    """Look at ZooKeeper, at every broker's metadata cache and at the disks, and list what is left over.

    No controller is asked. Exit code 0 only where everything was seen and nothing is left over; 1 where something is;
    3 where nothing is, as far as could be seen.
    """

    async def command() -> Answer:
        directories = parse_log_dirs(log_dir or ())
        return await with_session(zookeeper, lambda session: survey_answer(session, directories))

    finish(command, as_json=as_json)


def parse_log_dirs(texts: Sequence[str]) -> dict[int, list[Path]]:
    """Directories by broker, from `3=/var/lib/kafka` texts. Raises ValueError naming the text."""
    found: dict[int, list[Path]] = {}
    for text in texts:
        broker, equals, path = text.partition("=")
        if not (equals and path and broker.isascii() and broker.isdigit()):
            raise ValueError(f"--log-dir {text!r} is not of the form BROKER=PATH, such as 3=/var/lib/kafka")
        found.setdefault(int(broker), []).append(Path(os.path.abspath(path)))
    return found


async def survey_answer(session: ZooKeeperSession, log_dirs: dict[int, list[Path]]) -> Answer:
    """Takes a survey and says what it found."""
    from survey.as_json import survey_to_json
    from survey.leftovers import leftovers
    from survey.take import take

    taken = await take(session, log_dirs=log_dirs, look_here=True)
    findings = leftovers(taken)
    code = Exit.OK
    if findings:
        code = Exit.NO
    elif not taken.is_complete:
        code = Exit.UNREACHABLE
    return Answer(
        survey_to_json(taken, findings), tuple(_lines(taken, findings)), tuple(_tables(taken, findings)), code
    )


def _lines(taken: Survey, findings: Sequence[Leftover]) -> list[str]:
    tree = taken.zookeeper
    partitions = sum(len(topic.assignments or ()) for topic in tree.topics.values())
    size = sum(d.size_bytes for view in taken.log_dirs for d in view.directories)
    answered = sum(answer.cache is not None for answer in taken.answers)
    controller = "no controller" if tree.controller is None else f"controller {tree.controller.broker_id}"
    topics = f"{len(tree.topics)} topics with {partitions} partitions, {len(tree.marked)} marked for deletion"
    lines = [
        f"ZooKeeper: {topics}, {controller}",
        f"Caches:    {answered} of {len(tree.brokers)} brokers answered",
        f"Disks:     {len(taken.log_dirs)} log directories with {size:,} bytes{_told(taken)}",
    ]
    if taken.in_motion:
        lines.append(f"Changing meanwhile, so nothing is said of them: {', '.join(taken.in_motion)}")
    if not findings:
        seen = "Nothing is left over." if taken.is_complete else "Nothing is left over, as far as could be seen."
        lines.append(seen)
    return lines


def _told(taken: Survey) -> str:
    """How many directories only their brokers tell of, and what that leaves out."""
    from survey.views import Source

    told = sum(view.source is Source.BROKER for view in taken.log_dirs)
    if not told:
        return ""
    return f" ({told} of them as their brokers tell: nothing of what was set aside or waits for its removal)"


def _tables(taken: Survey, findings: Sequence[Leftover]) -> list[Table]:
    tables = []
    if findings:
        rows = tuple(
            (
                finding.place.value,
                "" if finding.broker is None else str(finding.broker),
                finding.standing.value,
                finding.what,
                finding.why,
                f"{finding.size_bytes:,}" if finding.size_bytes else "",
            )
            for finding in findings
        )
        tables.append(Table(("place", "broker", "standing", "what", "why", "bytes"), rows, "Left over"))
    if taken.problems:
        tables.append(Table(("where", "why"), tuple(taken.problems), "Could not be seen"))
    return tables
