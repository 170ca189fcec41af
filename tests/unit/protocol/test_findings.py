"""The words for what is left over: each has a code for programs, a sentence for people and a standing."""

from __future__ import annotations

import pytest

from lethe.protocol.findings import Place, Reason, Standing


def test_codes_are_the_names_in_lower_case() -> None:
    assert Reason.DIRECTORY_WITHOUT_TOPIC.code == "directory_without_topic"
    assert Standing.LEFT_OVER.code == "left_over"
    assert [place.value for place in Place] == ["zookeeper", "cache", "disk"]


@pytest.mark.parametrize(
    "reason, standing",
    [
        (Reason.DIRECTORY_WITHOUT_TOPIC, Standing.LEFT_OVER),
        (Reason.HALF_DELETED_TOPIC, Standing.LEFT_OVER),
        (Reason.INCOMPLETE_TOPIC, Standing.INCOMPLETE),
        (Reason.STRAY_DIRECTORY, Standing.SET_ASIDE),
        (Reason.REPLICA_WITHOUT_DIRECTORY, Standing.MISSING),
        (Reason.IN_NO_CACHE, Standing.MISSING),
        (Reason.MARKED_TOPIC, Standing.PENDING),
        (Reason.NOT_RECLAIMED_YET, Standing.PENDING),
        (Reason.DIRECTORY_OWED, Standing.PENDING),
    ],
)
def test_each_reason_has_a_standing(reason: Reason, standing: Standing) -> None:
    assert reason.standing is standing


def test_every_sentence_is_said_once() -> None:
    """Two members of an enumeration with one value would be one."""
    assert len(Reason) == len(Reason.__members__) == 16
