"""Every right that a broker misses is named at once: each answer of a broker counts for itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from lethe.adapters.kafka.missing_rights import (
    GRANT_COMMANDS,
    GRANT_DESCRIBE,
    GRANT_DESCRIBE_CLUSTER,
    GRANT_DESCRIBE_CONFIGS,
    answer_words,
)
from lethe.admin.doctor_look import examine
from lethe.admin.doctor_rules import suspects
from lethe.admin.doctor_unseen import unseen
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import Broker, BrokerId, ControllerEpoch
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create
from lethe.survey.broker_settings import BrokerSettings, EpochAnswer
from lethe.survey.views import BrokerAnswers, BrokerFailure, BrokerPlace, UnansweredQuestion
from tests.fakes.sick_cluster import FakeBrokers, make_healthy
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.fakes.zookeeper_cluster import apply

DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
REFUSING = 2


def lacking(grant: str) -> str:
    return answer_words(DENIED, "User:ann", grant)


@dataclass(slots=True)
class RefusingBrokers(FakeBrokers):
    """One of the brokers answers only what the rights allow that it was given."""

    given: set[str] = field(default_factory=set)
    cut_off: bool = False
    """The connection on which its settings are asked breaks."""

    async def _places(self, broker: Broker) -> BrokerAnswers:
        answers = await FakeBrokers._places(self, broker)
        if broker.id != REFUSING or int(broker.id) in self.silent:
            return answers
        cache, log_dirs = answers.cache, answers.log_dirs
        refused = []
        if GRANT_DESCRIBE not in self.given:
            refused.append(UnansweredQuestion(BrokerFailure.REFUSED, lacking(GRANT_DESCRIBE), BrokerPlace.CACHE))
            cache = None
        if GRANT_DESCRIBE_CLUSTER not in self.given:
            refused.append(UnansweredQuestion(BrokerFailure.REFUSED, lacking(GRANT_DESCRIBE_CLUSTER), BrokerPlace.LOGS))
            log_dirs = None
        return BrokerAnswers(broker.id, cache, answers.controller, log_dirs, tuple(refused))

    async def _settings(self, broker: Broker) -> BrokerSettings:
        if broker.id == REFUSING and self.cut_off:
            return BrokerSettings(broker.id, problem="it closed the connection")
        is_refused = broker.id == REFUSING and GRANT_DESCRIBE_CONFIGS not in self.given
        why = f"DescribeConfigs: {lacking(GRANT_DESCRIBE_CONFIGS)}" if is_refused else None
        return BrokerSettings(broker.id, None if is_refused else True, unseen=why)

    async def _epoch(self, broker: Broker, controller: BrokerId, epoch: ControllerEpoch) -> EpochAnswer:
        if broker.id == REFUSING and int(broker.id) not in self.silent and GRANT_COMMANDS not in self.given:
            return EpochAnswer(broker.id, DENIED, lacking(GRANT_COMMANDS))
        return await FakeBrokers._epoch(self, broker, controller, epoch)


@pytest.fixture
async def session() -> AsyncIterator[FakeSession]:
    async with FakeZooKeeper().open_session(lambda _: None) as session:
        await make_healthy(session)
        yield session


async def said(session: FakeSession, brokers: FakeBrokers) -> list[str]:
    """What is said of the refusing broker."""
    view = await examine(session, brokers.questions, suspects, settle_s=0)
    return [each.what for each in unseen(view) if each.where == f"broker {REFUSING}"]


ALL = (GRANT_DESCRIBE, GRANT_DESCRIBE_CLUSTER, GRANT_COMMANDS)


@pytest.mark.parametrize("given", [(), (GRANT_DESCRIBE,), (GRANT_DESCRIBE, GRANT_DESCRIBE_CLUSTER), ALL])
async def test_every_right_that_is_missing_is_named_at_once(session: FakeSession, given: tuple[str, ...]) -> None:
    lines = await said(session, RefusingBrokers(session, given={*given}))
    missing = [grant for grant in ALL if grant not in given]
    assert [line.rpartition("; ")[2] for line in lines] == missing


async def test_of_a_broker_that_is_away_one_thing_is_said(session: FakeSession) -> None:
    assert await said(session, RefusingBrokers(session, silent={REFUSING})) == ["it does not answer"]


async def test_settings_that_may_keep_marked_topics_are_unseen(session: FakeSession) -> None:
    brokers = RefusingBrokers(session, given={*ALL})
    assert await said(session, brokers) == [], "no topic is marked"
    await session.ensure_path(paths.DELETE_TOPICS)
    await apply(session, Create(paths.delete_topic("orders"), b""))
    (line,) = await said(session, brokers)
    assert line.startswith("whether its delete.topic.enable is false is not known: DescribeConfigs: CLUSTER_AUTHORI")
    assert line.endswith(f" for User:ann; {GRANT_DESCRIBE_CONFIGS}")
    brokers.given.add(GRANT_DESCRIBE_CONFIGS)
    assert await said(session, brokers) == []
    brokers.cut_off = True
    assert await said(session, brokers) == [
        "whether its delete.topic.enable is false is not known: it closed the connection"
    ]
    brokers.silent.add(REFUSING)
    assert await said(session, brokers) == ["it does not answer"]
