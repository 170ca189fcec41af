"""Bugs in giving brokers up.

See `planted` for what they are for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from lethe.controller.core import forgetting
from lethe.controller.core.cluster_state import ClusterState
from lethe.controller.core.mutation import enter_replica_state
from lethe.controller.core.partition_sets import ReplicaColumns
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_debts import ForgetsAnswered
from lethe.controller.core.transitions import ReplicaState
from lethe.controller.core.without_answer import record_given_up
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Delete
from tests.simulation.planting import everywhere, method


def given_up_counts_as_deleted() -> AbstractContextManager[object]:
    """A broker that returns is not asked for what was given up."""

    def confirm(step: StepContext, replicas: ReplicaColumns) -> None:
        cluster = step.context.cluster
        given_up = {
            name: {broker: bits for broker, bits in columns.items() if cluster.is_given_up(broker)}
            for name, columns in replicas.items()
        }
        enter_replica_state(cluster, given_up, ReplicaState.DELETION_SUCCESSFUL)

    return everywhere(record_given_up, confirm)


def forgotten_and_still_owing() -> AbstractContextManager[object]:
    """The debts of a broker that is given up stay."""

    def settle(step: StepContext) -> None:
        done = tuple(step.context.cluster.forgotten)
        step.write([(Delete(paths.forget(broker)),) for broker in done], ForgetsAnswered(done))

    return everywhere(forgetting.settle, settle)


@contextmanager
def registered_given_up() -> Iterator[None]:
    """A request is carried out whoever is named."""

    def is_given_up(self: ClusterState, broker: BrokerId) -> bool:
        return broker in self.forgotten

    with method(forgetting, "_problem", lambda context, broker: None), method(ClusterState, "is_given_up", is_given_up):
        yield
