"""An agent's proposal of ISR members in the simulated world: read, write back, notify, all through ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable

from lethe.broker.core.effects import IsrChange, ProposeIsr
from lethe.broker.core.inputs import IsrOutcome, IsrVerdict
from lethe.broker.core.isr_update_paths import accepted_partitions, judge_write, plan_write, unanswered
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    Create,
    GetData,
    MultiDone,
    MultiFailed,
    MultiOutcome,
    ReadOutcome,
    SetData,
)
from tests.simulation.ensemble import Client, Writer

Then = Callable[[tuple[IsrOutcome, ...]], None]


class IsrProposal:
    """One proposal on its way; `then` gets its outcomes once, unless the session is lost before."""

    def __init__(self, client: Client, broker: BrokerId, name: str, proposal: ProposeIsr, then: Then) -> None:
        self._client = client
        self._broker = broker
        self._writer = Writer(name)
        self._changes = proposal.changes
        self._then = then
        self._outcomes: dict[int, IsrOutcome] = {}
        self._writes: list[tuple[int, SetData, tuple[int, ...]]] = []

    def start(self) -> None:
        """Read what there is."""
        reads = [GetData(path) for change in self._changes for path in _paths_of(change)]
        self._client.read(tuple(reads), self._read)

    def give_up(self) -> tuple[IsrOutcome, ...]:
        """What is known where no answer came."""
        return unanswered(self._changes, "no answer in time")

    def _read(self, found: tuple[ReadOutcome, ...]) -> None:
        for index, change in enumerate(self._changes):
            planned = plan_write(change, self._broker, found[2 * index], found[2 * index + 1])
            if isinstance(planned, IsrOutcome):
                self._outcomes[index] = planned
            else:
                self._writes.append((index, *planned))
        self._write_next()

    def _write_next(self) -> None:
        if not self._writes:
            self._notify()
            return
        index, operation, isr = self._writes.pop(0)
        self._client.multi((operation,), self._writer, lambda outcome: self._written(index, isr, outcome))

    def _written(self, index: int, isr: tuple[int, ...], outcome: MultiOutcome) -> None:
        judged: IsrOutcome | None = None
        match outcome:
            case MultiDone(stats=(stat, *_)) if stat is not None:
                judged = IsrOutcome(IsrVerdict.ACCEPTED, isr, stat.version)
            case MultiFailed(error=error):
                judged = judge_write(error)
            case _:
                pass
        self._outcomes[index] = judged or IsrOutcome(IsrVerdict.UNANSWERED, reason="not known, or written in between")
        self._write_next()

    def _notify(self) -> None:
        outcomes = tuple(self._outcomes[index] for index in range(len(self._changes)))
        partitions = accepted_partitions(self._changes, outcomes)
        if not partitions:
            self._then(outcomes)
            return
        data = znodes.encode_isr_change(partitions)
        operation = Create(paths.isr_change_notification(), data, sequential=True)
        self._client.multi((operation,), self._writer, lambda outcome: self._notified(outcomes, outcome))

    def _notified(self, outcomes: tuple[IsrOutcome, ...], outcome: MultiOutcome) -> None:
        told = isinstance(outcome, MultiDone)
        self._then(outcomes if told else unanswered(self._changes, "the controller was perhaps not notified"))


def _paths_of(change: IsrChange) -> tuple[str, str]:
    name, partition = change.topic_partition
    return paths.topic(name), paths.partition_state(name, partition)
