"""UpdateMetadata: merging, tombstones, topic ids."""

from __future__ import annotations

from lethe.broker.core.inputs import BrokerRegistered
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, TopicPartition
from tests.unit.broker.core.driver import EPOCH, Driver, X, Y, become, metadata, tombstone


def test_partitions_are_merged_and_brokers_replaced() -> None:
    driver = Driver()
    one, two = (Broker(BrokerId(n), BrokerEpoch(-1), ()) for n in (1, 2))
    driver.update(metadata(partitions=(0,), brokers=(one, two)))
    driver.update(metadata(partitions=(1,), brokers=(two,)))
    cache = driver.state.cache
    assert list(cache.topics["t"]) == [0, 1]
    assert list(cache.brokers) == [2]
    assert cache.controller_id == 9


def test_the_last_tombstone_removes_the_topic_and_its_id() -> None:
    driver = Driver()
    driver.update(metadata(partitions=(0, 1)))
    driver.update(tombstone(partitions=(0,)))
    assert list(driver.state.cache.topics["t"]) == [1]
    assert driver.state.cache.topic_ids == {"t": X}
    driver.update(tombstone(partitions=(1,)))
    assert driver.state.cache.topics == {}
    assert driver.state.cache.topic_ids == {}
    assert driver.state.cache.topic_names == {}


def test_a_tombstone_of_an_unknown_topic_leaves_nothing_behind() -> None:
    driver = Driver()
    driver.update(tombstone("ghost"))
    assert driver.state.cache.topics == {}
    assert driver.state.cache.topic_ids == {}
    assert driver.state.incarnations == {}


def test_a_request_without_an_id_wipes_the_id() -> None:
    driver = Driver()
    driver.update(metadata(topic_id=X))
    driver.update(metadata(topic_id=None))
    assert driver.state.cache.topic_ids == {}
    assert driver.state.cache.topic_names == {}


def test_a_new_incarnation_takes_the_name_over() -> None:
    driver = Driver()
    driver.update(metadata(topic_id=X))
    driver.update(metadata(topic_id=Y))
    assert driver.state.cache.topic_names == {Y: "t"}


def test_a_negative_controller_id_means_none() -> None:
    driver = Driver()
    driver.controller = BrokerId(-1)
    request = metadata()
    driver.update(type(request)(BrokerId(-1), request.controller_epoch, (), ()))
    assert driver.state.cache.controller_id is None


def test_an_incarnation_is_remembered_while_a_replica_is_here() -> None:
    driver = Driver()
    driver.leader_and_isr(become())
    driver.update(metadata())
    driver.update(tombstone())
    assert driver.state.incarnations == {"t": X}
    assert TopicPartition("t", 0) in driver.state.replicas


def test_what_was_cached_under_an_earlier_registration_goes_with_the_first_metadata_for_the_new_one() -> None:
    driver = Driver()
    driver.update(metadata("gone"), EPOCH)
    driver.feed(BrokerRegistered(BrokerEpoch(EPOCH + 1)))
    assert list(driver.state.cache.topics) == ["gone"]

    driver.update(metadata("here"), EPOCH + 1)
    driver.update(metadata("too"), EPOCH + 1)

    assert list(driver.state.cache.topics) == ["here", "too"]
    assert list(driver.state.incarnations) == ["here", "too"]


def test_a_topic_of_the_same_name_under_another_id_inherits_nothing() -> None:
    driver = Driver()
    driver.update(metadata(topic_id=X, partitions=(0, 1, 2)))
    driver.update(metadata(topic_id=Y, partitions=(0,)))
    assert list(driver.state.cache.topics["t"]) == [0]
    assert driver.state.cache.topic_ids == {"t": Y}
    assert driver.state.cache.topic_names == {Y: "t"}

    assert driver.update(tombstone(topic_id=Y, partitions=(0,))).error == 0
    assert driver.state.cache.topics == {}


def test_partitions_are_counted_as_they_come_and_go() -> None:
    driver = Driver()
    cache = driver.state.cache
    steps = (
        (metadata(partitions=(0, 1, 2), topic_id=X), 3),
        (metadata(partitions=(2, 3), topic_id=X), 4),
        (metadata("u", partitions=(0,)), 5),
        (tombstone("ghost"), 5),
        (tombstone(partitions=(1, 1, 9)), 4),
        (metadata(partitions=(0, 7), topic_id=Y), 3),
        (tombstone(partitions=(0, 7)), 1),
    )
    for request, wanted in steps:
        driver.update(request)
        assert cache.partition_count == wanted == sum(map(len, cache.topics.values()))
    assert cache.copy() == cache
    cache.forget_topics()
    assert cache.partition_count == 0
