"""`lethe topics create`: the command line as a value, replica assignment, refusals; a dry run writes nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest

from lethe.admin import topic_znodes
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_creation import TopicCreationRequest
from lethe.cli.topics_create import creation, wanted_topic
from lethe.protocol.vocabulary import topic_id_from_text
from lethe.protocol.zookeeper import paths
from lethe.survey.znodes import ZnodeUnreadable
from tests.fakes.forbidden_znodes import forbidding
from tests.fakes.zookeeper import FakeSession


@pytest.mark.parametrize(
    "arguments,words",
    [
        (("a b", 1, 1, None, None), "characters other than"),
        (("a", 1, None, None, None), "are needed"),
        (("a", 1, None, "1:2", None), "says it all"),
        (("a", None, None, "1:x", None), "partition 0 is '1:x'"),
        (("a", 1, 1, None, ["retention.ms"]), "not of the form name=value"),
        (("a", 0, 1, None, None), "--partitions must be larger than 0, not 0"),
        (
            ("a", 10**9, 1, None, None),
            "--partitions is 1000000000, but a topic's znode has no room for more than 84259",
        ),
        (("a", 1, -1, None, None), "--replication-factor must be larger than 0, not -1"),
        (("a", 1, 1, None, ["retention.m=1"]), "Unknown topic config name: retention.m"),
        (("a", 1, 1, None, ["retention.ms=long"]), "Invalid value long for configuration retention.ms"),
        (("a", None, None, "1:2", ["retention.m=1"]), "Unknown topic config name"),
    ],
)
def test_contradictory_command_lines(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        wanted_topic(*arguments)


async def test_created_as_placed(session: FakeSession) -> None:
    wanted = wanted_topic("orders", 3, 2, None, ["retention.ms=5"], start_index=0)
    answer = await creation(session, wanted)
    assert answer.lines == ("Created topic orders.",)
    assert answer.exit is Exit.OK
    (topic,) = await topic_znodes.describe(session, ["orders"], ())
    assert [p.assignment.replicas for p in topic.partitions] == [(1, 2), (2, 3), (3, 1)]
    assert topic.config == {"retention.ms": "5"}
    assert isinstance(answer.data, dict)
    assert topic.topic_id == topic_id_from_text(str(answer.data["topic_id"]))


async def test_the_placement_is_drawn_where_nothing_is_said(session: FakeSession) -> None:
    wanted = wanted_topic("orders", 1, 1, None, None)
    leaders = set()
    for seed in range(20):
        answer = await creation(session, wanted, dry_run=True, rng=random.Random(seed))
        assert isinstance(answer.data, dict)
        leaders.add(str(answer.data["replicas"]))
    assert leaders == {"[[1]]", "[[2]]", "[[3]]"}
    assert (await topic_znodes.list_topics(session)).names == ()


async def test_an_assignment_is_taken_as_it_is(session: FakeSession) -> None:
    await creation(session, wanted_topic("orders", None, None, "3:1,1:3", None))
    (topic,) = await topic_znodes.describe(session, ["orders"], ())
    assert [p.assignment.replicas for p in topic.partitions] == [(3, 1), (1, 3)]


@pytest.mark.parametrize(
    "wanted,words",
    [
        (
            TopicCreationRequest("orders", 1, 4),
            r"topic orders: replication factor 4 is larger than .* 3 \(registered: 1, 2, 3\)",
        ),
        (TopicCreationRequest("orders", assignment=((1, 9),)), r"not registered: \[9\]"),
        (TopicCreationRequest("there", 1, 1), "topic there already exists"),
        (TopicCreationRequest("leaving", 1, 1), "marked for deletion"),
    ],
)
async def test_refusals(session: FakeSession, wanted: TopicCreationRequest, words: str) -> None:
    for name in ("there", "leaving"):
        await creation(session, TopicCreationRequest(name, 1, 1))
    await topic_znodes.mark_for_deletion(session, ["leaving"])
    with pytest.raises(Refusal, match=words) as refusal:
        await creation(session, wanted)
    assert refusal.value.exit is Exit.NO


async def test_if_not_exists(session: FakeSession) -> None:
    await creation(session, TopicCreationRequest("there", 1, 1))
    answer = await creation(session, TopicCreationRequest("there", 5, 3), if_not_exists=True)
    assert answer.exit is Exit.OK
    assert answer.data == {"topic": "there", "created": False, "dry_run": False}
    (topic,) = await topic_znodes.describe(session, ["there"], ())
    assert len(topic.partitions) == 1
    await topic_znodes.mark_for_deletion(session, ["there"])
    with pytest.raises(Refusal, match="marked for deletion"):
        await creation(session, TopicCreationRequest("there", 5, 3), if_not_exists=True)


async def test_brokers_are_not_read_where_all_topics_exist(session: FakeSession) -> None:
    await creation(session, TopicCreationRequest("there", 1, 1))
    blind = forbidding(session, paths.broker_ids())
    assert (await creation(blind, TopicCreationRequest("there", 1, 1), if_not_exists=True)).exit is Exit.OK
    with pytest.raises(ZnodeUnreadable):
        await creation(blind, TopicCreationRequest("other", 1, 1), if_not_exists=True)


async def test_a_lost_reply_ends_as_unreachable(session: FakeSession) -> None:
    session.lose_next_reply(applied=False)
    with pytest.raises(Refusal, match="unknown") as refusal:
        await creation(session, TopicCreationRequest("orders", 1, 1))
    assert refusal.value.exit is Exit.UNREACHABLE


async def test_names_that_can_collide_are_warned_of(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    await creation(session, TopicCreationRequest("a.b", 1, 1))
    assert "WARNING: metric names" in capsys.readouterr().err
