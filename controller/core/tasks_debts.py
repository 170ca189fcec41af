"""Tasks and continuations for debts and for the orders in deletion markers: see `tasks`."""

from __future__ import annotations

from dataclasses import dataclass

from lethe.controller.core.debt_memory import DebtKey
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper.znodes import Debt


@dataclass(frozen=True, slots=True)
class ReadDebts:
    """Read all debts, at a takeover; or what of the known debts of these brokers is left, which register."""

    brokers: tuple[BrokerId, ...] | None = None


@dataclass(frozen=True, slots=True)
class WatchOrders:
    """Read the markers of these queued topics again, and watch their data: they wait for brokers that are absent."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WriteDebts:
    """Write the debts of these topics, which are to be removed next."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PayDebts:
    """Ask those of these brokers that are registered about their debts."""

    brokers: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class CloseDebts:
    """Remove the znodes of those of these debts that are settled."""

    debts: tuple[DebtKey, ...]


@dataclass(frozen=True, slots=True)
class ReadForgets:
    """Read which brokers are to be given up."""


@dataclass(frozen=True, slots=True)
class SettleForgets:
    """Write off what is owed by brokers that are given up and that no queued topic names; then remove the requests."""


DebtTask = ReadDebts | WatchOrders | WriteDebts | PayDebts | CloseDebts | ReadForgets | SettleForgets


# --- continuations ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DebtorsListed:
    """After listing `/lethe/debts`."""


@dataclass(frozen=True, slots=True)
class DebtsListed:
    """After listing what each of these brokers owes."""

    brokers: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class DebtsLeftListed:
    """After listing what of the debts of these brokers is left."""

    brokers: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class DebtsRead:
    """After reading these children of `/lethe/debts/<broker>`, as (broker, child)."""

    children: tuple[tuple[BrokerId, str], ...]


@dataclass(frozen=True, slots=True)
class OrdersRead:
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DebtParentsCreated:
    """After creating `/lethe/debts/<broker>` for these brokers; then the debts of these topics are written."""

    brokers: tuple[BrokerId, ...]
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DebtsWritten:
    """After writing these debts, a group for each; then their topics are removed."""

    debts: tuple[tuple[DebtKey, Debt], ...]


@dataclass(frozen=True, slots=True)
class DebtsClosed:
    """After removing the znodes of these debts, a group for each."""

    debts: tuple[DebtKey, ...]


@dataclass(frozen=True, slots=True)
class ForgetsListed:
    pass


@dataclass(frozen=True, slots=True)
class ForgetsRead:
    brokers: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class DebtsWrittenOff:
    """After removing the znodes of these debts, and of those that cannot be understood, a group for each."""

    debts: tuple[DebtKey, ...]
    unreadable: tuple[str, ...] = ()
    """By path."""


@dataclass(frozen=True, slots=True)
class ForgetsAnswered:
    """After answering or removing the requests about these brokers."""

    brokers: tuple[BrokerId, ...]


DebtReadContinuation = (
    DebtorsListed | DebtsListed | DebtsLeftListed | DebtsRead | OrdersRead | ForgetsListed | ForgetsRead
)
DebtWriteContinuation = DebtParentsCreated | DebtsWritten | DebtsClosed | DebtsWrittenOff | ForgetsAnswered
