"""Raises `/controller_epoch` above the epochs that brokers refuse.

Brokers store the highest controller epoch that they have seen, until they restart. ZooKeeper may have a lower one: it
was restored from a backup, a migration to KRaft was rolled back, or a user wrote the znode. Then brokers refuse every
elected controller with STALE_CONTROLLER_EPOCH, for as many elections as the difference. Kafka's controller stays active
without power. This one first checks whether another controller was elected: if `/controller` or `/controller_epoch` is
not its own, it resigns. Else it raises the epoch and begins a new term.

The answer does not contain the broker's epoch, so the raise grows: by 1, 4, 16, ... each time brokers refuse again.
Each raise is one multi that checks `/controller` and the version of `/controller_epoch`. So no two controllers share an
epoch, and a crash at any point leaves an ordinary election.

    brokers refuse 6, they have 8      6 -> 7 (refused) -> 11: obeyed after two raises

Brokers that the controller had nothing to tell may refuse it too. While at most half refuse, those that have not
answered since the first refusal are sent the live brokers, once: their answers count.

    broker 4 refuses; 1, 2 and 3 obeyed an hour ago      1, 2 and 3 are asked, refuse too: the epoch is raised

Limits:

* More than half of the registered brokers must refuse; silent brokers do not count. A single broker that refuses while
  others obey was restored or received a forged epoch: it is shown, and a restart cures it.
* The epoch is never raised above `HIGHEST`: half of the epochs stay for elections, even after a forged request.
* One episode of raises runs at once; the next one waits for an interval, which doubles up to a maximum. So two
  controllers that outbid each other (two ZooKeeper ensembles with the same brokers) spend a few epochs an hour.
"""

from __future__ import annotations

from typing import Final

from lethe.controller.core.context import Context
from lethe.controller.core.power import refusing_epoch
from lethe.controller.core.resigning import resign
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks import StandForElection
from lethe.controller.core.tasks_power import EpochRaised
from lethe.protocol.back_off import BackOff
from lethe.protocol.counting import counted
from lethe.protocol.vocabulary import BrokerId, ControllerEpoch
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Check, SetData
from lethe.protocol.zookeeper.packing import GroupDone, GroupOutcome

HIGHEST: Final = 1 << 30
"""No epoch is raised above this one."""
_WHAT: Final = "raising /controller_epoch"


def consider(step: StepContext, version: int) -> None:
    """Raise the epoch of this term if most registered brokers refuse it.

    `/controller`, of this version, and `/controller_epoch` have just been read and are this controller's."""
    context = step.context
    brokers = refusing_epoch(context)
    if not brokers or context.cluster.leaving is not None:
        # Who gives control up for good is not elected again: a raise would end its term before its wait is over.
        return
    problem = _problem(context, brokers, step.now_ms)
    if problem is not None:
        if problem != context.raises.problem:
            context.raises.problem = problem
            step.refuse(f"controller/{context.config.controller_id}", _WHAT, problem)
        step.watch_power()
        _ask(step, _not_asked_since(context, brokers))
        return
    epoch = next_epoch(context)
    data = znodes.encode_controller_epoch(epoch)
    # Counted before the outcome is known: a raise whose reply is lost may have been applied.
    _note_raise(context, step.now_ms)
    group = (Check(paths.controller(), version), SetData(paths.controller_epoch(), data, context.cluster.epoch_version))
    step.write([group], EpochRaised(epoch), fenced=False)


def _problem(context: Context, brokers: tuple[BrokerId, ...], now_ms: int) -> str | None:
    """Return why the epoch is not raised, with the remedy; None: raise it now."""
    raises, registered, epoch = context.raises, context.cluster.brokers, context.cluster.epoch
    named = ", ".join(map(str, brokers))
    if 2 * len(brokers) <= len(registered):
        return (
            f"only {len(brokers)} of {counted(len(registered), 'registered broker')} refuse epoch {epoch} as stale: "
            f"restart broker {named}, which then takes the epoch that ZooKeeper says"
        )
    if epoch >= HIGHEST:
        return (
            f"brokers {named} refuse even epoch {epoch}, the highest that is tried: a process has sent them a "
            "forged one; restart them to clear it"
        )
    if not raises.leaps and now_ms < (due_ms := raises.due_ms(_interval(context))):
        return (
            f"brokers {named} refuse epoch {epoch} as stale again; the epoch was raised recently and is "
            f"raised again in {(due_ms - now_ms) // 60_000 + 1} min at most: see which other controller sends to them"
        )
    return None


def _not_asked_since(context: Context, refusing: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
    """Return brokers whose last answer is older than the first of these refusals, and who owe none."""
    cluster = context.cluster
    since_ms = min(cluster.last_answers[broker].since_ms for broker in refusing)
    owing = {outstanding.broker for outstanding in cluster.outstanding.values()}
    return tuple(
        broker
        for broker in cluster.brokers
        if broker not in owing and ((last := cluster.last_answers.get(broker)) is None or last.at_ms < since_ms)
    )


def _ask(step: StepContext, brokers: tuple[BrokerId, ...]) -> None:
    """Send these brokers the live brokers, without partitions."""
    batch = step.batch()
    batch.add_update_metadata(brokers)
    step.flush(batch)


def _interval(context: Context) -> BackOff:
    return BackOff(context.config.takeover_interval_ms, context.config.takeover_interval_max_ms)


def next_epoch(context: Context) -> ControllerEpoch:
    """Return the epoch of the next raise."""
    return ControllerEpoch(min(HIGHEST, context.cluster.epoch + 4**context.raises.leaps))


def _note_raise(context: Context, now_ms: int) -> None:
    raises = context.raises
    if not raises.leaps:
        forgotten = (
            raises.began_ms is not None and now_ms - raises.began_ms >= 2 * context.config.takeover_interval_max_ms
        )
        raises.episodes = 1 if forgotten else raises.episodes + 1
        raises.began_ms = now_ms
    raises.leaps += 1
    raises.problem = None


def on_epoch_raised(step: StepContext, task: EpochRaised, outcome: GroupOutcome) -> None:
    """Resign, and stand for election again under the raised epoch; after a failure, look at `/controller` again."""
    context = step.context
    if isinstance(outcome, GroupDone):
        brokers = ", ".join(map(str, refusing_epoch(context)))
        refused = context.cluster.epoch
        resign(step, f"/controller_epoch is raised to {task.epoch}, since brokers {brokers} refuse {refused} as stale")
    context.tasks.append(StandForElection())
