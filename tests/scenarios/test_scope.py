"""Controllers of commands: what is outside their scope stays as it is, for a later controller."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lethe.controller.core.context import Role
from lethe.controller.core.scope import EVERYTHING, Scope
from lethe.protocol.kafka.control import StopReplicaRequest
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import cluster, is_gone, with_topic
from tests.scenarios.test_debts_called_off import held
from tests.scenarios.test_debts_paid import owing, to, told
from tests.scenarios.test_debts_written import debts, without
from tests.scenarios.test_forgetting import forget
from tests.scenarios.test_forgetting import refused as forget_refused
from tests.scenarios.test_undelete_marked import refused, request

NOTHING_OWED = Scope(frozenset(), debtors=frozenset(), forgettable=frozenset(), answers_requests=False)


def settling(broker: int) -> Scope:
    return replace(NOTHING_OWED, debtors=frozenset({BrokerId(broker)}))


def forgetting(broker: int) -> Scope:
    return Scope(forgettable=frozenset({BrokerId(broker)}))


def under(world: OneController, scope: Scope) -> OneController:
    """Another controller takes over, in this scope."""
    world.crash()
    world.context.config = replace(world.context.config, scope=scope)
    world.take_sent()
    world.elect()
    assert world.context.role is Role.ACTIVE
    return world


def both_owing() -> OneController:
    """Broker 2 owes `bills`, broker 3 `orders`, and both are back, while no controller is active."""
    world = without(with_topic(owing(), "bills", (1, 2)), 2)
    world.mark("bills")
    world.run()
    world.crash()
    world.start_broker(2)
    world.start_broker(3)
    assert set(debts(world)) == {"2/bills", "3/orders"}
    return world


def test_debts_outside_the_scope_are_not_paid_before_a_later_controller() -> None:
    world = both_owing()
    before = debts(world)
    under(world, NOTHING_OWED)
    world.advance(600_000)
    assert debts(world) == before
    sent = world.take_sent()
    assert not any(isinstance(each.request, StopReplicaRequest) for each in sent)
    under(world, EVERYTHING)
    assert debts(world) == {}


def test_only_the_named_broker_pays() -> None:
    world = under(both_owing(), settling(3))
    deletions = [each for each in world.take_sent() if isinstance(each.request, StopReplicaRequest)]
    assert [(each.broker, *told([each])) for each in deletions] == [(3, "delete orders")]
    assert set(debts(world)) == {"2/bills"}


def test_broker_that_registers_later_pays_nothing_outside_the_scope() -> None:
    world = under(owing(), settling(2))
    world.start_broker(3)
    world.run()
    world.advance(600_000)
    assert told(to(world, 3)) == []
    assert set(debts(world)) == {"3/orders"}


def test_debt_of_a_deletion_that_was_called_off_is_removed_within_the_scope_alone() -> None:
    world = held()
    world.crash()
    world.unmark("orders")
    under(world, NOTHING_OWED)
    assert set(debts(world)) == {"3/orders"}
    under(world, EVERYTHING)
    assert debts(world) == {}


@pytest.mark.parametrize("scope", [NOTHING_OWED, settling(3), forgetting(2)])
def test_request_to_forget_another_broker_stays_and_nothing_is_written_off(scope: Scope) -> None:
    world = owing()
    world.crash()
    forget(world, 3)
    before = debts(world)
    under(world, scope)
    assert world.context.cluster.forgotten == {}
    assert (world.exists(paths.forget(3)), debts(world)) == (True, before)
    under(world, EVERYTHING)
    assert (world.exists(paths.forget(3)), debts(world)) == (False, {})


def test_request_to_forget_a_registered_broker_is_not_refused_outside_the_scope() -> None:
    world = owing()
    world.crash()
    forget(world, 1)
    under(world, NOTHING_OWED)
    assert (world.exists(paths.forget(1)), forget_refused(world, 1)) == (True, None)


def test_only_the_named_broker_is_forgotten_also_when_the_requests_come_later() -> None:
    world = with_topic(owing(), "bills", (1, 2))
    without(world, 2)
    world.mark("bills")
    world.run()
    under(world, forgetting(3))
    forget(world, 2)
    forget(world, 3)
    assert set(debts(world)) == {"2/bills"}
    assert (world.exists(paths.forget(2)), world.exists(paths.forget(3))) == (True, False)


def test_deletion_goes_on_waiting_for_a_broker_that_is_not_to_be_forgotten() -> None:
    world = without(with_topic(cluster(), "orders", (1, 2, 3)), 3)
    world.mark("orders")
    world.run()
    world.crash()
    forget(world, 3)
    under(world, forgetting(2))
    assert not is_gone(world, "orders")
    under(world, forgetting(3))
    assert is_gone(world, "orders")


def test_requests_for_topics_stay_unread_outside_the_scope() -> None:
    world = under(owing(), NOTHING_OWED)
    request(world, "orders")
    assert (world.exists(paths.request("orders")), refused(world, "orders")) == (True, None)
    under(world, EVERYTHING)
    assert refused(world, "orders") == "it is not marked for deletion"
