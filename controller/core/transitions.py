"""States of replicas and partitions, and their legal transitions: data for the code, the docs and the tests.

Numbers are those of Kafka's state machines, which have no DeletionOwed. A replica or partition without an entry is
NonExistent. The other effects of a transition are in `replica_machine` and `partition_machine`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


class ReplicaState(enum.IntEnum):
    NEW = 1
    ONLINE = 2
    OFFLINE = 3
    DELETION_STARTED = 4
    DELETION_SUCCESSFUL = 5
    DELETION_INELIGIBLE = 6
    NON_EXISTENT = 7
    DELETION_OWED = 8
    """Not Kafka's: its broker is absent, and the deletion ends without it (`debts_policy`)."""


class PartitionState(enum.IntEnum):
    NEW = 0
    ONLINE = 1
    OFFLINE = 2
    NON_EXISTENT = 3


_R = ReplicaState
_P = PartitionState

REPLICA_TRANSITIONS: Final[Mapping[ReplicaState, frozenset[ReplicaState]]] = MappingProxyType(
    {
        _R.NEW: frozenset({_R.NON_EXISTENT}),
        _R.ONLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
        _R.OFFLINE: frozenset({_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE}),
        _R.DELETION_STARTED: frozenset({_R.OFFLINE}),
        _R.DELETION_SUCCESSFUL: frozenset({_R.DELETION_STARTED}),
        _R.DELETION_INELIGIBLE: frozenset({_R.OFFLINE, _R.DELETION_STARTED, _R.DELETION_OWED}),
        _R.DELETION_OWED: frozenset({_R.OFFLINE, _R.DELETION_INELIGIBLE}),
        _R.NON_EXISTENT: frozenset({_R.DELETION_SUCCESSFUL}),
    }
)
"""Target state to the states it may be reached from."""

PARTITION_TRANSITIONS: Final[Mapping[PartitionState, frozenset[PartitionState]]] = MappingProxyType(
    {
        _P.NEW: frozenset({_P.NON_EXISTENT}),
        _P.ONLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
        _P.OFFLINE: frozenset({_P.NEW, _P.ONLINE, _P.OFFLINE}),
        _P.NON_EXISTENT: frozenset({_P.OFFLINE}),
    }
)
"""Target state to the states it may be reached from."""
