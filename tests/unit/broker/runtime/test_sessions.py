"""Whose the controller epoch is, by `/controller_epoch` and `/controller`, and what is said of an unreadable znode."""

from __future__ import annotations

import pytest

from lethe.broker.core.inputs import TopicIdUnavailable
from lethe.broker.runtime.sessions import controller_of_epoch, topic_id_of
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper.operations import Data, ReadFailed, ReadOutcome, Stat, ZkError
from tests.fakes.forbidden_znodes import NO_AUTH

ABSENT = ReadFailed(ZkError.NO_NODE)
UNSEEN = ReadFailed(ZkError.NO_AUTH)
CONTROLLER = b'{"version":1,"brokerid":7,"timestamp":"1700000000000"}'


def epoch_of(mzxid: int) -> Data:
    return Data(b"6", Stat(1, mzxid, 6, 0))


def controller_of(czxid: int, data: bytes = CONTROLLER) -> Data:
    return Data(data, Stat(czxid, czxid, 0, 0x5E551))


@pytest.mark.parametrize(
    "epoch, controller, whose",
    [
        (epoch_of(10), controller_of(10), 7),
        (epoch_of(12), controller_of(10), 7),
        (epoch_of(10), controller_of(11), None),
        (epoch_of(10), controller_of(10, b"no JSON"), None),
        (epoch_of(10), ABSENT, None),
        (epoch_of(10), UNSEEN, None),
        (ABSENT, controller_of(10), None),
    ],
    ids=["one multi", "raised since", "taking control", "malformed", "absent", "unseen", "no epoch"],
)
def test_the_controller_is_known_unless_it_is_newer_than_the_epoch(
    epoch: ReadOutcome, controller: ReadOutcome, whose: int | None
) -> None:
    assert controller_of_epoch(epoch, controller) == (None if whose is None else BrokerId(whose))


def test_a_topic_id_that_may_not_be_read_is_unavailable_with_the_remedy() -> None:
    assert topic_id_of("t", UNSEEN) == TopicIdUnavailable(f"/brokers/topics/t cannot be read: {NO_AUTH}")
