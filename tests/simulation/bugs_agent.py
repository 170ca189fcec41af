"""Bugs of an agent: whose orders it obeys, and whose bytes it takes for which.

See `planted` for what they are for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from lethe.broker.core import agent, duplicates, epochs, identity
from lethe.broker.core.identity import OpenVerdict, StopVerdict
from lethe.broker.core.replica import Replica
from lethe.broker.core.state import AgentState
from lethe.protocol.kafka.control import Addressed
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import (
    NO_EPOCH,
    BrokerEpoch,
    TopicPartition,
)
from tests.simulation.planting import everywhere


def agent_ignores_broker_epoch() -> AbstractContextManager[object]:
    """An agent obeys orders that were meant for an earlier incarnation of it."""
    check = epochs.check_epochs
    return everywhere(check, lambda state, addressed: check(state, addressed._replace(broker_epoch=NO_EPOCH)))


def agent_ignores_controller_epoch() -> AbstractContextManager[object]:
    """An agent obeys every controller, deposed or not."""
    check = epochs.check_epochs

    def obey(state: AgentState, addressed: Addressed) -> ErrorCode:
        confirmed, epoch = state.confirmed_epoch, addressed.request.controller_epoch
        state.controller_epoch, state.confirmed_epoch = min(state.controller_epoch, epoch), min(confirmed, epoch)
        error = check(state, addressed)
        state.confirmed_epoch = confirmed
        return error

    return everywhere(check, obey)


@contextmanager
def agent_obeys_epochs_that_are_over() -> Iterator[None]:
    """An agent compares with the epoch that it has obeyed, and not with the one that ZooKeeper has named."""
    asks = epochs.is_unconfirmed

    def ask(state: AgentState, addressed: Addressed) -> bool:
        return addressed.request.controller_epoch >= state.confirmed_epoch and asks(state, addressed)

    with everywhere(epochs.known_epoch, lambda state: state.controller_epoch), everywhere(asks, ask):
        yield


def agent_adopts_any_controller_epoch() -> AbstractContextManager[object]:
    """An agent takes a controller epoch for one that was elected because somebody has sent it."""
    return everywhere(epochs.is_unconfirmed, lambda state, addressed: False)


@contextmanager
def agent_ignores_topic_ids() -> Iterator[None]:
    """A directory is judged by its name alone."""
    by_name = StopVerdict.DELETE
    with (
        everywhere(identity.judge_deletion, lambda replica, remembered: by_name),
        everywhere(identity.judge_opening, lambda replica, requested, **more: OpenVerdict.OPEN),
    ):
        yield


def agent_remembers_too_long() -> AbstractContextManager[object]:
    """An agent that registers again goes on showing what it was told under the registration before."""

    def keep(state: AgentState, broker_epoch: BrokerEpoch) -> None:
        state.cache_epoch = max(state.cache_epoch, broker_epoch)

    return everywhere(agent._reset_cache, keep)


def agent_knows_one_directory() -> AbstractContextManager[object]:
    """Of several directories of a partition the one that is found first is the partition's, and nobody sees others."""
    add = duplicates.add_candidate

    def first(state: AgentState, topic_partition: TopicPartition, replica: Replica) -> None:
        if topic_partition not in state.replicas:
            add(state, topic_partition, replica)

    return everywhere(add, first)
