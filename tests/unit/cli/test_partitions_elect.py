"""`lethe partitions elect --preferred`: what is asked for, what cannot be, and what came of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lethe.admin import topic_znodes
from lethe.admin.partition_names import parse_selector
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_creation import TopicCreationRequest
from lethe.cli.answer import Answer
from lethe.cli.partitions_elect import preferred_election
from lethe.cli.topics_create import creation
from lethe.protocol.vocabulary import LeaderAndIsr, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Data, Delete, Exists, GetData, Present, SetData
from lethe.protocol.zookeeper.znodes import decode_preferred_replica_election, encode_state
from lethe.survey.znodes import ZnodeUnreadable
from tests.fakes.forbidden_znodes import forbidding
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply, bring_online, elect


@pytest.fixture
async def cluster(session: FakeSession) -> FakeSession:
    """orders: 0 is led by 2 instead of 1, 1 as it should be; 2 prefers 3, which is not in sync; 3 prefers one that
    is not there."""
    await creation(session, TopicCreationRequest("orders", assignment=((1, 2), (2, 3), (3, 1))))
    await apply(
        session,
        SetData(paths.topic("orders"), b'{"version":3,"partitions":{"0":[1,2],"1":[2,3],"2":[3,1],"3":[9,1]}}', -1),
    )
    await bring_online(session, "orders", {0: (2, 1), 1: (2, 3), 2: (1,), 3: (1, 9)})
    await creation(session, TopicCreationRequest("leaving", assignment=((1, 2),)))
    await bring_online(session, "leaving", {0: (2, 1)})
    await topic_znodes.mark_for_deletion(session, ["leaving"])
    await elect(session, 1)
    return session


class Controller:
    """Takes the request as soon as it is made, and elects (or does not)."""

    def __init__(self, session: FakeSession, *, elects: bool = True) -> None:
        self._session = session
        self._elects = elects
        self.requests: list[tuple[TopicPartition, ...]] = []

    async def multi(self, operations: Any) -> Any:
        outcome = await self._session.multi(operations)
        (found,) = await self._session.read([GetData(paths.PREFERRED_REPLICA_ELECTION)])
        if isinstance(found, Data):
            self.requests.append(decode_preferred_replica_election(found.data))
            await apply(self._session, Delete(paths.PREFERRED_REPLICA_ELECTION))
            if self._elects:
                state = encode_state(LeaderAndIsr(1, 1, (2, 1), 1))
                await apply(self._session, SetData(paths.partition_state("orders", 0), state, -1))
        return outcome

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


def _results(answer: Answer) -> list[str]:
    data: Any = answer.data
    return [one["result"] for one in data]


async def test_only_what_can_be_is_asked_for(cluster: FakeSession) -> None:
    controller = Controller(cluster)
    session: Any = controller
    answer = await preferred_election(session, [])
    assert controller.requests == [(TopicPartition("orders", 0),)]
    assert answer.exit is Exit.NO
    assert _results(answer) == [
        "no: its topic is marked for deletion",
        "elected",
        "the preferred replica leads already",
        "no: the preferred replica 3 is not in sync (in sync: 1)",
        "no: the preferred replica 9 is on a broker that is not registered",
    ]
    assert ("orders", "0", "2", "1", "elected") in answer.tables[0].rows
    assert (await preferred_election(session, [parse_selector("orders:0")])).exit is Exit.OK
    assert len(controller.requests) == 1


async def test_a_dry_run_asks_for_nothing(cluster: FakeSession) -> None:
    answer = await preferred_election(cluster, [parse_selector("orders:0")], dry_run=True)
    assert _results(answer) == ["would be elected"]
    assert not isinstance((await cluster.read([Exists(paths.PREFERRED_REPLICA_ELECTION)]))[0], Present)


async def test_what_was_asked_for_and_not_done(cluster: FakeSession) -> None:
    session: Any = Controller(cluster, elects=False)
    answer = await preferred_election(session, [parse_selector("orders:0")])
    assert answer.exit is Exit.NO
    assert _results(answer)[0].startswith("no: the controller did not elect it")
    nobody = await preferred_election(cluster, [parse_selector("orders:0")], timeout_ms=1)
    assert nobody.exit is Exit.TIMED_OUT
    assert _results(nobody) == ["not taken up yet"]


async def test_the_request_of_another_tool_is_waited_for(cluster: FakeSession) -> None:
    await apply(cluster, Create(paths.PREFERRED_REPLICA_ELECTION, b'{"version":1,"partitions":[]}'))
    session: Any = Controller(cluster)
    electing = asyncio.create_task(preferred_election(session, [parse_selector("orders:0")], timeout_ms=30_000))
    while session.requests:
        await asyncio.sleep(0)
    await apply(cluster, Delete(paths.PREFERRED_REPLICA_ELECTION))
    assert _results(await electing) == ["elected"]


async def test_a_request_whose_existence_is_refused_was_not_taken(cluster: FakeSession) -> None:
    blind = forbidding(cluster, paths.PREFERRED_REPLICA_ELECTION, tells_existence=False)
    with pytest.raises(ZnodeUnreadable, match="/admin/preferred_replica_election: NO_AUTH"):
        await preferred_election(blind, [parse_selector("orders:0")])


async def test_what_is_not_there(cluster: FakeSession) -> None:
    for text, words in (("nothing", "does not exist"), ("orders:9", "no partition 9")):
        with pytest.raises(Refusal, match=words):
            await preferred_election(cluster, [parse_selector(text)])


async def test_a_state_that_cannot_be_understood_is_unseen(cluster: FakeSession) -> None:
    await apply(cluster, SetData(paths.partition_state("orders", 1), b"{", -1))
    answer = await preferred_election(cluster, [parse_selector("orders:1")])
    data: Any = answer.data
    assert answer.exit is Exit.NO
    assert data[0]["problem"].startswith("its state is unseen: znode /brokers/topics/orders/partitions/1/state cannot")
    assert answer.tables[0].rows[0][2:4] == ("unseen", "unseen")


async def test_an_election_whose_result_is_unseen_is_not_refused_by_the_controller(cluster: FakeSession) -> None:
    class Spoiler(Controller):
        async def multi(self, operations: Any) -> Any:
            outcome = await super().multi(operations)
            await apply(cluster, SetData(paths.partition_state("orders", 0), b"{", -1))
            return outcome

    session: Any = Spoiler(cluster)
    answer = await preferred_election(session, [parse_selector("orders:0")])
    assert answer.exit is Exit.UNREACHABLE
    assert answer.tables[0].rows[0][2:4] == ("2", "unseen")
    assert answer.tables[0].rows[0][4].startswith("unseen: znode /brokers/topics/orders/partitions/0/state cannot")
