"""Notifications of brokers: read at once, acted on, deleted whether or not they could be understood."""

from __future__ import annotations

from lethe.controller.core.effects import ReadZnodes
from lethe.protocol.journal import EventRecordType
from lethe.protocol.vocabulary import LeaderAndIsr, TopicPartition
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, SetData, ZkError
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import cluster, led, text, with_topic

T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)


def write_isr(world: OneController, name: str, *isr: int) -> None:
    """What a leader of an old protocol does itself."""
    leader_and_isr = world.context.cluster.topics[name].partitions[0].leader_and_isr
    assert leader_and_isr is not None
    state = LeaderAndIsr(leader_and_isr.leader, leader_and_isr.leader_epoch, isr, leader_and_isr.controller_epoch)
    world.write(SetData(paths.partition_state(name, 0), znodes.encode_state(state), leader_and_isr.partition_epoch))


def notify(world: OneController, data: bytes | None, path: str | None = None) -> None:
    world.write(Create(path or paths.isr_change_notification(), data, sequential=True))


def left(world: OneController) -> list[str]:
    parents = (paths.isr_change_notifications(), paths.log_dir_event_notifications())
    return [path for path in world.zookeeper.paths() if paths.parent_of(path) in parents]


def test_isr_changes_are_read_in_one_go_told_to_all_and_deleted() -> None:
    world = with_topic(with_topic(cluster(), "t", (1, 2, 3)), "u", (2, 3))
    write_isr(world, "t", 1)
    write_isr(world, "u", 2)
    reads: list[int] = []
    world.meanwhile = lambda effect: reads.append(len(effect.reads)) if isinstance(effect, ReadZnodes) else None
    notify(world, znodes.encode_isr_change([T0]))
    notify(world, znodes.encode_isr_change([U0, T0]))
    world.run()
    assert led(world, "t") == (1, 0, (1,))
    assert led(world, "u") == (2, 0, (2,))
    assert left(world) == []
    # Names, notifications, states; and names once more, since the deletions have set off the watch.
    assert reads == [1, 2, 2, 1]
    assert world.take_story().startswith(
        text(
            """
            * IsrChangesNotified
            -> 1,2,3 UpdateMetadata brokers 1,2,3: t-0 leader 1 epoch 0 isr 1, u-0 leader 2 epoch 0 isr 2
            zk delete /isr_change_notification/isr_change_0000000000
            zk delete /isr_change_notification/isr_change_0000000001
            """
        )
    )


def test_what_cannot_be_understood_is_recorded_and_deleted_and_the_rest_is_acted_on() -> None:
    world = with_topic(cluster(), "t", (1, 2, 3))
    write_isr(world, "t", 1, 2)
    notify(world, b"{no json")
    notify(world, None)
    notify(world, znodes.encode_isr_change([T0, TopicPartition("gone", 3)]))
    world.run()
    assert led(world, "t") == (1, 0, (1, 2))
    assert left(world) == []
    refused = [f.subject for f in world.recorded(EventRecordType.REFUSAL)]
    assert refused == ["znode/isr_change_notification"] * 2


def test_notifications_from_before_the_election_are_deleted_unread_and_later_ones_are_read() -> None:
    world = OneController()
    notify(world, b"{no json")
    notify(world, b"{no json", paths.log_dir_event_notification())
    world = with_topic(cluster(1, 2, world=world), "t", (1, 2))
    assert left(world) == []
    assert world.recorded(EventRecordType.REFUSAL) == []
    write_isr(world, "t", 1)
    notify(world, znodes.encode_isr_change([T0]))
    world.run()
    assert led(world, "t") == (1, 0, (1,))


def test_notification_that_may_not_be_read_is_recorded() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    world.refusals[f"{paths.isr_change_notifications()}/isr_change_0000000000"] = ZkError.NO_AUTH
    notify(world, znodes.encode_isr_change([T0]))
    world.run()
    (record,) = world.recorded(EventRecordType.REFUSAL)
    assert "NO_AUTH" in str(record.data["why"])


def test_isr_of_a_topic_that_is_being_deleted_is_not_read_again() -> None:
    world = with_topic(cluster(), "t", (1, 2))
    world.silent[2] = None
    world.mark("t")
    world.run()
    world.take_sent()
    notify(world, znodes.encode_isr_change([T0]))
    world.run()
    assert world.take_sent() == []
    assert left(world) == []
