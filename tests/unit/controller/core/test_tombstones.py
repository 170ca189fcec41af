"""Topics with the same history share a round; a request for some of them gives these a round of their own."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lethe.controller.core import tombstones
from lethe.controller.core.deletion_memory import Deletion, Tombstone
from lethe.controller.core.events import UpdateMetadataResponseReceived
from lethe.protocol.kafka.control import UpdateMetadataResponse
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId

ONE, TWO = BrokerId(1), BrokerId(2)
EPOCH, LATER_EPOCH = BrokerEpoch(10), BrokerEpoch(20)

Deletions = dict[str, Deletion]


@pytest.fixture
def deletions() -> Deletions:
    return {name: Deletion(queued_at_ms=0, marked_at_ms=0) for name in "abc"}


def sent(deletions: Deletions, names: str, broker: BrokerId, request_id: int, epoch: BrokerEpoch = EPOCH) -> None:
    tombstones.note_sent(deletions, names, broker, epoch, request_id)


def answered(deletions: Deletions, names: str, broker: BrokerId, request_id: int, epoch: BrokerEpoch = EPOCH) -> str:
    """The topics for which the answer counts, after it was stored for them."""
    event = UpdateMetadataResponseReceived(broker, epoch, request_id, UpdateMetadataResponse(0))
    settled: list[str] = []
    for shared, topics in tombstones.by_round(deletions, names):
        if shared is not None and tombstones.is_answered_by(shared, event):
            tombstones.note_answered(shared, broker)
            settled += topics
    return "".join(settled)


def owing(deletions: Deletions, name: str) -> Sequence[int]:
    return list(deletions[name].owing_tombstone)


def rounds(deletions: Deletions) -> list[str]:
    for shared, _ in tombstones.by_round(deletions, deletions):
        assert shared is None or not shared.owing.keys() & shared.answered.keys()
    return ["".join(topics) for _, topics in tombstones.by_round(deletions, deletions)]


def test_topics_that_are_sent_together_share_a_round(deletions: Deletions) -> None:
    sent(deletions, "abc", ONE, 1)
    sent(deletions, "abc", TWO, 2)
    assert rounds(deletions) == ["abc"]
    assert all(owing(deletions, name) == [1, 2] for name in "abc")
    assert answered(deletions, "abc", ONE, 1) == "abc"
    assert all(owing(deletions, name) == [2] for name in "abc")


def test_a_request_for_some_of_them_changes_no_other(deletions: Deletions) -> None:
    sent(deletions, "abc", ONE, 1)
    sent(deletions, "ac", ONE, 2)
    assert rounds(deletions) == ["ac", "b"]
    assert answered(deletions, "abc", ONE, 1) == "b", "a later tombstone has replaced that of a and c"
    assert [owing(deletions, name) for name in "abc"] == [[1], [], [1]]
    assert answered(deletions, "ac", ONE, 2) == "ac"


def test_who_has_answered_is_not_asked_again_before_it_registers_again(deletions: Deletions) -> None:
    sent(deletions, "abc", ONE, 1)
    answered(deletions, "abc", ONE, 1)
    sent(deletions, "ab", ONE, 2)
    assert (rounds(deletions), owing(deletions, "a")) == (["abc"], [])
    sent(deletions, "ab", ONE, 3, LATER_EPOCH)
    assert rounds(deletions) == ["ab", "c"]
    assert [owing(deletions, name) for name in "abc"] == [[1], [1], []]
    assert answered(deletions, "ab", ONE, 3) == "", "this answer is of the former incarnation"
    assert answered(deletions, "ab", ONE, 3, LATER_EPOCH) == "ab"


def test_topics_that_get_a_round_of_their_own_keep_who_has_answered(deletions: Deletions) -> None:
    sent(deletions, "abc", ONE, 1)
    answered(deletions, "abc", ONE, 1)
    sent(deletions, "ab", TWO, 2)
    assert rounds(deletions) == ["ab", "c"]
    sent(deletions, "ab", ONE, 3)
    assert [owing(deletions, name) for name in "abc"] == [[2], [2], []]


def test_a_broker_that_is_forgotten_neither_owes_nor_has_answered(deletions: Deletions) -> None:
    sent(deletions, "abc", ONE, 1)
    sent(deletions, "abc", TWO, 2)
    answered(deletions, "abc", TWO, 2)
    tombstones.forget_broker(deletions, ONE)
    tombstones.forget_broker(deletions, TWO)
    assert owing(deletions, "a") == []
    assert answered(deletions, "abc", ONE, 1) == ""
    sent(deletions, "abc", TWO, 3)
    assert deletions["c"].owing_tombstone == {TWO: Tombstone(EPOCH, 3)}


def test_a_request_from_before_the_topic_was_queued_settles_nothing(deletions: Deletions) -> None:
    queued_later = {"a": deletions.pop("a")}
    sent(deletions, "abc", ONE, 1)
    deletions |= queued_later
    assert answered(deletions, "abc", ONE, 1) == "bc"
    sent(deletions, "abc", ONE, 2)
    assert [owing(deletions, name) for name in "abc"] == [[1], [], []]
