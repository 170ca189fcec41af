"""Answers of ZooKeeper as tools take them: a value, nothing, or an error that names the znode."""

from __future__ import annotations

import pytest

from lethe.protocol.vocabulary import TopicPartition
from lethe.protocol.zookeeper.operations import Children, Data, Present, ReadFailed, ReadOutcome, Stat, ZkError
from lethe.survey.znodes import (
    ZnodeUnreadable,
    broker_of,
    children_of,
    data_of,
    reassignment_of,
    stat_of,
    state_of,
    topic_of,
)

STAT = Stat(czxid=7, mzxid=7, version=2, ephemeral_owner=0, num_children=0)
GONE = ReadFailed(ZkError.NO_NODE)
FORBIDDEN = ReadFailed(ZkError.NO_AUTH)
ORDERS_0 = TopicPartition("orders", 0)


def test_what_is_not_there_is_none() -> None:
    assert data_of(GONE, "/x") is None
    assert children_of(GONE, "/x") is None
    assert stat_of(GONE, "/x") is None
    assert topic_of(GONE, "orders") is None
    assert state_of(GONE, ORDERS_0) is None
    assert broker_of(GONE, 1) is None
    assert reassignment_of(GONE) == {}


@pytest.mark.parametrize("outcome", [FORBIDDEN, Children(("a",))])
def test_any_other_answer_is_unreadable_and_never_absent(outcome: ReadOutcome) -> None:
    with pytest.raises(ZnodeUnreadable, match="ZooKeeper does not give the data of /brokers/topics/orders: ") as error:
        topic_of(outcome, "orders")
    assert error.value.path == "/brokers/topics/orders"
    assert str(error.value).endswith(error.value.reason), "where the reason alone is shown, so is the remedy"


def test_children_that_may_not_be_listed_are_unreadable() -> None:
    with pytest.raises(ZnodeUnreadable, match="does not list the children of /brokers/topics: NO_AUTH"):
        children_of(FORBIDDEN, "/brokers/topics")


def test_a_znode_whose_existence_is_refused_is_not_absent() -> None:
    assert stat_of(Present(STAT), "/brokers/ids") == Present(STAT)
    with pytest.raises(ZnodeUnreadable, match="does not tell the existence of /brokers/ids: NO_AUTH"):
        stat_of(FORBIDDEN, "/brokers/ids")


def test_a_value_carries_what_the_stat_says() -> None:
    state = state_of(
        Data(b'{"controller_epoch":3,"leader":1,"version":1,"leader_epoch":4,"isr":[1,2]}', STAT), ORDERS_0
    )
    assert state is not None
    assert (state.leader, state.isr) == (1, (1, 2))
    assert children_of(Children(("a", "b")), "/x") == ("a", "b")
