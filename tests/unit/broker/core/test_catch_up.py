"""Which replicas are filled, and when: leaders at once, followers when they have caught up, the doomed never."""

from __future__ import annotations

import pytest

from lethe.broker.core.effects import CreateReplica, FillReplica, PerformDisk
from lethe.broker.core.inputs import LogDirFailed
from lethe.broker.core.replica import ReplicaState
from lethe.broker.core.state import Settings
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import TopicPartition
from tests.unit.broker.core.driver import ME, A, Driver, Entry, FakeDisk, X, Y, become, live, metadata, stop, tombstone

T0 = TopicPartition("t", 0)
CATCH_UP_MS = Settings(ME, 0, "").catch_up_delay_ms


def follower(driver: Driver, leader_epoch: int = 0, leader: int = 2) -> None:
    request = become(leader=leader, isr=(2,), replicas=(2, ME), leader_epoch=leader_epoch)
    assert [row.error for row in driver.leader_and_isr(request).rows] == [ErrorCode.NONE]


def with_brokers(*ids: int, disk: FakeDisk | None = None) -> Driver:
    driver = Driver(disk)
    driver.update(metadata("other", Y, brokers=live(*ids)))
    return driver


def fills(driver: Driver) -> list[FillReplica]:
    return [each for each in driver.disk.performed if isinstance(each, FillReplica)]


def test_a_leader_is_filled_before_the_request_is_answered() -> None:
    driver = Driver()
    driver.leader_and_isr(become(is_new=True))
    assert fills(driver) == [FillReplica(A, T0, X)]
    replica = driver.state.replicas[T0]
    assert (replica.size_bytes, replica.files, replica.filled) == (4096, 4, True)


def test_a_follower_is_filled_when_it_has_caught_up() -> None:
    driver = with_brokers(ME, 2)
    follower(driver)
    assert driver.disk.performed == [CreateReplica(A, T0, X)]
    driver.advance(CATCH_UP_MS - 1)
    assert fills(driver) == []
    driver.advance(1)
    assert fills(driver) == [FillReplica(A, T0, X)]
    assert driver.state.hosted_bytes == 4096
    driver.advance(10 * CATCH_UP_MS)
    follower(driver, leader_epoch=1)
    driver.advance(10 * CATCH_UP_MS)
    assert len(fills(driver)) == 1


@pytest.mark.parametrize("leader", [-1, -2])
def test_without_a_leader_nothing_is_filled(leader: int) -> None:
    driver = with_brokers(ME, 2)
    follower(driver)
    driver.advance(CATCH_UP_MS - 1)
    follower(driver, leader_epoch=1, leader=leader)
    driver.advance(100 * CATCH_UP_MS)
    assert driver.disk.performed == [CreateReplica(A, T0, X)]
    assert driver.state.replicas[T0].state is ReplicaState.HOSTED


def test_an_agent_that_is_told_again_to_host_what_is_deleted_fills_nothing() -> None:
    """The LeaderAndIsr that has to come before the StopReplica, to an agent that started anew."""
    disk = FakeDisk({A: {}})
    driver = with_brokers(ME, 2, disk=disk)
    follower(driver, leader=-1)
    driver.update(tombstone())
    assert [row.error for row in driver.stop(stop()).rows] == [ErrorCode.NONE]
    driver.advance(100 * CATCH_UP_MS)
    assert driver.state.removal.freed_bytes == 0
    assert fills(driver) == []
    assert [name for name in disk.log_dirs[A] if not name.endswith("-delete")] == []


def test_a_stopped_follower_has_stopped_fetching() -> None:
    driver = with_brokers(ME, 2)
    follower(driver)
    driver.stop(stop(delete=False))
    driver.update(metadata("other", Y, brokers=live(ME)))
    driver.update(metadata("other", Y, brokers=live(ME, 2)))
    driver.advance(100 * CATCH_UP_MS)
    assert fills(driver) == []
    follower(driver, leader_epoch=1)
    driver.advance(CATCH_UP_MS)
    assert len(fills(driver)) == 1


def test_a_follower_of_a_leader_that_is_away_waits_for_it() -> None:
    driver = with_brokers(ME)
    follower(driver)
    driver.advance(10 * CATCH_UP_MS)
    assert fills(driver) == []
    driver.update(metadata("other", Y, brokers=live(ME, 3)))
    driver.advance(10 * CATCH_UP_MS)
    assert fills(driver) == []
    driver.update(metadata("other", Y, brokers=live(ME, 2, 3)))
    driver.advance(CATCH_UP_MS - 1)
    assert fills(driver) == []
    driver.advance(1)
    assert len(fills(driver)) == 1


def test_what_was_on_disk_before_is_as_it_is() -> None:
    driver = with_brokers(ME, 2, disk=FakeDisk({A: {"t-0": Entry(X, 7, 1)}}))
    follower(driver)
    driver.advance(10 * CATCH_UP_MS)
    driver.leader_and_isr(become(leader_epoch=5))
    assert driver.disk.performed == []


def test_an_empty_directory_that_was_found_is_filled_like_a_new_one() -> None:
    driver = with_brokers(ME, 2, disk=FakeDisk({A: {"t-0": Entry(X, 0, 0)}}))
    follower(driver)
    driver.advance(CATCH_UP_MS)
    assert driver.disk.performed == [FillReplica(A, T0, X)]


def test_a_promoted_follower_is_filled_as_a_leader() -> None:
    driver = with_brokers(ME, 2)
    follower(driver)
    driver.leader_and_isr(become(leader_epoch=1, isr=(ME,), replicas=(2, ME)))
    driver.advance(10 * CATCH_UP_MS)
    assert fills(driver) == [FillReplica(A, T0, X)]


def test_what_cannot_be_filled_is_shown_and_tried_again_with_the_next_leader_and_isr() -> None:
    driver = with_brokers(ME, 2)
    follower(driver)
    driver.disk.refusals["t-0"] = "t-0 holds 3 files already"
    driver.advance(CATCH_UP_MS)
    records = [getattr(effect, "record", None) for effect in driver.effects]
    assert [record.data["what"] for record in records if record and "holds 3 files" in str(record.data)] == ["CATCH_UP"]
    driver.disk.refusals.clear()
    driver.advance(10 * CATCH_UP_MS)
    assert fills(driver) == []
    follower(driver, leader_epoch=1)
    driver.advance(CATCH_UP_MS)
    assert len(fills(driver)) == 1


def test_a_log_directory_that_fails_while_filling_goes_offline() -> None:
    driver = with_brokers(ME, 2)
    follower(driver)
    driver.disk.failures[A] = "no space left on device"
    driver.advance(CATCH_UP_MS)
    assert driver.state.log_dirs[A] == "no space left on device"
    assert driver.state.replicas[T0].state is ReplicaState.OFFLINE
    driver.advance(10 * CATCH_UP_MS)
    assert fills(driver) == []


def test_a_log_directory_that_failed_meanwhile_is_not_written_to() -> None:
    driver = with_brokers(ME, 2)
    follower(driver)
    driver.feed(LogDirFailed(A, "gone"))
    driver.advance(10 * CATCH_UP_MS)
    assert fills(driver) == []


def test_rounds_are_bounded_and_requests_go_before_them() -> None:
    driver = with_brokers(ME, 2)
    request = become(partitions=tuple(range(600)), leader=2, isr=(2,), replicas=(2, ME))
    driver.leader_and_isr(request)
    driver.effects.clear()
    driver.advance(CATCH_UP_MS)
    rounds = [effect for effect in driver.effects if isinstance(effect, PerformDisk)]
    assert [len(each.operations) for each in rounds] == [256, 256, 88]
