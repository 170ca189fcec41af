"""Taking control from a controller that holds it: whether, and how often.

Theory of operation. A controller of Kafka that is wedged keeps its session, and with it `/controller`, for as long as
its process answers ZooKeeper's pings: nobody else is elected, and what it does not do is not done. Who is told to may
take `/controller` from it. That is the same write as an election, with the holder's znode deleted in front: one multi
which checks that `/controller_epoch` still has the version that was read *before* the holder was. No two tenures share
that version, so that control is taken from the controller that was looked at or from nobody.

Never taken from: another Lethe controller (it says in `/controller` that it is one: two that stand by for each other
are no rivals), a KRaft controller, and one whose `/controller` cannot be understood.

Two who insist must not take turns. Between one taking and the next of the same process lies an interval, which doubles
with each taking up to a longest one. It begins anew only after twice the longest: two who insist at the longest
interval never get there.

What counts as a taking is a write that was applied, or may have been: where its reply was lost nobody knows. A race
that was lost to another one's election changed nothing and does not count.
"""

from __future__ import annotations

from controller.core.config import CoreConfig, Takeover
from controller.core.context import Context
from protocol.back_off import BackOff
from protocol.zookeeper.znodes import ControllerZnode


def may_be_taken_from(holder: ControllerZnode) -> bool:
    """Whether the holder is one of Kafka's own controllers in ZooKeeper mode."""
    return holder.admin is None and holder.kraft_epoch <= 0


def due_ms(context: Context, now_ms: int) -> int | None:
    """When control may be taken, `now_ms` at the earliest; None: never."""
    taken_at_ms = context.takings.last_ms
    match context.config.takeover:
        case Takeover.NEVER:
            return None
        case Takeover.ONCE:
            return now_ms if taken_at_ms is None else None
        case Takeover.ALWAYS:
            if taken_at_ms is None:
                return now_ms
            return max(now_ms, taken_at_ms + interval_ms(context.config, context.takings.count))


def interval_ms(config: CoreConfig, count: int) -> int:
    """How long to wait after so many takings, from the latest of them."""
    return BackOff(config.takeover_interval_ms, config.takeover_interval_max_ms).wait_ms(count)


def note_taken(context: Context, now_ms: int) -> None:
    """Control was taken, or may have been."""
    takings = context.takings
    before_ms = takings.last_ms
    settled = before_ms is not None and now_ms - before_ms >= 2 * context.config.takeover_interval_max_ms
    takings.count = 1 if settled else takings.count + 1
    takings.last_ms = now_ms
