"""Many atomic groups of operations become few fenced multis, and each group gets its own outcome.

Theory of operation. A *group* is what must happen together or not at all; a *multi* is what ZooKeeper applies
together. Putting hundreds of groups into one multi is what makes writing fast, but one stale group makes the whole
multi fail, with nothing applied. The plan then sets that group apart with its error and plans the others again, in
smaller multis (half the size, so that many stale groups are found in a few rounds instead of one per round).

    plan = MultiPlan(groups, fence=Check("/controller_epoch", version))
    while there is room in the pipeline and (multi := plan.next_multi()): send it
    whenever an outcome arrives: plan.settle(multi, outcome)
    until plan.is_done; then read plan.outcomes and plan.controller_moved

Every multi begins with the fence. Where the fence fails, nothing was applied, control is lost, and whatever has not
been sent ends as FenceFailed. Where a reply is lost, the groups of that multi are GroupUnknown and are not sent again:
whether they were applied has to be read.

Order: groups keep their order within and between multis as they are first sent, but several multis may be in flight,
and a later one does not wait for an earlier one's success. What must not happen without another belongs into its group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from lethe.protocol.counting import counted
from lethe.protocol.zookeeper.operations import (
    Check,
    Create,
    Delete,
    MultiDone,
    MultiFailed,
    MultiOutcome,
    MultiUnknown,
    Operation,
    SetData,
    Stat,
    ZkError,
)

Group = tuple[Operation, ...]

DEFAULT_MAX_OPERATIONS: Final = 500
DEFAULT_MAX_BYTES: Final = 512 * 1024
"""Half of ZooKeeper's default `jute.maxbuffer`: room for a chroot before every path."""
REQUEST_LIMIT_BYTES: Final = 1_000_000
"""What a single group may take, alone in its multi: a little less than the default `jute.maxbuffer` of 1,048,575."""

_MULTI_OVERHEAD_BYTES: Final = 4 + 8 + 9
_OPERATION_HEADER_BYTES: Final = 9
_ACL_BYTES: Final = 64


class GroupDone(NamedTuple):
    """All of the group was applied. `stats` and `paths` are as in MultiDone, of the group's operations only."""

    stats: tuple[Stat | None, ...]
    paths: tuple[str, ...]
    zxid: int = -1


class GroupFailed(NamedTuple):
    """Nothing of the group was applied: its operation `index_in_group` (or, if -1, the whole request) met `error`."""

    index_in_group: int
    error: ZkError


class GroupUnknown(NamedTuple):
    """The reply was lost: all of the group was applied, or nothing."""

    reason: str


class FenceFailed(NamedTuple):
    """Nothing of the group was applied, because the plan's fence failed with `error`: the controller has moved."""

    error: ZkError


GroupOutcome = GroupDone | GroupFailed | GroupUnknown | FenceFailed


class PlannedMulti(NamedTuple):
    """One request to send: the fence, if any, and then whole groups. `groups` are their numbers in the plan."""

    operations: tuple[Operation, ...]
    groups: tuple[int, ...]
    max_operations: int


class _Run(NamedTuple):
    """Groups that wait to be sent, in order, in multis of at most so many operations."""

    groups: deque[int]
    max_operations: int


class MultiPlan:
    """How a list of groups goes to ZooKeeper; holds the outcomes as they become known.

    `fence` is checked first in every multi; None for writers that are no controllers. A group of more than
    `max_operations` has a multi to itself. Raises ValueError for an empty group or one that no request can hold.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        fence: Check | None,
        *,
        max_operations: int = DEFAULT_MAX_OPERATIONS,
        max_bytes: int = DEFAULT_MAX_BYTES,
        limit_bytes: int = REQUEST_LIMIT_BYTES,
    ) -> None:
        self.groups: Final = tuple(groups)
        self.fence: Final = fence
        self._max_bytes = max_bytes
        self._fence_bytes = _MULTI_OVERHEAD_BYTES + (operation_bytes(fence) if fence else 0)
        self._sizes = [_checked_size(n, g, limit_bytes - self._fence_bytes) for n, g in enumerate(self.groups)]
        self._waiting: deque[_Run] = deque([_Run(deque(range(len(self.groups))), max_operations)] if groups else [])
        self._in_flight: list[PlannedMulti] = []
        self._outcomes: list[GroupOutcome | None] = [None] * len(self.groups)
        self._fence_error: ZkError | None = None

    @property
    def controller_moved(self) -> bool:
        """True once the fence has failed: control is lost, whatever else happened."""
        return self._fence_error is not None

    @property
    def is_done(self) -> bool:
        """True when every group has its outcome."""
        return not self._waiting and not self._in_flight

    @property
    def outcomes(self) -> tuple[GroupOutcome, ...]:
        """One per group, in the groups' order. Raises ValueError before the plan is done."""
        found = tuple(outcome for outcome in self._outcomes if outcome is not None)
        if len(found) != len(self.groups):
            raise ValueError(
                f"{len(self.groups) - len(found)} of "
                f"{counted(len(self.groups), 'group has', 'groups have')} no outcome yet"
            )
        return found

    def next_multi(self) -> PlannedMulti | None:
        """The next request to send, which from then on is in flight; None while there is none."""
        if not self._waiting:
            return None
        run = self._waiting[0]
        chosen: list[int] = []
        operations: list[Operation] = [self.fence] if self.fence else []
        size = self._fence_bytes
        while run.groups:
            number = run.groups[0]
            group = self.groups[number]
            too_many = len(operations) + len(group) > run.max_operations + bool(self.fence)
            if chosen and (too_many or size + self._sizes[number] > self._max_bytes):
                break
            chosen.append(run.groups.popleft())
            operations.extend(group)
            size += self._sizes[number]
        if not run.groups:
            self._waiting.popleft()
        planned = PlannedMulti(tuple(operations), tuple(chosen), run.max_operations)
        self._in_flight.append(planned)
        return planned

    def settle(self, multi: PlannedMulti, outcome: MultiOutcome) -> None:
        """Takes the outcome of a multi that `next_multi` gave. Raises ValueError for one that is not in flight."""
        position = next((i for i, each in enumerate(self._in_flight) if each is multi), None)
        if position is None:
            raise ValueError("this multi is not in flight")
        del self._in_flight[position]
        match outcome:
            case MultiDone():
                self._settle_done(multi, outcome)
            case MultiUnknown(reason):
                self._conclude(multi.groups, GroupUnknown(reason))
            case MultiFailed(index, error):
                self._settle_failed(multi, index, error)

    def abandon(self, reason: str) -> None:
        """Gives up what has not been sent: those groups end as GroupUnknown. What is in flight still has to settle."""
        for run in self._waiting:
            self._conclude(run.groups, GroupUnknown(reason))
        self._waiting.clear()

    def _settle_done(self, multi: PlannedMulti, outcome: MultiDone) -> None:
        at = 1 if self.fence else 0
        for number in multi.groups:
            end = at + len(self.groups[number])
            self._outcomes[number] = GroupDone(outcome.stats[at:end], outcome.paths[at:end], outcome.zxid)
            at = end

    def _settle_failed(self, multi: PlannedMulti, index: int, error: ZkError) -> None:
        if index < 0:
            self._conclude(multi.groups, GroupFailed(index, error))
            return
        at = 0
        if self.fence:
            if index == 0:
                self._lose_control(multi, error)
                return
            at = 1
        rest: deque[int] = deque()
        for number in multi.groups:
            end = at + len(self.groups[number])
            if at <= index < end:
                self._outcomes[number] = GroupFailed(index - at, error)
            else:
                rest.append(number)
            at = end
        if len(rest) == len(multi.groups):
            raise ValueError(f"operation {index} of a multi of {at} cannot have failed")
        self._plan_again(rest, multi)

    def _plan_again(self, rest: deque[int], multi: PlannedMulti) -> None:
        if not rest:
            return
        if self._fence_error is not None:
            self._conclude(rest, FenceFailed(self._fence_error))
            return
        sent = sum(len(self.groups[number]) for number in multi.groups)
        self._waiting.appendleft(_Run(rest, max(1, min(sent, multi.max_operations) // 2)))

    def _lose_control(self, multi: PlannedMulti, error: ZkError) -> None:
        self._fence_error = error
        self._conclude(multi.groups, FenceFailed(error))
        for run in self._waiting:
            self._conclude(run.groups, FenceFailed(error))
        self._waiting.clear()

    def _conclude(self, groups: Sequence[int], outcome: GroupOutcome) -> None:
        for number in groups:
            self._outcomes[number] = outcome


def operation_bytes(operation: Operation) -> int:
    """What the operation takes in a multi request, at most, without a chroot."""
    size = _OPERATION_HEADER_BYTES + 8 + _utf8_length(operation.path)
    match operation:
        case Create(data=data):
            return size + 4 + len(data or b"") + _ACL_BYTES + 4
        case SetData(data=data):
            return size + 4 + len(data or b"")
        case Delete() | Check():
            return size


def _utf8_length(path: str) -> int:
    return len(path) if path.isascii() else len(path.encode())


def _checked_size(number: int, group: Group, limit_bytes: int) -> int:
    if not group:
        raise ValueError(f"group {number} has no operations")
    size = sum(map(operation_bytes, group))
    if size > limit_bytes:
        raise ValueError(
            f"group {number}, which begins with {type(group[0]).__name__} {group[0].path}, "
            f"takes {counted(size, 'byte')} in "
            f"{counted(len(group), 'operation')}; one request holds {limit_bytes}"
        )
    return size
