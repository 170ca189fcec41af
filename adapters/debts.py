"""Reads what brokers owe: `/lethe/debts/<broker>/<topic>@<czxid>`.

A debt that cannot be read or understood is no debt and not none: it is returned as such, with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    Children,
    Data,
    GetChildren,
    GetData,
    ReadOutcome,
    failure_words,
    is_absent,
)
from lethe.protocol.zookeeper.znodes import Debt, MalformedZnode, decode_debt


class OpenDebt(NamedTuple):
    """A debt with the place where it stands."""

    broker: BrokerId
    topic: str
    created_zxid: int
    debt: Debt
    version: int
    """Of the znode."""

    @property
    def path(self) -> str:
        return paths.debt(self.broker, self.topic, self.created_zxid)


class UnseenDebts(NamedTuple):
    """Debts that could not be read: one, those of a broker, or all."""

    path: str
    reason: str


class DebtsRead(NamedTuple):
    """All debts that were asked for, by broker and znode name."""

    debts: tuple[OpenDebt, ...] = ()
    unseen: tuple[UnseenDebts, ...] = ()


async def read_debts(session: ZooKeeperSession, topics: Collection[str] | None = None) -> DebtsRead:
    """Return the debts of all brokers, or of these topics; with what cannot be understood. Raises SessionLost."""
    (listed,) = await session.read([GetChildren(paths.debts())])
    if not isinstance(listed, Children):
        return DebtsRead(unseen=_unless_absent(paths.debts(), listed))
    numbers = {name: paths.broker_named(name) for name in listed.names}
    unseen = tuple(
        UnseenDebts(f"{paths.debts()}/{name}", "its name is no broker id")
        for name, number in numbers.items()
        if number is None
    )
    brokers = sorted(number for number in numbers.values() if number is not None)
    read = await read_debts_of(session, brokers, topics)
    return DebtsRead(read.debts, unseen + read.unseen)


async def read_debts_of(
    session: ZooKeeperSession, brokers: Sequence[BrokerId], topics: Collection[str] | None = None
) -> DebtsRead:
    """Return the debts of these brokers, as `read_debts`. Raises SessionLost."""
    unseen: list[UnseenDebts] = []
    wanted: list[tuple[BrokerId, str]] = []
    listings = await session.read([GetChildren(paths.debts_of(broker)) for broker in brokers]) if brokers else ()
    for broker, listed in zip(brokers, listings, strict=True):
        if isinstance(listed, Children):
            wanted.extend((broker, name) for name in sorted(listed.names) if _may_be_of(name, topics))
        else:
            unseen.extend(_unless_absent(paths.debts_of(broker), listed))
    read = await read_znodes(session, wanted)
    return DebtsRead(read.debts, (*unseen, *read.unseen))


async def read_znodes(session: ZooKeeperSession, wanted: Sequence[tuple[BrokerId, str]]) -> DebtsRead:
    """Return the debts that exist among these, by broker and znode name. Raises SessionLost."""
    found: list[OpenDebt] = []
    unseen: list[UnseenDebts] = []
    outcomes = await session.read([GetData(_path(*each)) for each in wanted]) if wanted else ()
    for (broker, name), outcome in zip(wanted, outcomes, strict=True):
        named = paths.debt_named(name)
        if not isinstance(outcome, Data):
            unseen.extend(_unless_absent(_path(broker, name), outcome))
            continue
        try:
            debt = decode_debt(broker, name, outcome.data)
        except MalformedZnode as malformed:
            unseen.append(UnseenDebts(malformed.path, malformed.reason))
            continue
        assert named is not None, "a debt is not decoded without it"
        found.append(OpenDebt(broker, *named, debt, outcome.stat.version))
    return DebtsRead(tuple(found), tuple(unseen))


def _may_be_of(name: str, topics: Collection[str] | None) -> bool:
    named = paths.debt_named(name)
    return topics is None or named is None or named[0] in topics


def _path(broker: BrokerId, name: str) -> str:
    return f"{paths.debts_of(broker)}/{name}"


def _unless_absent(path: str, outcome: ReadOutcome) -> tuple[UnseenDebts, ...]:
    if is_absent(outcome):
        return ()
    return (UnseenDebts(path, failure_words(outcome)),)
