"""Brokers that are given up: their debts are written off, and deletions end without them."""

from __future__ import annotations

from typing import Any

import pytest

from lethe.controller.core import forgetting
from lethe.controller.core.effects import ReadZnodes, WriteZnodes
from lethe.controller.core.waiting import all_rows, waits
from lethe.protocol.causes import CauseKind
from lethe.protocol.journal import EventRecordType
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, SetData, ZkError
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import cluster, is_gone, with_topic
from tests.scenarios.test_debts_paid import back, owing, to, told
from tests.scenarios.test_debts_written import debts, without
from tests.scenarios.test_pause import pause


def forget(world: OneController, broker: int) -> None:
    for path in (paths.LETHE, paths.FORGET):
        if not world.exists(path):
            world.write(Create(path, None))
    world.write(Create(paths.forget(broker), znodes.encode_forget_request(znodes.ForgetRequest())))
    world.run()


def refused(world: OneController, broker: int) -> str | None:
    found = world.read(paths.forget(broker))
    return None if found is None else znodes.decode_forget_request(broker, found.data).refused


def waiting() -> OneController:
    """`orders` is marked, and waits for broker 3."""
    world = without(with_topic(cluster(), "orders", (1, 2, 3)), 3)
    world.mark("orders")
    world.run()
    assert "orders" in world.context.cluster.deletions
    return world


def test_the_debts_of_a_forgotten_broker_are_written_off_and_never_paid() -> None:
    world = owing()
    forget(world, 3)
    assert debts(world) == {}
    assert not world.exists(paths.forget(3))
    (line,) = (r for r in world.recorded(EventRecordType.DEBT) if r.data["what"] == "written off")
    assert (line.data["broker"], line.data["why"]) == (3, "its broker was given up")
    assert told(back(world)) == []


def test_a_deletion_that_waits_for_a_forgotten_broker_ends_and_owes_nothing() -> None:
    world = waiting()
    forget(world, 3)
    assert is_gone(world, "orders")
    assert debts(world) == {}
    assert not world.exists(paths.forget(3))
    (line,) = (r for r in world.recorded(EventRecordType.ACK) if "why" in r.data)
    assert (line.data["broker"], line.data["why"]) == (3, "its broker was given up")


def test_a_registered_broker_is_not_forgotten() -> None:
    world = with_topic(cluster(), "orders", (1, 2, 3))
    forget(world, 3)
    assert refused(world, 3) == "it is registered in ZooKeeper"
    assert world.context.cluster.forgotten == {}


def test_living_partitions_stay_as_they_are() -> None:
    world = without(with_topic(cluster(), "orders", (1, 2, 3)), 3)
    before = world.read(paths.topic("orders"))
    forget(world, 3)
    assert world.read(paths.topic("orders")) == before
    assert not world.exists(paths.forget(3))


def test_a_request_is_not_in_force_for_a_deletion_that_begins_later() -> None:
    """`lethe brokers forget` names such topics, since the request does not wait for them."""
    world = without(with_topic(cluster(), "orders", (1, 2, 3)), 3)
    pause(world)
    world.mark("orders")
    world.run()
    forget(world, 3)
    assert not world.exists(paths.forget(3))
    world.write(Delete(paths.DELETIONS_PAUSED))
    world.run()
    assert "orders" in world.context.cluster.deletions
    assert not is_gone(world, "orders")


@pytest.mark.parametrize("is_withdrawn", [False, True])
def test_the_request_stays_in_force_while_another_broker_is_waited_for(is_withdrawn: bool) -> None:
    world = without(with_topic(cluster(), "orders", (1, 2, 3)), 3)
    without(world, 2)
    world.mark("orders")
    world.run()
    forget(world, 3)
    assert world.exists(paths.forget(3))
    world.crash()
    if is_withdrawn:
        world.write(Delete(paths.forget(3)))
    world.elect()
    world.start_broker(2)
    world.run()
    assert is_gone(world, "orders") is not is_withdrawn
    assert not world.exists(paths.forget(3))


def test_a_broker_that_registers_while_its_request_is_in_force_is_not_forgotten_any_more() -> None:
    world = without(with_topic(cluster(), "orders", (1, 2, 3)), 3)
    without(world, 2)
    world.mark("orders")
    world.run()
    forget(world, 3)
    world.start_broker(3)
    world.run()
    assert refused(world, 3) == "it is registered in ZooKeeper"
    assert world.context.cluster.forgotten == {}


def both_away() -> OneController:
    """`orders` is marked and waits for brokers 2 and 3, of which 3 is given up."""
    world = without(without(with_topic(cluster(), "orders", (1, 2, 3)), 3), 2)
    world.mark("orders")
    world.run()
    forget(world, 3)
    return world


def test_what_a_broker_has_that_was_given_up_and_returns_in_time_is_deleted() -> None:
    world = both_away()
    assert "delete orders" in told(back(world))
    assert refused(world, 3) == "it is registered in ZooKeeper"
    back(world, 2)
    assert is_gone(world, "orders")


def test_a_deletion_waits_again_for_a_broker_whose_request_is_withdrawn() -> None:
    world = both_away()
    world.write(Delete(paths.forget(3)))
    world.run()
    back(world, 2)
    assert not is_gone(world, "orders")
    assert [(wait.waiting_for, wait.broker) for wait in waits(world.context, "orders")] == [
        (CauseKind.BROKER_TO_RETURN, 3)
    ]
    back(world)
    assert is_gone(world, "orders")


def owing_and_both_away() -> OneController:
    """Broker 3 is given up. It owes `orders`, and `bills` is marked and waits for broker 2 as well."""
    world = without(with_topic(with_topic(cluster(), "orders", (1, 3)), "bills", (1, 2, 3)), 3)
    owe = znodes.DeletionOrders(offline_replicas=znodes.OfflineReplicas.OWE)
    world.write(Create(paths.delete_topic("orders"), znodes.encode_deletion_marker(owe)))
    world.run()
    without(world, 2)
    world.mark("bills")
    world.run()
    world.take_sent()
    forget(world, 3)
    assert "bills" in world.context.cluster.deletions
    return world


def test_debts_are_written_off_no_earlier_than_the_request_is_carried_out() -> None:
    world = owing_and_both_away()
    assert set(debts(world)) == {"3/orders"}
    assert world.exists(paths.forget(3))
    back(world, 2)
    assert is_gone(world, "bills")
    assert debts(world) == {}
    assert not world.exists(paths.forget(3))


def test_two_absent_brokers_that_are_forgotten_at_the_same_time_end_the_deletion() -> None:
    world = owing_and_both_away()
    forget(world, 2)
    assert is_gone(world, "bills")
    assert debts(world) == {}
    assert not any(world.exists(paths.forget(broker)) for broker in (2, 3))


def test_a_request_that_is_withdrawn_has_written_nothing_off() -> None:
    world = owing_and_both_away()
    world.write(Delete(paths.forget(3)))
    world.run()
    assert set(debts(world)) == {"3/orders"}
    assert "delete orders" in told(back(world))


def test_a_request_that_is_refused_has_written_nothing_off() -> None:
    world = owing_and_both_away()
    assert "delete orders" in told(back(world))
    assert refused(world, 3) == "it is registered in ZooKeeper"
    assert [r for r in world.recorded(EventRecordType.DEBT) if r.data["what"] == "written off"] == []


def test_a_replica_that_was_given_up_is_shown_as_such() -> None:
    world = both_away()
    rows = {row.broker: row.waiting_for for row in all_rows(world.context, "orders")}
    assert rows[BrokerId(3)] is CauseKind.BROKER_GIVEN_UP


@pytest.mark.parametrize("path", ["/lethe/debts/3/", "/brokers/topics/orders"])
def test_what_a_broker_has_that_registers_just_before_a_write_is_deleted(path: str) -> None:
    """Its controller has not heard of it when it removes the topic, or writes the debt off."""
    world = waiting()

    def return_now(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes) and any(
            isinstance(each, Delete) and each.path.startswith(path) for group in effect.groups for each in group
        ):
            world.meanwhile = lambda _: None
            world.start_broker(3)

    world.meanwhile = return_now
    world.take_sent()
    forget(world, 3)
    assert is_gone(world, "orders")
    assert "delete orders" in told(to(world, 3))
    assert debts(world) == {}
    assert refused(world, 3) == "it is registered in ZooKeeper"


def test_a_debt_that_cannot_be_removed_keeps_the_request() -> None:
    world = owing()
    (path,) = (path for path in world.zookeeper.paths() if "orders@" in path)
    world.refusals[path] = ZkError.NO_AUTH
    forget(world, 3)
    assert set(debts(world)) == {"3/orders"}
    assert world.exists(paths.forget(3))
    assert [r.subject for r in world.recorded(EventRecordType.REFUSAL)] == ["broker/3"]


@pytest.mark.parametrize("is_refused", [False, True])
def test_an_unreadable_debt_goes_with_the_broker_or_keeps_the_request(is_refused: bool) -> None:
    world = owing()
    (path,) = (path for path in world.zookeeper.paths() if "orders@" in path)
    world.write(SetData(path, b"?", ANY_VERSION))
    world.crash()
    world.elect()
    if is_refused:
        world.refusals[path] = ZkError.NO_AUTH
    forget(world, 3)
    assert world.exists(path) is is_refused
    assert world.exists(paths.forget(3)) is is_refused
    assert list(world.context.cluster.debts.unreadable) == ([path] if is_refused else [])
    refusals = [r.subject for r in world.recorded(EventRecordType.REFUSAL)]
    assert refusals == (["broker/3"] if is_refused else [])


def test_a_malformed_request_is_recorded_and_does_nothing() -> None:
    world = owing()
    world.write(Create(paths.FORGET, None), Create(paths.forget(3), b"{"))
    world.run()
    assert set(debts(world)) == {"3/orders"}
    assert [r.subject for r in world.recorded(EventRecordType.REFUSAL)] == ["broker/3"]


def many_away(number: int) -> OneController:
    """So many topics are marked, and wait for broker 3."""
    world = cluster()
    for each in range(number):
        world.create_topic(f"orders{each}", (1, 3))
    world.run()
    without(world, 3)
    for each in range(number):
        world.mark(f"orders{each}")
    world.run()
    return world


def test_a_broker_that_registers_before_many_debts_are_written_off_is_looked_for_once() -> None:
    world = many_away(20)
    looks: list[str] = []

    def return_now(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, ReadZnodes):
            looks.extend(each.path for each in effect.reads if each.path == paths.BROKER_IDS)
        elif paths.broker_id(3) not in world.zookeeper.paths() and any(
            isinstance(each, Delete) and each.path.startswith("/lethe/debts/3/")
            for group in effect.groups
            for each in group
        ):
            world.start_broker(3)

    world.meanwhile = return_now
    forget(world, 3)
    assert refused(world, 3) == "it is registered in ZooKeeper"
    assert debts(world) == {}
    # By the refused write, and by the watch.
    assert len(looks) <= 3


def test_debts_are_settled_once_for_all_topics_that_are_removed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    world = many_away(100)
    calls: list[None] = []
    real = forgetting.settle

    def counting(*called: Any) -> None:
        calls.append(None)
        real(*called)

    monkeypatch.setattr(forgetting, "settle", counting)
    forget(world, 3)
    assert not world.exists(paths.forget(3))
    assert debts(world) == {}
    assert len(calls) < 10
