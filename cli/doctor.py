"""`lethe doctor`: what is wrong in a cluster, how bad it is, and what repairs it; repairs it, and takes that back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lethe.adapters.zookeeper.interface import SessionLost, ZooKeeperSession
from lethe.admin.refusal import Exit, Refusal
from lethe.cli.answer import Answer
from lethe.cli.asking import Confirm, agree, ask_user, demand_agreement
from lethe.cli.broker_access import reach_from
from lethe.cli.log_dirs import (
    LogDirLists,
    LogDirs,
    of_this_cluster,
    owned_log_dirs,
    parse_log_dir_lists,
    parse_log_dirs,
)
from lethe.cli.options import AsJson, CommandConfig, Yes, ZooKeeper
from lethe.cli.render import note
from lethe.cli.running import finish
from lethe.cli.zookeeper_access import access_variables, with_session

if TYPE_CHECKING:
    from lethe.admin.doctor_backup import Backup
    from lethe.admin.doctor_fix import TakeControl
    from lethe.admin.doctor_ills import IllKind
    from lethe.admin.doctor_look import BrokerQuestions, DoctorView
    from lethe.admin.doctor_rules import Diagnosis

Fix = Annotated[bool, typer.Option("--fix", help="Repair what can be repaired, one by one, after a backup.")]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="KIND",
        help="Repair ills of this kind only; may be repeated. docs/doctor.md lists them.",
        show_default=False,
    ),
]
BackupPath = Annotated[
    Path | None,
    typer.Option(
        "--backup",
        metavar="FILE",
        help="Where --fix saves znodes before it writes; lethe-doctor-TIME by default.",
        show_default=False,
    ),
]
RestorePath = Annotated[
    Path | None,
    typer.Option("--restore", metavar="FILE", help="Take back what --fix did with this backup.", show_default=False),
]
TimeoutMs = Annotated[int, typer.Option("--timeout-ms", min=1, help="How long to hold control at most.")]
PatienceMs = Annotated[
    int, typer.Option("--patience-ms", min=1, help="Hand control back when nothing has changed for so long.")
]
AskMs = Annotated[int, typer.Option("--broker-timeout-ms", min=1, help="How long to wait for a broker's connection.")]


@dataclass(frozen=True, slots=True)
class FixOptions:
    """The options of `--fix`."""

    backup: Path
    only: tuple[IllKind, ...] = ()
    assumes_yes: bool = False


def doctor(
    zookeeper: ZooKeeper,
    fix: Fix = False,
    only: Only = None,
    backup: BackupPath = None,
    restore: RestorePath = None,
    yes: Yes = False,
    timeout_ms: TimeoutMs = 300_000,
    patience_ms: PatienceMs = 20_000,
    broker_timeout_ms: AskMs = 2_000,
    log_dir: LogDirs = None,
    log_dirs: LogDirLists = None,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List what is wrong in a cluster under any controller: severity, evidence, and what repairs it.

    With --fix, ills that a write to ZooKeeper or a change of controllers can repair are repaired, each after a question
    (--yes agrees to all). Before each write the znodes are saved in the backup. What may be wanted (notes) is repaired
    with --yes only where --only names its kind.

    Exit code 0 where nothing is wrong (with --fix: any more) and everything was seen; 1 where there is an error or a
    warning, whether or not everything could be seen; 3 where there is none as far as could be seen. Notes, such as
    settings of a topic that does not exist, do not change it. With --restore: 0 restored, 1 refused, 3 not known.
    """

    async def command() -> Answer:
        from lethe.adapters.http_client import HttpCredentials
        from lethe.admin.doctor_look import questions

        kinds = _kinds(only or ())
        if restore is not None and (fix or kinds or backup is not None):
            raise ValueError("--restore takes back what --fix did: give one of them, and neither --only nor --backup")
        if not fix and (kinds or backup is not None):
            raise ValueError("--only and --backup belong to --fix")
        HttpCredentials.from_environment().check()
        known, named = parse_log_dirs(log_dir or ()), parse_log_dir_lists(log_dirs or ())
        owned = await asyncio.to_thread(owned_log_dirs, known, named)
        ask, confirm = questions(reach_from(command_config), broker_timeout_ms), None if yes else ask_user
        saved = None if restore is None else await backup_in(restore)

        async def answer(session: ZooKeeperSession) -> Answer:
            if saved is not None:
                return await restored(session, saved, confirm)
            directories = await of_this_cluster(session, owned)
            if not fix:
                return await diagnosis(session, ask, directories)
            doing = FixOptions(backup or _default_backup(), kinds, yes)
            control = _control(session, ask, zookeeper, timeout_ms, patience_ms, broker_timeout_ms)
            return await fixed(session, ask, doing, confirm, control, directories)

        return await with_session(zookeeper, answer)

    finish(command, as_json=as_json)


def _kinds(codes: Sequence[str]) -> tuple[IllKind, ...]:
    """Return the kinds of these codes. Raises ValueError for one that is unknown, or that is never repaired."""
    from lethe.admin.doctor_ills import IllKind, RepairWay

    known = {kind.code: kind for kind in IllKind if kind.value.way is not RepairWay.PERSON}
    for code in codes:
        if code not in known:
            raise ValueError(f"--only {code} is nothing that --fix repairs; it repairs {', '.join(known)}")
    return tuple(dict.fromkeys(known[code] for code in codes))


def _default_backup() -> Path:
    return Path(time.strftime("lethe-doctor-%Y%m%dT%H%M%SZ.jsonl", time.gmtime()))


async def _examined(
    session: ZooKeeperSession,
    ask: BrokerQuestions,
    log_dirs: Mapping[int, Sequence[Path]] | None,
    settle_s: float | None,
) -> tuple[DoctorView, Diagnosis]:
    """Look at the cluster. Raises NoCluster where there is none, or under a KRaft controller, and SessionLost."""
    from lethe.admin.controllers import ask_active_controller
    from lethe.admin.doctor_look import examine
    from lethe.admin.doctor_rules import diagnose, suspects
    from lethe.survey.take import SETTLE_S

    await _demand_zookeeper_mode(session)
    reported = await ask_active_controller(session, None)
    settle_s = SETTLE_S if settle_s is None else settle_s
    view = await examine(session, ask, suspects, log_dirs=log_dirs, reported=reported, settle_s=settle_s)
    return view, diagnose(view)


async def _demand_zookeeper_mode(session: ZooKeeperSession) -> None:
    """Raise NoCluster under a KRaft controller. An unreadable `/controller` is for the rules."""
    from lethe.admin.topic_znodes import demand_zookeeper_controller
    from lethe.protocol.zookeeper.znodes import MalformedZnode
    from lethe.survey.znodes import ZnodeUnreadable

    with contextlib.suppress(MalformedZnode, ZnodeUnreadable):
        await demand_zookeeper_controller(session)


async def diagnosis(
    session: ZooKeeperSession,
    ask: BrokerQuestions,
    log_dirs: Mapping[int, Sequence[Path]] | None = None,
    *,
    settle_s: float | None = None,
) -> Answer:
    """Look at the cluster, and return what is wrong. Raises as `_examined`."""
    from lethe.cli.doctor_show import found

    return found(*await _examined(session, ask, log_dirs, settle_s))


async def fixed(
    session: ZooKeeperSession,
    ask: BrokerQuestions,
    options: FixOptions,
    confirm: Confirm | None,
    control: Callable[[Diagnosis], TakeControl],
    log_dirs: Mapping[int, Sequence[Path]] | None = None,
    *,
    settle_s: float | None = None,
) -> Answer:
    """Look, repair what the user agrees to, and look again. Raises as `_examined`, and Refusal for a backup that cannot
    be written."""
    from lethe.admin.doctor_backup import BackupFile, BackupUnusable
    from lethe.admin.doctor_fix import Choice, fix
    from lethe.admin.topic_znodes import NoCluster
    from lethe.cli import doctor_show

    view, seen = await _examined(session, ask, log_dirs, settle_s)
    chosen = Choice(options.only, asks=not options.assumes_yes).of(seen.ills)
    backup = BackupFile(options.backup, view.survey.zookeeper.cluster_id, view.survey.taken_at_ms)
    if not chosen:
        return doctor_show.nothing_to_repair(view, seen)
    try:
        backup.demand_new()
        for line in doctor_show.plan(view, seen, chosen):
            note(line)
        done = await fix(session, chosen, backup, confirm or agree, control(seen))
    except BackupUnusable as unusable:
        kept = "; it has what was done by then" if backup.repairs else ""
        raise Refusal(f"--backup: {unusable}{kept}", Exit.USAGE) from unusable
    except SessionLost as lost:
        kept = f"; {backup.path} has what was done by then" if backup.repairs else ""
        raise Refusal(f"{lost}{kept}", Exit.UNREACHABLE) from lost
    try:
        after = await _examined(session, ask, log_dirs, settle_s)
    except (NoCluster, SessionLost) as unseen:
        said = f"the repairs are done, and what is left was not seen: {unseen}"
        raise Refusal(said, Exit.UNREACHABLE, doctor_show.repairs_json(done, view, backup)) from unseen
    return doctor_show.repaired(done, *after, backup)


def _control(
    session: ZooKeeperSession,
    ask: BrokerQuestions,
    connect: str,
    timeout_ms: int,
    patience_ms: int,
    broker_timeout_ms: int,
) -> Callable[[Diagnosis], TakeControl]:
    """Return how control is taken for the ills of a look."""
    import logging

    from lethe.admin.doctor_control import ControlRepairs
    from lethe.admin.rescue_run import RescueOptions

    # The second look has what the controller could not do.
    logging.basicConfig(level=logging.ERROR, format="%(message)s")

    def of(seen: Diagnosis) -> TakeControl:
        options = RescueOptions(
            connect,
            ask.reach,
            timeout_ms=timeout_ms,
            patience_ms=patience_ms,
            broker_timeout_ms=broker_timeout_ms,
            access=access_variables(os.environ),
        )
        return ControlRepairs(session, ask, options, seen.ills, note).repair

    return of


async def backup_in(path: Path) -> Backup:
    """Read the backup in the file. Raises Refusal."""
    from lethe.admin.doctor_backup import BackupUnusable, read_backup

    try:
        return await asyncio.to_thread(read_backup, path)
    except BackupUnusable as unusable:
        raise Refusal(f"--restore: {unusable}", Exit.USAGE) from unusable


async def restored(session: ZooKeeperSession, backup: Backup, confirm: Confirm | None) -> Answer:
    """Take the repairs of a backup back. Raises Refusal where the tree has changed since."""
    from lethe.admin.doctor_restore import plan_restore, restore
    from lethe.cli import doctor_show

    await _demand_zookeeper_mode(session)
    plan = await plan_restore(session, backup)
    if plan.groups and not plan.changed:
        await demand_agreement(plan.names, "Write these znodes as they were before?", confirm)
    return doctor_show.restored(plan, await restore(session, plan))
