"""What a broker's answers come to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest

from lethe.adapters.kafka.client import KafkaConnection
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDir,
    MetadataResponse,
    MetadataTopic,
)
from lethe.protocol.kafka.versions import VersionRange
from lethe.protocol.vocabulary import BrokerId
from lethe.survey.brokers import QueryScope, _ask
from lethe.survey.views import BrokerFailure


class Answering:
    """A connection to a broker; without `topics` it has none."""

    principal = "User:lethe"

    def __init__(self, log_dirs: DescribeLogDirsResponse, topics: tuple[MetadataTopic, ...] = ()) -> None:
        self._log_dirs = log_dirs
        self._topics = topics

    async def offered_versions(self) -> Mapping[int, VersionRange]:
        return {ApiKey.METADATA: VersionRange(0, 12)}

    async def request(self, value: object, version: int) -> MetadataResponse:
        return MetadataResponse((), "cluster", BrokerId(1), self._topics)

    async def ask(self, value: object) -> DescribeLogDirsResponse:
        assert isinstance(value, DescribeLogDirsRequest)
        return self._log_dirs


REFUSED = "DescribeLogDirs: CLUSTER_AUTHORIZATION_FAILED for User:lethe; grant it Describe on the cluster"
NAMELESS = "DescribeLogDirs: it names no log directory; does it let User:lethe ask? grant it Describe on the cluster"


@pytest.mark.parametrize(
    "answer, told, what",
    [
        (DescribeLogDirsResponse((LogDir(0, "/d", ()),)), ["/d"], None),
        (DescribeLogDirsResponse((), 31), None, REFUSED),
        # As brokers before 3.0 answer whom they do not let ask; a broker has one log directory or more.
        (DescribeLogDirsResponse(()), None, NAMELESS),
    ],
)
async def test_who_names_no_log_directory_has_told_none(
    answer: DescribeLogDirsResponse, told: list[str] | None, what: str | None
) -> None:
    found = await _ask(cast(KafkaConnection, Answering(answer)), BrokerId(1), QueryScope())
    assert found.cache == {}
    assert (None if found.log_dirs is None else [view.path for view in found.log_dirs]) == told
    assert [problem.what for problem in found.problems] == ([] if what is None else [what])
    assert found.failure is (None if what is None else BrokerFailure.REFUSED)


async def test_a_broker_that_may_not_be_asked_about_a_topic_has_not_told_its_cache() -> None:
    hidden = MetadataTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "secret", None, False, ())
    connection = Answering(DescribeLogDirsResponse((LogDir(0, "/d", ()),)), (hidden,))
    found = await _ask(cast(KafkaConnection, connection), BrokerId(1), QueryScope({"secret"}))
    assert (found.cache, found.failure) == (None, BrokerFailure.REFUSED)
    why = "Metadata: it does not let User:lethe ask about topic secret, nor perhaps others"
    assert [problem.what for problem in found.problems] == [f"{why}; grant it Describe on all topics"]
    assert found.log_dirs is not None


async def test_an_answer_that_leaves_out_the_topic_that_was_asked_about_tells_no_cache() -> None:
    connection = Answering(DescribeLogDirsResponse((LogDir(0, "/d", ()),)))
    found = await _ask(cast(KafkaConnection, connection), BrokerId(1), QueryScope({"orders"}))
    assert (found.cache, found.failure) == (None, BrokerFailure.ERROR)
    assert [problem.what for problem in found.problems] == ["Metadata: it does not say whether it has topic orders"]
    assert found.log_dirs is not None
