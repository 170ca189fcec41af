"""`lethe doctor`: what is wrong in a cluster, how bad it is, and what repairs it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.cli.answer import Answer
from lethe.cli.log_dirs import (
    LogDirLists,
    LogDirs,
    of_this_cluster,
    owned_log_dirs,
    parse_log_dir_lists,
    parse_log_dirs,
)
from lethe.cli.options import AsJson, ZooKeeper
from lethe.cli.running import finish
from lethe.cli.zookeeper_access import with_session

if TYPE_CHECKING:
    from lethe.admin.doctor_look import BrokerQuestions

AskMs = Annotated[int, typer.Option("--broker-timeout-ms", min=1, help="How long to wait for a broker's connection.")]


def doctor(
    zookeeper: ZooKeeper,
    broker_timeout_ms: AskMs = 2_000,
    log_dir: LogDirs = None,
    log_dirs: LogDirLists = None,
    as_json: AsJson = False,
) -> None:
    """List what is wrong in a cluster under any controller: severity, evidence, and what repairs it.

    Exit code 0 where nothing is wrong and everything was seen; 1 where there is an error or a warning, whether or not
    everything could be seen; 3 where there is none as far as could be seen. Notes, such as settings of a topic that
    does not exist, may be wanted: they do not change the exit code.
    """

    async def command() -> Answer:
        known, named = parse_log_dirs(log_dir or ()), parse_log_dir_lists(log_dirs or ())
        owned = await asyncio.to_thread(owned_log_dirs, known, named)

        async def answer(session: ZooKeeperSession) -> Answer:
            from lethe.admin.doctor_look import questions

            directories = await of_this_cluster(session, owned)
            return await diagnosis(session, questions(broker_timeout_ms), directories)

        return await with_session(zookeeper, answer)

    finish(command, as_json=as_json)


async def diagnosis(
    session: ZooKeeperSession,
    ask: BrokerQuestions,
    log_dirs: Mapping[int, Sequence[Path]] | None = None,
    *,
    settle_s: float | None = None,
) -> Answer:
    """Look at the cluster, and return what is wrong. Raises NoCluster where there is none, or under a KRaft
    controller, and SessionLost."""
    from lethe.admin.controllers import ask_active_controller
    from lethe.admin.doctor_look import examine
    from lethe.admin.doctor_rules import diagnose, suspects
    from lethe.cli.doctor_show import found
    from lethe.survey.take import SETTLE_S

    await _demand_zookeeper_mode(session)
    reported = await ask_active_controller(session, None)
    view = await examine(
        session,
        ask,
        suspects,
        log_dirs=log_dirs,
        reported=reported,
        settle_s=SETTLE_S if settle_s is None else settle_s,
    )
    return found(view, diagnose(view))


async def _demand_zookeeper_mode(session: ZooKeeperSession) -> None:
    """Raise NoCluster under a KRaft controller. An unreadable `/controller` is for the rules."""
    from lethe.admin.topic_znodes import demand_zookeeper_controller
    from lethe.protocol.zookeeper.znodes import MalformedZnode
    from lethe.survey.znodes import ZnodeUnreadable

    with contextlib.suppress(MalformedZnode, ZnodeUnreadable):
        await demand_zookeeper_controller(session)
