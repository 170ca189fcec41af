"""`lethe partitions elect --unclean`: who is concerned, and that the settings are put back however it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from lethe.admin.partition_names import parse_selector
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_creation import TopicCreationRequest
from lethe.admin.unclean_election import put_back, settings_before, switch_on
from lethe.cli.answer import Answer
from lethe.cli.partitions_elect_unclean import unclean_election
from lethe.cli.topics_create import creation
from lethe.protocol.vocabulary import LeaderAndIsr
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Children, Data, Delete, GetChildren, GetData, ReadFailed, SetData
from lethe.protocol.zookeeper.znodes import decode_config, encode_state
from tests.fakes.questions import declines
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply, bring_online, elect

ORDERS = [parse_selector("orders:0")]
SETTINGS = paths.config_topic("orders")
BEFORE = b'{"config":{"retention.ms":"5"}, "version":1}'


@pytest.fixture
async def cluster(session: FakeSession) -> FakeSession:
    """orders: in sync was only broker 9, which is gone, of partitions 0 and 1; 2 is led by 1."""
    await creation(session, TopicCreationRequest("orders", assignment=((1, 2), (2, 3), (1, 3))))
    await bring_online(session, "orders", {0: (9,), 1: (), 2: (1, 3)})
    await apply(session, SetData(SETTINGS, BEFORE, -1))
    await elect(session, 1)
    return session


def _rows(answer: Answer) -> Any:
    return answer.data


async def _settings(session: FakeSession) -> bytes | None:
    (found,) = await session.read([GetData(SETTINGS)])
    return found.data if isinstance(found, Data) else None


async def _notifications(session: FakeSession) -> int:
    (found,) = await session.read([GetChildren(paths.CONFIG_CHANGES)])
    assert isinstance(found, Children)
    return len(found.names)


class Controller:
    """Elects as soon as the setting allows it; or does something else then."""

    def __init__(self, session: FakeSession, then: Any = None) -> None:
        self._session = session
        self._then = then
        self.allowed = False

    async def multi(self, operations: Any) -> Any:
        outcome = await self._session.multi(operations)
        data = await _settings(self._session)
        if not self.allowed and data is not None and "unclean" in str(decode_config(SETTINGS, data)):
            self.allowed = True
            if self._then is not None:
                await self._then()
            state = encode_state(LeaderAndIsr(2, 1, (2,), 1))
            await apply(self._session, SetData(paths.partition_state("orders", 0), state, -1))
        return outcome

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


async def test_it_is_elected_and_the_settings_are_as_before(
    cluster: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    session: Any = Controller(cluster)

    async def agrees_to_losses(question: str) -> bool:
        return "LOST" in question

    answer = await unclean_election(session, ORDERS, confirm=agrees_to_losses)
    assert session.allowed
    assert answer.exit is Exit.OK
    assert answer.tables[0].rows[0] == ("orders", "0", "9", "2", "elected")
    assert await _settings(cluster) == BEFORE
    assert await _notifications(cluster) == 2
    shown = capsys.readouterr().err
    assert "orders-1: no leader" in shown
    assert "not named, but the setting is its topic's" in shown
    assert "lethe topics alter --delete-config unclean.leader.election.enable orders" in shown


@pytest.mark.parametrize(
    "text,words",
    [
        ("orders:2", "all of these partitions have a leader"),
        ("nothing", "does not exist"),
        ("lost", "lost-0 has no replica on a registered broker"),
    ],
)
async def test_refusals(cluster: FakeSession, text: str, words: str) -> None:
    await creation(cluster, TopicCreationRequest("lost", assignment=((3,),)))
    await apply(cluster, Delete(paths.broker_id(3)))
    with pytest.raises(Refusal, match=words):
        await unclean_election(cluster, [parse_selector(text)], confirm=None)
    assert await _settings(cluster) == BEFORE


async def test_an_unseen_state_is_not_the_lack_of_a_leader(cluster: FakeSession) -> None:
    await apply(cluster, SetData(paths.partition_state("orders", 2), b"{", -1))
    for named in ("orders:2", "orders"):
        with pytest.raises(Refusal, match=r"the state of orders-2 is unseen: .*/partitions/2/state cannot be"):
            await unclean_election(cluster, [parse_selector(named)], confirm=None)
    assert await _settings(cluster) == BEFORE
    other = await unclean_election(cluster, ORDERS, confirm=None, dry_run=True)
    assert "orders-1: no leader" in other.lines[1]
    assert other.lines[2].startswith("WARNING: the state of orders-2 is unseen")
    assert "if it has no leader, it is elected too" in other.lines[2]
    assert [one["partition"] for one in _rows(other)] == [0, 1]


async def test_a_result_that_is_unseen_is_told_as_such(cluster: FakeSession) -> None:
    async def spoil() -> None:
        await apply(cluster, SetData(paths.partition_state("orders", 1), b"{", -1))

    session: Any = Controller(cluster, spoil)
    answer = await unclean_election(session, ORDERS, confirm=None)
    assert [row[-1].split(":")[0] for row in answer.tables[0].rows] == ["elected", "unseen"]
    assert [one["unseen"] is None for one in _rows(answer)] == [True, False]


async def test_nothing_happens_unasked_in_a_dry_run_or_without_a_controller(cluster: FakeSession) -> None:
    dry = await unclean_election(cluster, ORDERS, confirm=None, dry_run=True)
    assert "orders-0: no leader; in sync were [9]" in dry.lines[0]
    with pytest.raises(Refusal, match="nothing was done"):
        await unclean_election(cluster, ORDERS, confirm=declines)
    await apply(cluster, SetData(paths.CONTROLLER, b"{", -1))
    with pytest.raises(Refusal, match="the active controller is unseen: .*is not known") as refused:
        await unclean_election(cluster, ORDERS, confirm=None)
    assert refused.value.exit is Exit.UNREACHABLE
    await apply(cluster, Delete(paths.CONTROLLER))
    with pytest.raises(Refusal, match="no controller is active"):
        await unclean_election(cluster, ORDERS, confirm=None)
    assert await _notifications(cluster) == 0


async def test_the_settings_come_back_when_time_is_over(cluster: FakeSession) -> None:
    answer = await unclean_election(cluster, ORDERS, confirm=None, timeout_ms=1)
    assert answer.exit is Exit.TIMED_OUT
    assert await _settings(cluster) == BEFORE


async def test_the_settings_come_back_when_it_is_interrupted(cluster: FakeSession) -> None:
    electing = asyncio.create_task(unclean_election(cluster, ORDERS, confirm=None))
    while await _notifications(cluster) == 0:
        await asyncio.sleep(0)
    assert await _settings(cluster) != BEFORE
    electing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await electing
    assert await _settings(cluster) == BEFORE


async def test_where_there_were_no_settings_there_are_none_again(cluster: FakeSession) -> None:
    await apply(cluster, Delete(SETTINGS))
    session: Any = Controller(cluster)
    await unclean_election(session, ORDERS, confirm=None)
    assert session.allowed
    assert (await cluster.read([GetData(SETTINGS)]))[0] == ReadFailed(-101)  # type: ignore[arg-type]


async def test_what_somebody_else_sets_meanwhile_stays(cluster: FakeSession) -> None:
    async def other() -> None:
        data = b'{"version":1,"config":{"unclean.leader.election.enable":"true","segment.ms":"7"}}'
        await apply(cluster, SetData(SETTINGS, data, -1))

    session: Any = Controller(cluster, other)
    await unclean_election(session, ORDERS, confirm=None)
    assert decode_config(SETTINGS, await _settings(cluster)) == {"segment.ms": "7"}


async def test_lost_replies_do_not_leave_it_on(cluster: FakeSession) -> None:
    before = await settings_before(cluster, "orders")
    await switch_on(cluster, before)
    cluster.lose_next_reply(applied=False)
    assert (await put_back(cluster, before)).problem is None
    assert await _settings(cluster) == BEFORE
    await switch_on(cluster, await settings_before(cluster, "orders"))
    cluster.lose_next_reply(applied=True)
    assert (await put_back(cluster, before)).problem is None
    assert await _settings(cluster) == BEFORE


async def test_an_unknown_beginning_is_put_back_too(cluster: FakeSession) -> None:
    cluster.lose_next_reply(applied=True)
    with pytest.raises(Refusal, match="unknown"):
        await unclean_election(cluster, ORDERS, confirm=None)
    assert await _settings(cluster) == BEFORE


async def test_a_session_that_is_lost_says_how_to_undo_it(cluster: FakeSession) -> None:
    async def lose() -> None:
        cluster.end("expired")

    session: Any = Controller(cluster, lose)
    with pytest.raises(Refusal, match="STILL ALLOWED.*lethe topics alter --delete-config") as refusal:
        await unclean_election(session, ORDERS, confirm=None)
    assert refusal.value.exit is Exit.UNREACHABLE
