"""Sentences about the places that a survey could not see."""

from __future__ import annotations

from lethe.protocol.causes import CauseKind
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.survey.causes import ObservedCause
from lethe.survey.unseen import MAX_PLACES, unseen_text
from lethe.survey.views import (
    BrokerAnswers,
    BrokerFailure,
    BrokerPlace,
    LogDirSource,
    LogDirView,
    Problem,
    Survey,
    UnansweredQuestion,
    ZooKeeperTree,
)


def silent(number: int, place: BrokerPlace | None = None) -> BrokerAnswers:
    return BrokerAnswers(BrokerId(number), unseen=(UnansweredQuestion(BrokerFailure.SILENT, "silent", place),))


def test_each_unseen_place_is_named() -> None:
    failed = LogDirView(BrokerId(3), "/d1", LogDirSource.BROKER, problem="it has failed", has_failed=True)
    answers = (silent(1, BrokerPlace.CACHE), silent(2, BrokerPlace.LOGS))
    assert unseen_text(Survey(0, 0, ZooKeeperTree(), answers, (failed,))) == (
        "ZooKeeper is clean, but the metadata cache of broker 1 was not seen (silent); "
        "the log directories of broker 2 were not seen (silent); "
        "the log directory /d1 of broker 3 was not seen (it has failed)"
    )


def test_many_places_are_counted() -> None:
    answers = tuple(silent(number) for number in range(MAX_PLACES + 2))
    assert unseen_text(Survey(0, 0, ZooKeeperTree(), answers)).endswith("; 2 more places were not seen")
    assert unseen_text(Survey(0, 0, ZooKeeperTree(), answers[:-1])).endswith("; 1 more place was not seen")


def test_an_unread_list_of_topics_is_no_clean_zookeeper() -> None:
    tree = ZooKeeperTree(problems=(Problem(paths.BROKER_TOPICS, "NO_AUTH"),))
    owing = (ObservedCause(CauseKind.TOMBSTONE_OWED, BrokerId(4)),)
    assert unseen_text(Survey(0, 0, tree), owing) == (
        "ZooKeeper could not be read whole, and /brokers/topics was not seen (NO_AUTH); "
        "broker 4 may still tell clients of it"
    )
