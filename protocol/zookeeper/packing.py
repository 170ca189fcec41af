"""Packing of many atomic groups of operations into few fenced multis, with one outcome per group.

Theory of operation. The operations of a *group* must be applied together or not at all. A *multi* is what ZooKeeper
applies atomically. Hundreds of groups in one multi make writing fast, but one stale group fails the whole multi, and
nothing is applied. The plan then gives that group its error and plans the others again, in multis of half the size: so
many stale groups are found in a few rounds, instead of one per round.

    plan = MultiPlan(groups, fence=Check("/controller_epoch", version))
    while there is room in the pipeline and (multi := plan.next_multi()): send it
    whenever an outcome arrives: plan.settle(multi, outcome)
    until plan.is_done; then read plan.outcomes and plan.controller_moved

Example: groups A, B, C in one multi, where B is stale.

    send [fence, A, B, C]      MultiFailed(2, BAD_VERSION)      B: GroupFailed(0, BAD_VERSION)
    send [fence, A]            MultiDone                        A: GroupDone
    send [fence, C]            MultiDone                        C: GroupDone

Every multi begins with the fence. If the fence fails, nothing was applied, control is lost, and every unsent group ends
as FenceFailed. If a reply is lost, the groups of that multi are GroupUnknown and are not sent again: only a read shows
whether they were applied.

Order: groups are first sent in their order, within and between multis. But several multis may be in flight, and a later
one does not wait for an earlier one's success. Operations that depend on each other belong in one group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from operator import attrgetter
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
    error_words,
)

Group = tuple[Operation, ...]

DEFAULT_MAX_OPERATIONS: Final = 64
"""ZooKeeper holds its last 500 transactions in memory; for partitions 140 (deletes) to 530 bytes per operation."""
DEFAULT_MAX_BYTES: Final = 24 * 1024
"""It holds them three times, as request, transaction and log record: 500 of this size take 37 MB."""
REQUEST_LIMIT_BYTES: Final = 1_000_000
"""Size limit of a group alone in its multi: slightly below the default `jute.maxbuffer` of 1,048,575."""

_MAX_PATH_SHOWN: Final = 300
_MULTI_OVERHEAD_BYTES: Final = 4 + 8 + 9
_OPERATION_BYTES: Final = 9 + 8
"""Header of an operation, the length of its path and its version."""
_ACL_BYTES: Final = 64
_PATH: Final = attrgetter("path")
_WITHOUT_DATA: Final = frozenset((Delete, Check))
_WITH_DATA: Final = (Create, SetData)
_FIXED_BYTES: Final = {
    Create: _OPERATION_BYTES + 4 + _ACL_BYTES + 4,
    SetData: _OPERATION_BYTES + 4,
    Delete: _OPERATION_BYTES,
    Check: _OPERATION_BYTES,
}
"""Size of an operation without its path and its data."""


class GroupDone(NamedTuple):
    """The whole group was applied. `stats` are as in MultiDone, for the group's operations only."""

    stats: tuple[Stat | None, ...]


class GroupFailed(NamedTuple):
    """Nothing of the group was applied: operation `index_in_group` (-1: the whole request) failed with `error`."""

    index_in_group: int
    error: ZkError


class GroupUnknown(NamedTuple):
    """The reply was lost: either the whole group was applied, or nothing."""

    reason: str


class FenceFailed(NamedTuple):
    """Nothing of the group was applied: the plan's fence failed with `error`, so the controller has moved."""

    error: ZkError


GroupOutcome = GroupDone | GroupFailed | GroupUnknown | FenceFailed


def write_failure_words(outcome: GroupOutcome) -> str:
    """Return why a group is not known to be applied, in the words of `error_words`."""
    return error_words(outcome.error) if isinstance(outcome, GroupFailed) else "its outcome is not known"


class PlannedMulti(NamedTuple):
    """One request: the fence, if any, and whole groups. `groups` are their indexes in the plan."""

    operations: tuple[Operation, ...]
    groups: tuple[int, ...]
    max_operations: int


class _Run(NamedTuple):
    """Groups to send, in order, in multis of at most `max_operations`."""

    groups: deque[int]
    max_operations: int


class MultiPlan:
    """Plan of multis for a list of groups, and their outcomes so far.

    `fence` is checked first in every multi; None for a writer that is no controller. A group of more than
    `max_operations` gets its own multi. One that no request can hold is not sent and fails with MARSHALLING. That is no
    fault: clients choose how long their settings are. Raises ValueError for an empty group.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        fence: Check | None,
        *,
        max_operations: int = DEFAULT_MAX_OPERATIONS,
        max_bytes: int = DEFAULT_MAX_BYTES,
    ) -> None:
        self.groups: Final = tuple(groups)
        self.fence: Final = fence
        self._max_bytes = max_bytes
        self._fence_bytes = _MULTI_OVERHEAD_BYTES + (operation_bytes(fence) if fence else 0)
        self._sizes = [_size(number, group) for number, group in enumerate(self.groups)]
        limit_bytes = REQUEST_LIMIT_BYTES - self._fence_bytes
        sent = deque(number for number, size in enumerate(self._sizes) if size <= limit_bytes)
        self._waiting: deque[_Run] = deque([_Run(sent, max_operations)] if sent else [])
        self._in_flight: list[PlannedMulti] = []
        self._outcomes: list[GroupOutcome | None] = [None] * len(self.groups)
        self._fence_error: ZkError | None = None
        too_large = [number for number, size in enumerate(self._sizes) if size > limit_bytes]
        self._conclude(too_large, GroupFailed(-1, ZkError.MARSHALLING))
        self.refusals: Final = tuple(self._too_large(number, limit_bytes) for number in too_large)
        """Which groups are not sent because no request can hold them."""

    @property
    def controller_moved(self) -> bool:
        """True once the fence has failed: control is lost."""
        return self._fence_error is not None

    @property
    def has_unsent(self) -> bool:
        """True while `next_multi` has a request."""
        return bool(self._waiting)

    @property
    def is_done(self) -> bool:
        """True if every group has its outcome."""
        return not self._waiting and not self._in_flight

    @property
    def outcomes(self) -> tuple[GroupOutcome, ...]:
        """Outcomes in the groups' order. Raises ValueError before the plan is done."""
        found = tuple(outcome for outcome in self._outcomes if outcome is not None)
        if len(found) != len(self.groups):
            raise ValueError(
                f"{len(self.groups) - len(found)} of "
                f"{counted(len(self.groups), 'group has', 'groups have')} no outcome yet"
            )
        return found

    def next_multi(self) -> PlannedMulti | None:
        """Return the next request, which then counts as in flight; None while there is none."""
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
        """Process the outcome of a multi from `next_multi`. Raises ValueError if it is not in flight."""
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
        """End all unsent groups as GroupUnknown. Multis in flight still have to settle."""
        for run in self._waiting:
            self._conclude(run.groups, GroupUnknown(reason))
        self._waiting.clear()

    def _settle_done(self, multi: PlannedMulti, outcome: MultiDone) -> None:
        at = 1 if self.fence else 0
        last = GroupDone(())
        for number in multi.groups:
            end = at + len(self.groups[number])
            # Groups of one multi mostly have equal stats: one object for all of them, as a plan may have 100,000.
            if outcome.stats[at:end] != last.stats:
                last = GroupDone(outcome.stats[at:end])
            self._outcomes[number] = last
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

    def _too_large(self, number: int, limit_bytes: int) -> str:
        group = self.groups[number]
        first = f"{type(group[0]).__name__} {group[0].path[:_MAX_PATH_SHOWN]}"
        takes = f"{counted(self._sizes[number], 'byte')} in {counted(len(group), 'operation')}"
        return f"group {number}, which begins with {first}, takes {takes}; one request holds {limit_bytes}"


def operation_bytes(operation: Operation) -> int:
    """Return the largest size of the operation in a multi request, without a chroot."""
    return group_bytes((operation,))


def group_bytes(group: Group) -> int:
    """Return the sum of `operation_bytes`. The groups of large deletions have deletes only, which need no loop."""
    if len(group) > 2 and _WITHOUT_DATA.issuperset(map(type, group)):
        return _OPERATION_BYTES * len(group) + _utf8_length("".join(map(_PATH, group)))
    size = 0
    for operation in group:
        path = operation.path
        size += _FIXED_BYTES[type(operation)] + (len(path) if path.isascii() else len(path.encode()))
        if isinstance(operation, _WITH_DATA) and operation.data:
            size += len(operation.data)
    return size


def _utf8_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _size(number: int, group: Group) -> int:
    if not group:
        raise ValueError(f"group {number} has no operations")
    return group_bytes(group)
