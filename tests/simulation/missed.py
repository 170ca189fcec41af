"""What an agent deletes before it registers, of what it missed while it was away: as `broker.runtime.missed_deletions`.

In some of the runs with debts agents do so; in the others they leave it to the controller, as Kafka's brokers do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lethe.broker.core.inputs import DebtsRead, FoundDebt
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    Children,
    Data,
    Delete,
    Exists,
    GetChildren,
    GetData,
    MultiOutcome,
    ReadOutcome,
    is_absent,
)
from tests.simulation.ensemble import Client, Writer
from tests.simulation.znodes_read import topic_id_answer

if TYPE_CHECKING:
    from tests.simulation.agents import AgentProcess

Then = Callable[[], None]


class MissedDeletions:
    """Those of one run of an agent. Where its session is lost meanwhile, the next one begins anew."""

    def __init__(self, agent: AgentProcess) -> None:
        self._agent = agent
        self._done = False
        self._settle: Callable[[Sequence[FoundDebt]], None] | None = None

    def catch_up(self, client: Client, then: Then) -> None:
        """Delete what is owed, remove the debts, and go on with `then`."""
        if self._done:
            then()
            return

        def listed(outcomes: tuple[ReadOutcome, ...]) -> None:
            (outcome,) = outcomes
            children = sorted(outcome.names) if isinstance(outcome, Children) else ()
            if children:
                reads = tuple(GetData(f"{paths.debts_of(self._agent.id)}/{child}") for child in children)
                client.read(reads, lambda read: self._read(client, children, read, then))
            else:
                self._finish(then)

        client.read((GetChildren(paths.debts_of(self._agent.id)),), listed)

    def _read(self, client: Client, children: Sequence[str], outcomes: Sequence[ReadOutcome], then: Then) -> None:
        found: list[tuple[str, int, znodes.Debt]] = []
        for child, outcome in zip(children, outcomes, strict=True):
            named = paths.debt_named(child)
            if isinstance(outcome, Data) and named is not None:
                found.append((*named, znodes.decode_debt(self._agent.id, child, outcome.data)))
        topics = tuple(GetData(paths.topic(name)) for name, _, _ in found)
        trash = tuple(Exists(paths.trashed(name)) for name, _, _ in found)

        def topics_read(seen: tuple[ReadOutcome, ...]) -> None:
            owed = tuple(
                FoundDebt(
                    name,
                    created_zxid,
                    debt.topic_id,
                    debt.partitions,
                    debt.since_ms,
                    debt.size_bytes,
                    topic_id_answer(name, topic),
                    not is_absent(trashed),
                )
                for (name, created_zxid, debt), topic, trashed in zip(
                    found, seen[: len(found)], seen[len(found) :], strict=True
                )
            )
            self._settle = lambda settled: self._remove(client, settled, then)
            self._agent.feed(DebtsRead(owed))

        if found:
            client.read((*topics, *trash), topics_read)
        else:
            self._finish(then)

    def note_settled(self, settled: Sequence[FoundDebt]) -> None:
        """The core's answer to what was fed; a second one for the same is nothing."""
        settle, self._settle = self._settle, None
        if settle is not None:
            settle(settled)

    def _remove(self, client: Client, settled: Sequence[FoundDebt], then: Then) -> None:
        if not settled:
            self._finish(then)
            return
        path = paths.debt(self._agent.id, settled[0].topic, settled[0].created_zxid)

        def removed(_: MultiOutcome) -> None:
            self._remove(client, settled[1:], then)

        client.multi((Delete(path),), Writer(self._agent.name), removed)

    def _finish(self, then: Then) -> None:
        self._done = True
        then()
