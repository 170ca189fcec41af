"""Gives up a broker that never returns: what that writes off, and the request to Lethe's controller.

of the broker                       what becomes of it
----------------------------------  ----------------------------------------------------------------
debts                               written off: its bytes are nobody's any more, should it return
replicas of marked topics           count as gone, so that deletions that have begun end
replicas of topics in the trash     stay as they are: their deletions begin later, and wait for the broker then
replicas of living topics           stay as they are; a reassignment moves them, by an explicit plan
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from lethe.adapters.debts import UnseenDebts, read_debts_of
from lethe.adapters.registration import ensure_roots
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.broker_loads import BrokerLoad, ClusterLoad, look_at_brokers, no_other_in_sync
from lethe.admin.marked_topics import AskController, MarkedFate
from lethe.admin.outcomes import MAX_ATTEMPTS, Outcome, given_up, is_conflict, outcome_of
from lethe.admin.refusal import Refusal
from lethe.admin.standing_requests import EARLY, may_stand, named_when_lost
from lethe.admin.topic_znodes import demand_zookeeper_controller
from lethe.protocol.counting import counted, listed, plural
from lethe.protocol.journal import JsonValue
from lethe.protocol.shell_words import operand
from lethe.protocol.vocabulary import BrokerId, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    Create,
    Data,
    Delete,
    Exists,
    GetData,
    MultiFailed,
    Operation,
    ZkError,
    error_words,
    is_absent,
    read_error,
)
from lethe.protocol.zookeeper.znodes import (
    ForgetRequest,
    MalformedZnode,
    decode_forget_request,
    encode_forget_request,
)
from lethe.survey.debts import BrokerDebts, by_broker
from lethe.survey.znodes import read_data

POLL_MS: Final = 50
SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class ForgetPlan:
    """What giving up one broker means, as ZooKeeper has it."""

    broker: int
    debts: BrokerDebts | None
    unseen: tuple[UnseenDebts, ...]
    """Debts that could not be read, perhaps of this broker."""
    marked: tuple[str, ...]
    """Marked topics with replicas on it."""
    held: tuple[str, ...]
    """Those of them that are in service, or may be: their deletions do not end."""
    only_here: tuple[TopicPartition, ...]
    """Partitions of living topics without another live broker in the ISR: what they hold is lost without its disks."""
    short: tuple[TopicPartition, ...]
    """Other partitions of living topics that name it."""
    unknown: tuple[str, ...]
    """Topics, or partitions, of which it is unknown what they lose."""
    in_trash: tuple[str, ...] = ()
    """Topics in the trash with replicas on it: their deletions begin later, and wait for it then."""
    only_here_in_trash: tuple[str, ...] = ()
    """Topics in the trash with a partition that was in sync on no other live broker."""
    also_elsewhere: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Marked topics whose deletions have begun, and the other absent brokers that they wait for too."""
    by_rescue: bool = False
    """Whether a rescue forgets the broker, since no controller of Lethe's is active."""

    @property
    def living(self) -> int:
        return len(self.only_here) + len(self.short)

    def lines(self) -> tuple[str, ...]:
        """Return what the user has to know first."""
        lines = []
        if self.debts is not None:
            lines.append(f"Written off: {self.debts.text}. Should it return, nothing deletes these bytes.")
        unseen = "is unseen; written off where it is this broker's"
        lines += [f"What {each.path} says {unseen} ({each.reason})." for each in self.unseen]
        shared = [f"{name} (broker {', '.join(map(str, brokers))})" for name, brokers in self.also_elsewhere]
        waiting = (*self.held, *(name for name, _ in self.also_elsewhere))
        if ending := [name for name in self.marked if name not in waiting]:
            lines.append(
                f"{counted(len(ending), 'deletion ends', 'deletions end')} without it: {listed(ending, SHOWN)}."
            )
        if shared:
            lines.append(
                f"{counted(len(shared), 'deletion waits', 'deletions wait')} for other absent brokers too: "
                f"{listed(shared, SHOWN)}. {self._ending_first()} end these deletions; until then nothing is "
                "written off."
            )
        if self.held:
            lines.append(f"These deletions have not begun, as far as is known: {listed(self.held, SHOWN)}.")
        if self.in_trash:
            lines.append(f"{_will_wait(self.broker, self.in_trash)}.")
        if self.only_here:
            lines.append(
                f"NO OTHER live replica is in sync of {counted(len(self.only_here), 'living partition')}: "
                f"{listed(self.only_here, SHOWN)}. They are not touched; without its disks their records are lost."
            )
        if self.short:
            lines.append(
                f"One replica short {'is' if len(self.short) == 1 else 'are'} "
                f"{counted(len(self.short), 'living partition')}: {listed(self.short, SHOWN)}. They are not touched."
            )
        if self.only_here_in_trash:
            lines.append(
                f"NO OTHER live replica is in sync of {counted(len(self.only_here_in_trash), 'topic')} in the trash: "
                f"{listed(self.only_here_in_trash, SHOWN)}. Without its disks their records are lost."
            )
        if self.living:
            lines.append("Move them to live brokers by a plan of yours: lethe partitions reassign --help")
        lines += [f"What {each} loses is not known." for each in self.unknown]
        return tuple(lines)

    def _ending_first(self) -> str:
        if self.by_rescue:
            return "First have lethe rescue --owe"
        return "Forget them at the same time, or first have lethe topics delete --owe"


def forget_command(broker: int, *, is_lethe: bool | None) -> str:
    """Return the command that forgets the broker: a rescue unless Lethe's controller is seen to be active."""
    return f"lethe brokers forget {broker}" if is_lethe else f"lethe rescue --forget {broker}"


async def forget_plan(session: ZooKeeperSession, broker: int, ask_controller: AskController | None) -> ForgetPlan:
    """Return what giving up the broker means. Raises Refusal where it is registered, where nothing names it, and where
    Lethe's controller is not active; ZnodeUnreadable where the trash cannot be listed."""
    await demand_zookeeper_controller(session)
    seen = await look_at_brokers(session, ask=None, ask_controller=ask_controller)
    demand_absent(seen, broker)
    if not seen.acting.is_lethe:
        raise Refusal(
            f"{seen.acting.text}: only Lethe's controller forgets brokers. `{forget_command(broker, is_lethe=False)}` "
            "takes control for it"
        )
    return plan_of(seen, broker)


def demand_absent(seen: ClusterLoad, broker: int) -> None:
    """Raise Refusal if the broker is registered."""
    if broker in seen.views.brokers or broker in seen.unreadable:
        raise Refusal(f"broker {broker} is registered, so it is not forgotten: stop it first, for good")


def plan_of(seen: ClusterLoad, broker: int) -> ForgetPlan:
    """Return what giving up this broker means, which is not registered. Raises Refusal where nothing names it, and
    ZnodeUnreadable where the trash cannot be listed."""
    if seen.trash_unseen is not None:
        raise seen.trash_unseen
    load, debts = seen.loads.get(broker), seen.debts.get(broker)
    unread = [name for name in seen.views.there.names if name in seen.views.problems]
    in_trash = seen.in_trash(broker)
    if load is None and debts is None and not seen.debts_unseen and not unread:
        raise Refusal(_nothing_to_forget(broker, in_trash))
    load = load or BrokerLoad(broker)
    living = [
        partition
        for partition, assignment in seen.views.assignments.items()
        if broker in assignment.replicas and seen.fates.get(partition.topic) is not MarkedFate.ENDING
    ]
    unclear = frozenset(name for name, fate in seen.fates.items() if fate is MarkedFate.UNKNOWN)
    live, isr = seen.views.brokers, seen.views.isr
    lost = frozenset(each for each in living if each not in load.unseen and no_other_in_sync(broker, isr(each), live))
    unknown = frozenset((*load.unseen, *(partition for partition in living if partition.topic in unclear)))
    return ForgetPlan(
        broker,
        debts,
        tuple(each for each in seen.debts_unseen if _may_concern(each, broker)),
        tuple(load.deletions),
        tuple(name for name in load.deletions if seen.fates.get(name) is not MarkedFate.ENDING),
        tuple(partition for partition in living if partition in lost and partition not in unknown),
        tuple(partition for partition in living if partition not in lost and partition not in unknown),
        (
            *(str(each) for each in living if each in unknown and (each in lost or each in load.unseen)),
            *unread,
            *seen.unread_in_trash,
        ),
        in_trash,
        seen.only_here_in_trash(broker),
        _also_elsewhere(seen, load),
        by_rescue=not seen.acting.is_lethe,
    )


def _also_elsewhere(seen: ClusterLoad, load: BrokerLoad) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return the topics in deletion of this broker that other absent brokers have too, each with these brokers."""
    others = [each for each in seen.missing if each.broker != load.broker]
    ending = (name for name in load.deletions if seen.fates.get(name) is MarkedFate.ENDING)
    found = ((name, tuple(each.broker for each in others if name in each.deletions)) for name in ending)
    return tuple((name, brokers) for name, brokers in found if brokers)


def _nothing_to_forget(broker: int, in_trash: tuple[str, ...]) -> str:
    """Return why the broker is not forgotten. With topics in the trash a request would be answered at once, and change
    nothing."""
    why = f"neither assignments nor debts name broker {broker}: there is nothing to forget"
    if not in_trash:
        return why
    look = f"see lethe explain {operand(in_trash[0])}, and forget it once they do"
    return f"{why} yet. {_will_wait(broker, in_trash)}: {look}"


def _will_wait(broker: int, in_trash: tuple[str, ...]) -> str:
    names = listed(in_trash, SHOWN)
    return f"In the trash: {names}. These deletions have not begun, and will wait for broker {broker}, or owe it"


def _may_concern(unseen: UnseenDebts, broker: int) -> bool:
    mine = paths.debts_of(broker)
    return unseen.path in (paths.debts(), mine) or unseen.path.startswith(f"{mine}/")


async def forget(
    session: ZooKeeperSession,
    broker: int,
    *,
    timeout_ms: int,
    poll_ms: int = POLL_MS,
    stopping: asyncio.Event | None = None,
) -> Outcome:
    """Request that the controller forgets the broker, and return its answer. A request that is not answered in time, or
    before `stopping` is set, is withdrawn."""
    await ensure_roots(session, (paths.LETHE, paths.FORGET))
    if stopping is not None and stopping.is_set():
        return Outcome(str(broker), f"broker {broker}: {EARLY}")
    with named_when_lost([paths.forget(broker)]):
        requested = await _request(session, broker)
        if requested.problem is not None:
            return requested
        began = time.monotonic()
        while True:
            answer = await _answer(session, broker)
            waited_s = time.monotonic() - began
            if answer is None and (waited_s >= timeout_ms / 1000 or (stopping is not None and stopping.is_set())):
                answer = await _withdraw(session, broker, waited_s)
            if answer is not None:
                return answer
            await asyncio.sleep(poll_ms / 1000)


class UnseenDeletion(NamedTuple):
    """A topic of which it was not seen whether its deletion has ended: this znode could not be read."""

    topic: str
    path: str
    why: str


class NotBegun(NamedTuple):
    """Topics that are still marked, or in the trash, and those that may be."""

    topics: tuple[str, ...] = ()
    unseen: tuple[UnseenDeletion, ...] = ()

    def unseen_lines(self) -> tuple[str, ...]:
        """Return what could not be seen, a line for each reason."""
        groups: dict[str, list[UnseenDeletion]] = {}
        for each in self.unseen:
            groups.setdefault(each.why, []).append(each)
        return tuple(
            f"Whether the {plural(len(group), 'deletion')} of {listed([each.topic for each in group], SHOWN)} "
            f"{plural(len(group), 'has', 'have')} ended was not seen: {group[0].path} cannot be read: {why}."
            for why, group in groups.items()
        )

    def unseen_json(self) -> JsonValue:
        """Return what could not be seen as data."""
        return [{"topic": each.topic, "path": each.path, "why": each.why} for each in self.unseen]


NOTHING_WAITS: Final = NotBegun()


async def not_begun(session: ZooKeeperSession, marked: Sequence[str], in_trash: Sequence[str] = ()) -> NotBegun:
    """Return those of these topics that are still marked, or in the trash. After a request was carried out, these are
    topics whose deletion has not begun: it is not in force for them any more."""
    names = (*marked, *in_trash)
    wanted = (*map(paths.delete_topic, marked), *map(paths.trashed, in_trash))
    found = await session.read([Exists(path) for path in wanted]) if wanted else ()
    there: dict[str, None] = {}
    unseen: dict[str, UnseenDeletion] = {}
    for name, path, outcome in zip(names, wanted, found, strict=True):
        if (error := read_error(outcome)) is not None:
            unseen.setdefault(name, UnseenDeletion(name, path, error_words(error)))
        elif not is_absent(outcome):
            there[name] = None
    return NotBegun(tuple(there), tuple(each for each in unseen.values() if each.topic not in there))


async def _request(session: ZooKeeperSession, broker: int) -> Outcome:
    """Create the request, in place of one that was refused or cannot be understood; join one that waits."""
    path, wanted, name = paths.forget(broker), encode_forget_request(ForgetRequest()), str(broker)
    for _ in range(MAX_ATTEMPTS):
        before = await read_data(session, path)
        if before is not None and before.data == wanted:
            return Outcome(name, was_done=True)
        create = Create(path, wanted)
        operations: list[Operation] = [create] if before is None else [Delete(path, before.stat.version), create]
        outcome = await session.multi(operations)
        if is_conflict(outcome):
            continue
        act, done = f"request that broker {broker} is forgotten", f"broker {broker} was requested to be forgotten"
        found = outcome_of(name, outcome, act=act, done=done)
        return replace(found, problem=f"{found.problem}; {may_stand([path])}") if found.is_unknown else found
    return given_up(name, f"the request to forget broker {broker}")


async def _answer(session: ZooKeeperSession, broker: int) -> Outcome | None:
    """Return what the controller has answered; None if it has not."""
    (request,) = await session.read([GetData(paths.forget(broker))])
    if is_absent(request):
        return await _forgotten(session, broker)
    if not isinstance(request, Data):
        return None
    try:
        refused = decode_forget_request(broker, request.data).refused
    except MalformedZnode as malformed:
        refused = f"another process has replaced the request: {malformed}"
    if refused is None:
        return None
    gone = await session.multi([Delete(paths.forget(broker), request.stat.version)])
    stays = "" if gone != MultiFailed(0, ZkError.BAD_VERSION) else " (another process has requested it again)"
    return Outcome(str(broker), f"broker {broker} is not forgotten: {refused}{stays}")


async def _forgotten(session: ZooKeeperSession, broker: int) -> Outcome:
    """Return the outcome of a request that is gone: carried out, unless debts are left. Another command that shares the
    request may have withdrawn it."""
    left = await read_debts_of(session, [BrokerId(broker)])
    for unseen in left.unseen:
        why = f"{unseen.path} stays, and is unseen ({unseen.reason})"
        return Outcome(str(broker), f"whether broker {broker} is forgotten is unknown: {why}", is_unknown=True)
    for owing in by_broker(left.debts):
        why = f"its request is gone, and it still owes {owing.text}: another process may have withdrawn the request"
        return Outcome(str(broker), f"broker {broker} is not forgotten: {why}", is_unknown=True)
    return Outcome(str(broker))


async def _withdraw(session: ZooKeeperSession, broker: int, waited_s: float) -> Outcome | None:
    """Remove the request; None if it was answered in this moment."""
    outcome = await session.multi([Delete(paths.forget(broker), 0)])
    if isinstance(outcome, MultiFailed) and outcome.error in (ZkError.NO_NODE, ZkError.BAD_VERSION):
        return None
    withdrawn = (
        f"the controller was not done with it after {waited_s:.3g} s, and the request is withdrawn: deletions that "
        "have not ended wait for it again"
    )
    found = outcome_of(str(broker), outcome, act="withdraw the request", done="the request was withdrawn")
    why = withdrawn if found.problem is None else f"{found.problem}; {may_stand([paths.forget(broker)])}"
    return Outcome(str(broker), f"broker {broker} is not forgotten: {why}", is_unknown=True)
