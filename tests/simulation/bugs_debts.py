"""Bugs in what absent brokers owe.

See `planted` for what they are for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from lethe.controller.core import debts, debts_policy, debts_written
from lethe.controller.core.cluster_state import ClusterState
from lethe.controller.core.context import Context
from lethe.controller.core.debt_memory import DebtKey, Debts, OpenDebt
from lethe.controller.core.partition_sets import Bits
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_debts import PayDebts
from lethe.protocol.kafka.control import LeaderAndIsrPartition, LeaderAndIsrTopic
from lethe.protocol.vocabulary import BrokerId, TopicId
from tests.simulation.planting import everywhere, method


def deleted_without_compare() -> AbstractContextManager[object]:
    """What is owed is deleted from memory alone."""

    def _compare(step: StepContext, broker: BrokerId) -> None:
        owed = [(key, debt) for key, debt in step.context.cluster.debts.all() if key.broker == broker]
        due = {key: debt.left for key, debt in owed if debt.request_id is None and debt.left}
        debts._delete(step, broker, due)

    return method(debts, "_compare", _compare)


def zero_id_compared() -> AbstractContextManager[object]:
    """The compare names no incarnation."""

    def without_id(name: str, _: TopicId | None, rows: tuple[LeaderAndIsrPartition, ...]) -> LeaderAndIsrTopic:
        return LeaderAndIsrTopic(name, None, rows)

    return method(debts, "LeaderAndIsrTopic", without_id)


def znodes_go_before_the_debt() -> AbstractContextManager[object]:
    """No debt is written before a topic's znodes go."""

    def missing(context: Context, name: str, now_ms: int) -> tuple[()]:
        return ()

    return everywhere(debts_written.missing, missing)


def withheld_for_ever() -> AbstractContextManager[object]:
    """What was withheld from a broker that owed is not announced when the debt is settled."""
    return method(debts, "_announce", lambda step, broker, settled: None)


@contextmanager
def debt_of_the_living_paid() -> Iterator[None]:
    """A debt is paid although its topic is there."""

    def payable(context: Context, key: DebtKey, debt: OpenDebt) -> Bits:
        return debt.left if key.broker in context.cluster.brokers else 0

    with everywhere(debts_policy.payable, payable), method(debts_policy, "payable", payable):
        yield


def epoch_not_raised() -> AbstractContextManager[object]:
    """New partitions begin at epoch 0 whatever is owed of their name."""
    return method(debts_policy, "first_leader_epoch", lambda context, name: 0)


def earlier_incarnation_counts() -> AbstractContextManager[object]:
    """What an earlier incarnation of the broker was asked and has answered is taken for the present one's."""
    return method(Debts, "forget_incarnation", lambda self, broker: None)


def never_asked_on_return() -> AbstractContextManager[object]:
    """Brokers are asked about debts at a takeover only."""
    pay = debts.pay

    def only_loading(step: StepContext, task: PayDebts) -> None:
        if not step.context.cluster.had_power:
            pay(step, task)

    return everywhere(pay, only_loading)


def paid_compared_again() -> AbstractContextManager[object]:
    """What a broker has paid before it registered is compared all the same."""
    return everywhere(debts.on_left_listed, lambda step, task, outcomes: None)


def owed_though_registered() -> AbstractContextManager[object]:
    """A replica on a failed disk is not waited for either."""
    return method(ClusterState, "is_absent", lambda self, broker: True)
