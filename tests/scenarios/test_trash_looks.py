"""What a broker has said of its directories holds for the registration under which it was asked.

the broker, after its answer               a topic that is brought back
-----------------------------------------  -----------------------------------------------------------------------
leaves before the other brokers answer     is served by the others
restarts before the other brokers answer   is served by the others: its disk may be another one
restarts, and the controller has not       the same: registrations are read before the write
  heard of it
leaves just before the write               the write fails; the brokers that are left are asked again
"""

from __future__ import annotations

from uuid import UUID

import pytest

from lethe.controller.core.effects import ReadZnodes, Send, WriteZnodes
from lethe.controller.core.events import Answer, LogDirsDescribed
from lethe.protocol.kafka.queries import DescribeLogDirsResponse, LogDir
from lethe.protocol.vocabulary import TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Exists
from lethe.protocol.zookeeper.znodes import TrashPhase
from tests.fakes.one_controller import OneController, consent
from tests.scenarios.plot import cluster, led, refusals, with_topic
from tests.scenarios.test_debts_paid import told
from tests.scenarios.test_debts_written import write_debt
from tests.scenarios.test_trash import phase_of, trashed
from tests.scenarios.test_undelete_marked import refused, request


class Slow:
    """Broker 2 keeps its answer about log directories until it is let go; broker 1 has an empty disk after that."""

    def __init__(self, world: OneController) -> None:
        self._world = world
        self._kept: list[Send] = []
        self._is_over = False
        world.answer = self

    def __call__(self, send: Send) -> Answer | None:
        answer = consent(send)
        if not isinstance(answer, LogDirsDescribed):
            return answer
        if self._is_over and send.broker == 1:
            return LogDirsDescribed(*send[:3], DescribeLogDirsResponse((LogDir(0, "/a", ()),)))
        if self._is_over or send.broker != 2:
            return answer
        self._kept.append(send)
        return None

    def let_go(self) -> None:
        self._is_over = True
        for send in self._kept:
            self._world.feed(consent(send))
        self._world.run()


@pytest.mark.parametrize("returns", [False, True])
def test_a_broker_that_leaves_while_others_are_asked_does_not_lead(returns: bool) -> None:
    world = trashed()
    brokers = Slow(world)
    request(world, "orders")
    world.stop_broker(1)
    world.run()
    if returns:
        world.start_broker(1)
        world.run()
    brokers.let_go()
    assert led(world, "orders") == (2, 1, (2,))


def undelete_while_broker_1_restarts(world: OneController) -> None:
    """Broker 1 restarts between its answer and the second look at its registration, unnoticed."""
    left = [None]

    def restart(effect: ReadZnodes | WriteZnodes) -> None:
        compares = isinstance(effect, ReadZnodes) and Exists(paths.broker_id(1)) in effect.reads
        if compares and left:
            left.pop()
            world.stop_broker(1)
            world.start_broker(1)

    world.meanwhile = restart
    request(world, "orders")
    assert not left


def test_a_broker_that_has_restarted_unnoticed_does_not_lead() -> None:
    world = trashed()
    undelete_while_broker_1_restarts(world)
    assert led(world, "orders") == (2, 1, (2,))


def test_the_only_broker_in_sync_that_has_restarted_is_to_be_asked_again() -> None:
    world = trashed()
    world.stop_broker(2)
    world.run()
    undelete_while_broker_1_restarts(world)
    assert phase_of(world) is not None
    told = refused(world, "orders")
    assert told is not None
    assert told.startswith("partition 0 is not on the disks of broker 1, or was not seen there")


def test_a_broker_that_leaves_just_before_the_write_does_not_lead() -> None:
    world = trashed()
    left = [None]

    def quicker(effect: ReadZnodes | WriteZnodes) -> None:
        if not isinstance(effect, WriteZnodes):
            return
        creates = any(
            isinstance(each, Create) and each.path == paths.topic("orders") for g in effect.groups for each in g
        )
        if creates and left:
            left.pop()
            world.stop_broker(1)

    world.meanwhile = quicker
    request(world, "orders")
    assert not left
    assert led(world, "orders") == (2, 1, (2,))
    assert refusals(world, "topic/orders") == ["broker 1, which has it, is not registered any more"]


def test_directory_that_a_broker_owes_of_an_earlier_topic_is_not_the_topics() -> None:
    """The broker names no ids when it is asked for directories, and has not heard of the later topic yet.

    Found by the simulator (seed 200879): that broker would have led the partition, without its records."""
    world = cluster()
    world.crash()
    write_debt(world, 2, "orders", 1, TopicId(UUID(int=7)))
    world.answer = lambda send: None if "compare orders" in told([send]) else consent(send)
    world.elect()
    trashed(with_topic(world, "orders", (2,)))
    assert phase_of(world) is TrashPhase.TRASHED
    request(world, "orders")
    assert "partition 0 is not on the disks of broker 2" in (refused(world, "orders") or "")
