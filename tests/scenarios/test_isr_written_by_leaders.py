"""Leaders of protocols before 2.7 write ISRs themselves, and tell of it seconds later, or never: nobody is left out of
an election because of that."""

from __future__ import annotations

from lethe.controller.core.effects import ReadZnodes, WriteZnodes
from lethe.protocol.kafka.to_controller import ControlledShutdownRequest, ControlledShutdownResponse
from lethe.protocol.kafka.versions import InterBrokerProtocol
from lethe.protocol.vocabulary import BrokerId, LeaderAndIsr
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, SetData
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import cluster, led, refusals, with_topic

OLD = InterBrokerProtocol.parse("2.5")
NEW = InterBrokerProtocol.parse("2.7")


def shrunk_and_grown(ibp: InterBrokerProtocol) -> OneController:
    """Broker 1 leads and 2 follows. The controller knows of an ISR without 2; the leader has taken it in since."""
    world = with_topic(cluster(1, 2, 3, world=OneController(ibp=ibp)), "orders", (1, 2))
    world.stop_broker(2)
    world.run()
    assert led(world, "orders") == (1, 1, (1,))
    world.start_broker(2)
    world.run()
    state = LeaderAndIsr(1, 1, (1, 2), 1)
    world.write(SetData(paths.partition_state("orders", 0), znodes.encode_state(state), ANY_VERSION))
    return world


def test_a_broker_that_stops_is_followed_by_one_that_it_has_taken_in_itself() -> None:
    world = shrunk_and_grown(OLD)
    request = ControlledShutdownRequest(BrokerId(1), world.context.cluster.brokers[BrokerId(1)].epoch)
    assert world.ask(request) == ControlledShutdownResponse(0)
    assert led(world, "orders") == (2, 2, (2,))


def test_a_leader_that_dies_before_it_has_told_is_followed_by_who_is_in_sync() -> None:
    world = shrunk_and_grown(OLD)
    world.stop_broker(1)
    world.run()
    found = led(world, "orders")
    assert found is not None
    assert (found[0], found[2]) == (2, (2,))
    assert world.context.cluster.offline_partitions == 0
    assert world.context.unclean_elections == 0


def test_what_is_not_there_is_refused_once_it_was_looked_for() -> None:
    world = with_topic(cluster(1, 2, world=OneController(ibp=OLD)), "orders", (1,))
    reads: list[int] = []

    def meanwhile(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, ReadZnodes):
            reads.append(sum(each.path == paths.partition_state("orders", 0) for each in effect.reads))

    world.meanwhile = meanwhile
    world.stop_broker(1)
    world.run()
    assert sum(reads) == 1
    assert refusals(world, "topic/orders") == ["no live replica may lead the partition"]
    assert world.context.cluster.offline_partitions == 1


def test_where_only_the_controller_writes_memory_is_believed() -> None:
    world = with_topic(cluster(1, 2, world=OneController(ibp=NEW)), "orders", (1,))

    def meanwhile(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, ReadZnodes):
            assert all(paths.partition_state("orders", 0) != each.path for each in effect.reads)

    world.meanwhile = meanwhile
    world.stop_broker(1)
    world.run()
    assert world.context.cluster.offline_partitions == 1
