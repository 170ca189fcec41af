"""`lethe topics delete`: what an expression may delete, what is asked first, and waiting until nothing is left."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from adapters import topic_admin
from adapters.deletion_progress import BrokerView, Target, targets
from cli.answer import Answer, Exit, Refusal
from cli.deletion_wait import wait_until_gone
from cli.topics_create import Wanted, creation
from cli.topics_delete import deletion, selected
from protocol.vocabulary import Broker, TopicId
from protocol.zookeeper import paths
from protocol.zookeeper.operations import Create, Delete
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper
from tests.fakes.zookeeper_cluster import apply, complete_deletion, elect


@pytest.fixture
async def cluster(session: FakeSession) -> FakeSession:
    for name in ("orders", "orders.eu", "bills", "__consumer_offsets"):
        await creation(session, Wanted(name, assignment=((1, 2),)))
    await elect(session, 1)
    return session


class Asked:
    """Somebody who is asked, and says what the test says."""

    def __init__(self, answer: bool) -> None:
        self.answer = answer
        self.shown: list[tuple[str, ...]] = []

    def __call__(self, names: Sequence[str]) -> bool:
        self.shown.append(tuple(names))
        return self.answer


async def test_an_exact_name_means_itself_and_is_not_asked_about(cluster: FakeSession) -> None:
    asked = Asked(False)
    assert await selected(cluster, ["orders.eu", "orders"], if_exists=False, confirm=asked) == ("orders", "orders.eu")
    assert asked.shown == []


async def test_what_a_pattern_hits_is_shown_first(cluster: FakeSession) -> None:
    asked = Asked(True)
    assert await selected(cluster, [".*"], if_exists=False, confirm=asked) == ("bills", "orders", "orders.eu")
    assert asked.shown == [("bills", "orders", "orders.eu")]
    with pytest.raises(Refusal, match="nothing was deleted"):
        await selected(cluster, ["orders.*"], if_exists=False, confirm=Asked(False))


@pytest.mark.parametrize(
    "expression,words",
    [("nothing", "topic nothing does not exist"), ("__consumer_offsets", "internal"), ("x.*", "does not exist")],
)
async def test_one_that_cannot_be_deleted_keeps_the_others_too(
    cluster: FakeSession, expression: str, words: str
) -> None:
    with pytest.raises(Refusal, match=words):
        await selected(cluster, ["orders", expression], if_exists=False, confirm=None)
    assert (await topic_admin.list_topics(cluster)).marked == ()


async def test_if_exists(cluster: FakeSession) -> None:
    assert await selected(cluster, ["nothing", "bills"], if_exists=True, confirm=None) == ("bills",)


async def test_a_mark_without_a_topic_can_be_waited_for(cluster: FakeSession) -> None:
    await apply(cluster, Create(paths.delete_topic("ghost"), None))
    assert await selected(cluster, ["ghost"], if_exists=False, confirm=None) == ("ghost",)


async def test_marking(cluster: FakeSession) -> None:
    first = await deletion(cluster, ["orders"])
    assert first.lines == ("Topic orders is marked for deletion.",)
    assert first.exit is Exit.OK
    again = await deletion(cluster, ["orders", "bills"])
    assert again.lines == ("Topic orders is already marked for deletion.", "Topic bills is marked for deletion.")
    assert (await topic_admin.list_topics(cluster)).marked == ("bills", "orders")


async def test_an_unknown_outcome_is_no_success(cluster: FakeSession) -> None:
    await deletion(cluster, ["bills"])
    cluster.lose_next_reply(applied=True)
    assert (await deletion(cluster, ["orders"])).exit is Exit.UNREACHABLE


async def test_without_a_controller_it_is_said(session: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    await creation(session, Wanted("orders", assignment=((1,),)))
    await deletion(session, ["orders"])
    assert "no controller is active" in capsys.readouterr().err


@dataclass
class Stage:
    """Brokers whose answers, and a ZooKeeper whose contents, change from one look to the next."""

    session: FakeSession
    topic: str = "orders"
    looks: int = 0
    cached: tuple[frozenset[int], ...] = ()
    stored: tuple[frozenset[int], ...] = ()
    completes: dict[int, str] = field(default_factory=dict)
    """Number of a look → the topic whose deletion is completed during it."""
    failed_log_dirs: dict[int, tuple[str, ...]] = field(default_factory=dict)
    log: list[tuple[int, int]] = field(default_factory=list)

    async def __call__(self, broker: Broker, topics: Sequence[Target]) -> BrokerView | None:
        if broker.id == 1:
            self.looks += 1
            if self.looks in self.completes:
                await complete_deletion(self.session, self.completes[self.looks])
        self.log.append((self.looks, len(topics)))
        names: dict[str, TopicId | None] = {self.topic: None} if self._has(self.cached, broker) else {}
        stored = frozenset({self.topic}) if self._has(self.stored, broker) else frozenset()
        return BrokerView(names, stored, self.failed_log_dirs.get(broker.id, ()))

    def _has(self, places: tuple[frozenset[int], ...], broker: Broker) -> bool:
        return self.looks <= len(places) and broker.id in places[self.looks - 1]


async def test_waiting_ends_when_all_three_places_are_clean(
    cluster: FakeSession, capsys: pytest.CaptureFixture[str]
) -> None:
    both = frozenset({1, 2})
    stage = Stage(
        cluster, cached=(both, frozenset({2})), stored=(both, both, both, frozenset({2})), completes={4: "orders"}
    )
    answer = await deletion(cluster, ["orders"], ask=stage, timeout_ms=60_000)
    assert answer.exit is Exit.OK
    assert stage.looks == 5
    (row,) = answer.tables[0].rows
    assert row[:2] == ("orders", "deleted")
    assert row[-1] == ""
    assert isinstance(answer.data, list)
    (body,) = answer.data
    assert isinstance(body, dict)
    assert body["deleted"] is True
    caches, logs = body["caches_clean_after_ms"], body["logs_clean_after_ms"]
    assert isinstance(caches, int)
    assert isinstance(logs, int)
    assert caches <= logs
    shown = capsys.readouterr().err
    assert "clean: ZooKeeper 0/1, broker 1 cache 0/1, broker 1 logs 0/1" in shown
    assert "broker 1 cache 1/1, broker 1 logs 0/1, broker 2 cache 0/1" in shown


async def test_waiting_gives_up_and_says_what_for(cluster: FakeSession) -> None:
    await apply(cluster, Delete(paths.broker_id(2)))
    answer = await deletion(cluster, ["orders"], ask=Stage(cluster), timeout_ms=1)
    assert answer.exit is Exit.TIMED_OUT
    assert answer.tables[0].rows[0][1] == "waiting"
    assert answer.tables[0].rows[0][-1] == "broker 2 to come back"
    assert answer.lines[0].startswith("0 of 1 topics deleted after ")


async def test_waiting_names_a_log_directory_that_has_failed(cluster: FakeSession) -> None:
    stage = Stage(cluster, failed_log_dirs={2: ("/data/b",), 3: ("/data/c",)})
    answer = await deletion(cluster, ["orders"], ask=stage, timeout_ms=1)
    assert answer.exit is Exit.TIMED_OUT
    shown = answer.tables[0].rows[0][-1]
    assert shown.startswith("broker 2 whose log directory /data/b has failed")
    assert "restart the broker" in shown
    assert "/data/c" not in shown  # broker 3 has no replica
    assert isinstance(answer.data, list)
    (body,) = answer.data
    assert isinstance(body, dict)
    assert body["failed_log_dirs"] == [{"broker": 2, "path": "/data/b"}]
    assert body["waits_for"] == shown


async def test_a_controller_that_drops_marks_is_noticed(cluster: FakeSession, zookeeper: FakeZooKeeper) -> None:
    async def drop_mark() -> None:
        while not (await topic_admin.list_topics(cluster)).marked:
            await asyncio.sleep(0)
        await apply(cluster, Delete(paths.delete_topic("orders")))

    async def delete() -> Answer:
        return await deletion(cluster, ["orders"], ask=Stage(cluster), timeout_ms=60_000)

    answer, _ = await asyncio.gather(delete(), drop_mark())
    assert answer.exit is Exit.NO
    assert answer.tables[0].rows[0][1] == "refused"
    assert "delete.topic.enable" in answer.tables[0].rows[0][-1]


async def test_topics_that_are_done_are_not_asked_about_again(cluster: FakeSession) -> None:
    stage = Stage(cluster, completes={2: "orders", 4: "bills"})
    await deletion(cluster, ["bills", "orders"])
    wanted = await targets(cluster, ["bills", "orders"])
    waited = await wait_until_gone(cluster, wanted, stage, timeout_ms=60_000, quiet=True, poll_ms=1)
    assert all(progress.is_done for progress in waited.progress)
    assert dict(stage.log) == {1: 2, 2: 2, 3: 2, 4: 1, 5: 1}, "topics asked about in each look"
