"""Debts of topics whose deletion was called off after the debts were written: they end when the marker does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, SetData, ZkError
from lethe.protocol.zookeeper.znodes import OfflineReplicas
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import cluster, with_topic
from tests.scenarios.test_debts_paid import back, closed, to, told
from tests.scenarios.test_debts_written import debts, without, write_debt
from tests.scenarios.test_marked_again import settings
from tests.scenarios.test_pause import pause, resume


def held() -> OneController:
    """`orders` lives, broker 3 owes it since an earlier term, and its marker waits for the end of a pause."""
    world = OneController(offline_replicas=OfflineReplicas.OWE)
    without(with_topic(cluster(world=world), "orders", (1, 3)), 3)
    pause(world)
    world.mark("orders")
    world.run()
    topic = world.context.cluster.topics["orders"]
    world.crash()
    write_debt(world, 3, "orders", topic.created_zxid, topic.id)
    world.elect()
    assert "orders" in world.context.cluster.marks
    assert set(debts(world)) == {"3/orders"}, "the deletion may go on, so the debt is kept"
    return world


def withdraw(world: OneController) -> None:
    world.unmark("orders")
    world.run()


def refuse(world: OneController) -> None:
    """Disable deletions: the controller removes the marker."""
    settings(world, "false")
    world.run()


@pytest.mark.parametrize("call_off", [withdraw, refuse])
def test_debt_of_a_topic_is_void_when_its_marker_is_gone(call_off: Callable[[OneController], None]) -> None:
    """Seed 15892: the debt stayed until the next takeover."""
    world = held()
    call_off(world)
    assert not world.exists(paths.delete_topic("orders"))
    assert debts(world) == {}
    assert closed(world) == [("void", "0")]
    assert told(back(world)) == ["announce orders"]


def test_other_debts_are_paid_when_the_marker_is_removed_while_the_cluster_is_loaded() -> None:
    """Seed 90658: the broker was asked before it had a channel. Nobody asked it again, or compared its cache."""
    world = OneController(offline_replicas=OfflineReplicas.OWE)
    without(with_topic(with_topic(cluster(world=world), "orders", (1, 3)), "bills", (1, 3)), 3)
    world.mark("bills")
    world.run()
    topic = world.context.cluster.topics["orders"]
    world.crash()
    write_debt(world, 3, "orders", topic.created_zxid, topic.id)
    assert set(debts(world)) == {"3/bills", "3/orders"}
    world.mark("orders")
    settings(world, "false")
    world.start_broker(3)
    world.take_sent()
    world.elect()
    assert not world.exists(paths.delete_topic("orders"))
    assert told(to(world, 3)) == ["compare bills", "announce orders", "delete bills"]
    assert debts(world) == {}
    assert not world.context.cluster.outstanding


def test_debt_is_void_when_the_topic_can_be_understood_again() -> None:
    """At the takeover nothing says which topic has the name."""
    world = held()
    whole = world.read(paths.topic("orders"))
    assert whole is not None
    world.crash()
    world.unmark("orders")
    world.write(SetData(paths.topic("orders"), b"{", ANY_VERSION))
    world.elect()
    assert set(debts(world)) == {"3/orders"}
    world.write(SetData(paths.topic("orders"), whole.data, ANY_VERSION))
    world.run()
    assert debts(world) == {}
    assert closed(world) == [("void", "0")]


def test_debt_is_kept_while_the_marker_is_there() -> None:
    """The marker of another topic is withdrawn meanwhile."""
    world = held()
    with_topic(world, "bills", (1, 2))
    world.mark("bills")
    world.run()
    world.unmark("bills")
    world.run()
    assert "bills" in world.context.cluster.topics
    assert set(debts(world)) == {"3/orders"}
    resume(world)
    assert not world.exists(paths.topic("orders"))
    assert set(debts(world)) == {"3/orders"}


@pytest.mark.parametrize("call_off", [withdraw, refuse])
def test_topic_that_is_marked_again_owes_anew(call_off: Callable[[OneController], None]) -> None:
    world = held()
    call_off(world)
    settings(world, "true")
    resume(world)
    world.mark("orders")
    world.run()
    assert not world.exists(paths.topic("orders"))
    assert set(debts(world)) == {"3/orders"}


def with_void_debt() -> OneController:
    """The deletion was called off, and ZooKeeper has refused to remove the debt."""
    world = held()
    (path,) = (path for path in world.zookeeper.paths() if "orders@" in path)
    world.refusals[path] = ZkError.NO_AUTH
    withdraw(world)
    world.refusals.clear()
    assert set(debts(world)) == {"3/orders"}
    return world


def test_debt_stays_void_when_its_broker_registers_before_the_znode_is_removed() -> None:
    """Seed 23131: the broker registered during the takeover, and the debt stayed until the next one."""
    world = with_void_debt()
    assert told(back(world)) == ["announce orders"]
    assert debts(world) == {}
    assert closed(world) == [("void", "0")]


def test_topic_that_is_marked_again_before_the_void_debt_is_removed_owes_anew() -> None:
    world = with_void_debt()
    resume(world)
    world.mark("orders")
    world.run()
    assert not world.exists(paths.topic("orders"))
    assert set(debts(world)) == {"3/orders"}
    assert told(back(world)) == ["compare orders", "delete orders"]
    assert debts(world) == {}
