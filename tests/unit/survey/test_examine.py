"""Evidence about a topic that is nowhere: which other brokers may have its replicas."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lethe.protocol.vocabulary import Broker
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete
from lethe.protocol.zookeeper.znodes import encode_config
from lethe.survey.brokers import AskBroker, QueryScope
from lethe.survey.evidence import Evidence
from lethe.survey.examine import gather_evidence, read_holds
from lethe.survey.explain import DeletionVerdict, explain
from lethe.survey.unseen import unseen_text
from lethe.survey.views import BrokerAnswers
from tests.fakes.forbidden_znodes import NO_AUTH, forbidding
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply

OTHER = paths.topic("other")


def nothing_left(scope: QueryScope) -> AskBroker:
    async def answer(broker: Broker) -> BrokerAnswers:
        return BrokerAnswers(broker.id, cache={}, log_dirs=())

    return answer


def other_topic(text: str) -> Sequence[Create]:
    return (Create(OTHER, text.encode()),)


async def test_every_broker_is_known(session: FakeSession) -> None:
    await apply(session, *other_topic('{"version":1,"partitions":{"0":[1]}}'))
    evidence = await gather_evidence(session, ["orders"], nothing_left)
    assert explain(evidence, "orders").verdict is DeletionVerdict.GONE


async def test_a_topic_that_cannot_be_read_may_name_a_broker_that_is_away(session: FakeSession) -> None:
    def unseen(evidence: Evidence) -> str:
        assert explain(evidence, "orders").verdict is DeletionVerdict.UNSEEN
        return unseen_text(evidence.survey)

    await apply(session, *other_topic('{"version":1,"partitions":{"0":[9]}}'))
    words = unseen(await gather_evidence(forbidding(session, OTHER), ["orders"], nothing_left))
    consequence = "a broker that only this topic names is not known"
    assert words == f"ZooKeeper is clean, but {OTHER} was not seen ({NO_AUTH}; {consequence})"
    await apply(session, Delete(OTHER), *other_topic("{"))
    words = unseen(await gather_evidence(session, ["orders"], nothing_left))
    assert words.endswith(f"; {consequence})")


async def test_an_entry_of_the_trash_that_cannot_be_understood_is_unseen_of_its_own_topic_alone(
    session: FakeSession,
) -> None:
    await session.ensure_path(paths.TRASH)
    await apply(session, Create(paths.trashed("other"), b"?"))
    evidence = await gather_evidence(session, ["orders"], nothing_left)
    assert explain(evidence, "orders").verdict is DeletionVerdict.GONE
    evidence = await gather_evidence(session, ["other"], nothing_left)
    assert explain(evidence, "other").verdict is DeletionVerdict.IN_TRASH
    assert [where for where, _ in evidence.survey.problems] == [paths.trashed("other")]


@pytest.mark.parametrize("rules, why", [("orders:24h", None), ("orders", "'orders' is not a pattern and a duration")])
async def test_rules_of_the_trash_that_cannot_be_understood_hold_deletions(
    session: FakeSession, rules: str, why: str | None
) -> None:
    await session.ensure_path(paths.config_broker_default().rpartition("/")[0])
    data = encode_config({"lethe.deletion.grace": rules})
    await session.multi([Create(paths.config_broker_default(), data)])
    holds = await read_holds(session, None)
    assert (None if holds.unreadable is None else holds.unreadable.why) == (
        None if why is None else f"lethe.deletion.grace: {why}"
    )
