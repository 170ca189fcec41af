"""Has a broker that is back delete what it owes: by Lethe's controller, or in control for the minutes of it.

the active controller is     what happens
---------------------------  -------------------------------------------------------------------------------
Lethe's                      it settles the debts itself; they are waited for
Kafka's, or none is there    control is taken as by a rescue, no other deletion is carried out, and goes back
"""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lethe.adapters.debts import DebtsRead, OpenDebt, read_debts_of
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.controller_identity import acting_controller
from lethe.admin.forgetting import forget_command
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.rescue_control import RescueController, RescueInterrupted, in_control
from lethe.admin.rescue_limits import PAUSED, beyond_command
from lethe.admin.rescue_run import RescueOptions, means_for
from lethe.admin.rescue_snapshot import RescueSnapshot, look
from lethe.admin.topic_znodes import require_cluster
from lethe.controller.core.scope import Scope
from lethe.protocol.journal import partition_ranges
from lethe.protocol.kafka.disk_formats import META_PROPERTIES, PARTITION_METADATA
from lethe.protocol.vocabulary import BrokerId, topic_id_to_text
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Exists, GetData, ReadOutcome, is_absent
from lethe.protocol.zookeeper.znodes import MalformedZnode
from lethe.survey.znodes import ZnodeUnreadable, stat_of, topic_of

POLL_S: Final = 0.25
NO_ID: Final = "no id tells it from a later topic; look at it yourself"


@dataclass(frozen=True, slots=True)
class SettlePlan:
    """What is to be settled, and whether control has to be taken for it."""

    broker: BrokerId
    debts: tuple[OpenDebt, ...]
    takes_control: bool


async def own_debts(session: ZooKeeperSession, broker: int) -> tuple[OpenDebt, ...]:
    """Return what the broker owes. Raises Refusal where something of it cannot be read, and NoCluster."""
    (ids,) = await session.read([Exists(paths.BROKER_IDS)])
    require_cluster(ids)
    read = await read_debts_of(session, [BrokerId(broker)])
    _demand_seen(read)
    return read.debts


def _demand_seen(read: DebtsRead) -> None:
    for unseen in read.unseen:
        raise Refusal(f"what {unseen.path} says is unseen: {unseen.reason}", Exit.UNREACHABLE)


async def is_registered(session: ZooKeeperSession, broker: int) -> bool:
    """Return whether the broker is registered. Raises ZnodeUnreadable."""
    path = paths.broker_id(broker)
    (found,) = await session.read([Exists(path)])
    return stat_of(found, path) is not None


async def settle_plan(session: ZooKeeperSession, broker: int) -> SettlePlan:
    """Return what is to be done. Raises Refusal where the broker owes something and is not registered, and where the
    controller is unseen; NoCluster where there is no cluster."""
    debts = await own_debts(session, broker)
    acting = await acting_controller(session)
    if debts:
        if not await is_registered(session, broker):
            raise Refusal(
                f"broker {broker} is not registered: start it first; or print a script for its host with --script; or, "
                f"if it never returns, give up what it owes with {forget_command(broker, is_lethe=acting.may_be_lethe)}"
            )
        if acting.problem is not None:
            raise Refusal(acting.text, Exit.UNREACHABLE)
    return SettlePlan(BrokerId(broker), debts, takes_control=not acting.is_lethe)


async def settle(
    session: ZooKeeperSession, plan: SettlePlan, options: RescueOptions, say: Callable[[str], None]
) -> tuple[OpenDebt, ...]:
    """Wait until the debts are settled, in control where the plan says so; return those that are left when the time is
    over. Raises Refusal where control cannot be taken, or debts cannot be read."""
    if not plan.takes_control:
        return await _wait(session, plan.broker, options.timeout_ms, lambda: None)
    seen = await look(session, options.reach, sorted({each.topic for each in plan.debts}), options.broker_timeout_ms)
    _demand_possible(seen)

    async def work(guest: RescueController) -> tuple[OpenDebt, ...]:
        taken_from = await guest.elected()
        say("Control taken." if taken_from is None else f"Control taken from controller {taken_from}.")
        return await _wait(session, plan.broker, options.timeout_ms, guest.check)

    try:
        return await in_control(means_for(options, seen), _scope(plan.broker), work)
    except RescueInterrupted:
        raise Refusal("interrupted: control is handed back, and the rest stays owed", Exit.INTERRUPTED) from None


def _scope(broker: BrokerId) -> Scope:
    """Return what the controller does: what is asked of this broker, and no other deletion."""
    return Scope(frozenset(), debtors=frozenset({broker}), forgettable=frozenset(), answers_requests=False)


def _demand_possible(seen: RescueSnapshot) -> None:
    if seen.holder is not None and seen.holder.is_kraft:
        raise Refusal("a KRaft controller controls the cluster: Lethe works with ZooKeeper only")
    if seen.beyond_command:
        raise Refusal(beyond_command(seen))
    if seen.is_paused:
        raise Refusal(PAUSED)


async def _wait(
    session: ZooKeeperSession, broker: BrokerId, timeout_ms: int, check: Callable[[], None]
) -> tuple[OpenDebt, ...]:
    deadline = time.monotonic() + timeout_ms / 1000
    while left := await own_debts(session, broker):
        check()
        if time.monotonic() >= deadline:
            break
        await asyncio.sleep(POLL_S)
    return left


# --- without any controller ---------------------------------------------------------------------------------------


async def kept_because(session: ZooKeeperSession, debts: Sequence[OpenDebt]) -> dict[str, str]:
    """Return why nothing may be removed for a debt, by its path; those that are not in it may be paid.

    the debt's topic                                   example
    -------------------------------------------------  -----------------------------------------------------------
    exists, or one of its name that may be the same    its deletion was called off, and no controller of Lethe's
                                                       has closed the debt yet
    may be in the trash                                it was brought back, and deleted again with a grace period
    cannot be told from a later one                    the debt has no id
    """
    topics = await session.read([GetData(paths.topic(each.topic)) for each in debts]) if debts else ()
    trash = await session.read([Exists(paths.trashed(each.topic)) for each in debts]) if debts else ()
    found = {}
    for each, topic, trashed in zip(debts, topics, trash, strict=True):
        if (why := _kept(each, topic, trashed)) is not None:
            found[each.path] = why
    return found


def _kept(owed: OpenDebt, topic: ReadOutcome, trashed: ReadOutcome) -> str | None:
    if owed.debt.topic_id is None:
        return NO_ID
    if not is_absent(trashed):
        return "a topic of that name is in the trash, or whether one is cannot be read"
    try:
        living = topic_of(topic, owed.topic)
    except (MalformedZnode, ZnodeUnreadable) as unseen:
        return f"the topic of that name cannot be read: {unseen}"
    if living is None:
        return None
    if living.topic_id is None:
        return "its topic exists, or one of that name without an id"
    return "its topic exists" if living.topic_id == owed.debt.topic_id else None


def script(broker: int, debts: Sequence[OpenDebt], kept: Mapping[str, str]) -> tuple[str, ...]:
    """Return a shell script that removes what the broker owes from its log directories while it is stopped.

    A directory goes only if its `partition.metadata` has the deleted topic's id, and nothing goes for the debts that
    `kept` gives a reason for, by path. The debts stay in ZooKeeper until a controller of Lethe's finds that nothing is
    left, or they are given up."""
    lines = [
        f"# What broker {broker} owes of deleted topics. Run it on its host, with the broker STOPPED:",
        f"#     sh settle-{broker}.sh LOG_DIR...",
        f"# ZooKeeper lists the debts until the broker is back: then lethe brokers settle {broker}",
        "set -eu",
        'if [ $# -eq 0 ]; then echo "usage: sh $0 LOG_DIR..." >&2; exit 2; fi',
        'for log_dir in "$@"; do',
        f"    if ! grep -qx 'broker.id={broker}' \"$log_dir/{META_PROPERTIES}\"; then",
        f'        echo "$log_dir is not of broker {broker}: nothing was removed" >&2; exit 1',
        "    fi",
        "done",
        "settle() {",
        "    name=$1 id=$2; shift 2",
        '    for log_dir in "$@"; do',
        "        directory=$log_dir/$name",
        '        if [ -L "$directory" ]; then echo "kept $directory: it is a symbolic link"; continue; fi',
        '        if [ ! -d "$directory" ]; then continue; fi',
        f'        if grep -qx "topic_id: $id" "$directory/{PARTITION_METADATA}" 2>/dev/null; then',
        '            rm -r -- "$directory"; echo "removed $directory"',
        "        else",
        '            echo "kept $directory: it does not say that it is of topic id $id"',
        "        fi",
        "    done",
        "}",
    ]
    for each in debts:
        why = NO_ID if each.debt.topic_id is None else kept.get(each.path)
        if why is not None:
            said = f"kept partitions {partition_ranges(each.debt.partitions)} of {each.topic}: {why}"
            lines.append(f"printf '%s\\n' {shlex.quote(said)}")
        elif each.debt.topic_id is not None:
            topic_id = shlex.quote(topic_id_to_text(each.debt.topic_id))
            names = (shlex.quote(f"{each.topic}-{partition}") for partition in each.debt.partitions)
            lines += (f'settle {name} {topic_id} "$@"' for name in names)
    return tuple(lines)
