"""`lethe brokers forget`: what it writes off, whom it refuses, and the controller's answer."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import topic_znodes
from lethe.admin.broker_loads import look_at_brokers
from lethe.admin.controller_identity import ControllerIdentity
from lethe.admin.forgetting import forget, plan_of
from lethe.admin.marked_topics import AskController, MarkedFate
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_creation import TopicCreationRequest
from lethe.cli.brokers_forget import forgetting
from lethe.cli.topics_create import creation
from lethe.protocol.vocabulary import BrokerId, LeaderAndIsr
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Data, Delete, Exists, GetData, Present, SetData
from lethe.protocol.zookeeper.znodes import (
    Debt,
    DeletionOrders,
    ForgetRequest,
    OfflineReplicas,
    SavedPartition,
    TrashPhase,
    encode_debt,
    encode_deletion_marker,
    encode_forget_request,
    encode_state,
)
from lethe.survey.evidence import ControllerReport, ReportedTopic
from tests.fakes.forbidden_znodes import forbidding
from tests.fakes.questions import agrees, declines
from tests.fakes.trash import ENTRY, in_trash
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply, bring_online, complete_deletion, elect


@pytest.fixture
async def cluster(session: FakeSession) -> FakeSession:
    """Broker 3 is away for good: it owes a topic, has a marked one, and parts of two living ones."""
    await creation(session, TopicCreationRequest("alone", assignment=((3,),)))
    await creation(session, TopicCreationRequest("bills", assignment=((1, 3), (3, 1), (1, 2))))
    await creation(session, TopicCreationRequest("orders", assignment=((1, 3),)))
    await bring_online(session, "alone", {0: (3,)})
    await bring_online(session, "bills", {0: (1,), 1: (1,), 2: (1, 2)})
    await bring_online(session, "orders", {0: (1,)})
    await topic_znodes.mark_for_deletion(session, ["orders"])
    await elect(session, 1, admin="http://localhost:1")
    await session.ensure_path(paths.debts_of(3))
    await apply(session, Create(paths.debt(3, "gone", 17), encode_debt(Debt(None, (0, 1), 0, 1_000, 64))))
    await apply(session, Delete(paths.broker_id(3)))
    return session


async def controller(session: FakeSession, refused: str | None = None, ended: tuple[str, ...] = ()) -> None:
    """Answers the request, as Lethe's controller does."""
    path = paths.forget(3)
    while not isinstance((await session.read([Exists(path)]))[0], Present):
        await asyncio.sleep(0)
    for name in ended:
        await complete_deletion(session, name)
    if refused is None:
        await apply(session, Delete(paths.debt(3, "gone", 17)), Delete(path))
    else:
        await apply(session, SetData(path, encode_forget_request(ForgetRequest(refused)), ANY_VERSION))


async def request(session: FakeSession) -> bytes | None:
    (found,) = await session.read([GetData(paths.forget(3))])
    return found.data if isinstance(found, Data) else None


def says(phase: str) -> AskController:
    """What Lethe's controller answers for the marked topic."""

    async def ask(_: ZooKeeperSession) -> ControllerReport:
        return ControllerReport({"orders": ReportedTopic("orders", phase=phase)})

    return ask


async def test_it_says_what_is_written_off_and_lost(cluster: FakeSession) -> None:
    answer = await forgetting(cluster, 3, confirm=None, dry_run=True, ask_controller=says("started"))
    assert answer.lines == (
        "Broker 3 would be forgotten.",
        (
            "Written off: 2 partitions of 1 deleted topic, 64 bytes, since 1970-01-01T00:00:01.000Z. Should it return, "
            "nothing deletes these bytes."
        ),
        "1 deletion ends without it: orders.",
        (
            "NO OTHER live replica is in sync of 1 living partition: alone-0. They are not touched; without its disks "
            "their records are lost."
        ),
        "One replica short are 2 living partitions: bills-0, bills-1. They are not touched.",
        "Move them to live brokers by a plan of yours: lethe partitions reassign --help",
    )
    assert await request(cluster) is None
    assert isinstance(answer.data, dict)
    plan: Any = answer.data["plan"]
    assert (plan["only_here"], plan["one_replica_short"], plan["marked_topics"]) == (
        ["alone-0"],
        ["bills-0", "bills-1"],
        ["orders"],
    )
    assert [debt["topic"] for debt in plan["debts"]] == ["gone"]


async def test_a_deletion_that_waits_for_another_absent_broker_too_is_listed_apart(cluster: FakeSession) -> None:
    (other,) = await cluster.read([GetData(paths.broker_id(2))])
    assert isinstance(other, Data)
    await apply(cluster, Create(paths.broker_id(3), other.data))
    await creation(cluster, TopicCreationRequest("both", assignment=((1, 3), (2, 3))))
    await bring_online(cluster, "both", {0: (1,), 1: (2,)})
    await topic_znodes.mark_for_deletion(cluster, ["both"])
    await apply(cluster, Delete(paths.broker_id(2)), Delete(paths.broker_id(3)))

    async def ask(_: ZooKeeperSession) -> ControllerReport:
        return ControllerReport({name: ReportedTopic(name, phase="started") for name in ("both", "orders")})

    answer = await forgetting(cluster, 3, confirm=None, dry_run=True, ask_controller=ask)
    assert "1 deletion ends without it: orders." in answer.lines
    assert (
        "1 deletion waits for other absent brokers too: both (broker 2). Forget them at the same time, or first have "
        "lethe topics delete --owe end these deletions; until then nothing is written off."
    ) in answer.lines
    assert isinstance(answer.data, dict)
    plan: Any = answer.data["plan"]
    assert plan["also_elsewhere"] == {"both": [2]}

    seen = await look_at_brokers(cluster, ask=None)
    by_kafka = replace(seen, acting=ControllerIdentity(BrokerId(1), is_lethe=False), fates={"both": MarkedFate.ENDING})
    assert (
        "1 deletion waits for other absent brokers too: both (broker 2). First have lethe rescue --owe end these "
        "deletions; until then nothing is written off."
    ) in plan_of(by_kafka, 3).lines()


async def test_a_marked_topic_that_is_kept_may_lose_its_records(cluster: FakeSession) -> None:
    """It is to go into the trash, and does not fit: it is in service, and no deletion ends."""
    state = paths.partition_state("orders", 0)
    await apply(cluster, SetData(state, encode_state(LeaderAndIsr(-1, 0, (3,), 1)), ANY_VERSION))
    unasked = await forgetting(cluster, 3, confirm=None, dry_run=True)
    assert "These deletions have not begun, as far as is known: orders." in unasked.lines
    assert unasked.lines[-1] == "What orders-0 loses is not known."
    marker = encode_deletion_marker(DeletionOrders(grace_ms=86_400_000))
    await apply(cluster, SetData(paths.delete_topic("orders"), marker, ANY_VERSION))
    for ask in (None, says("held")):
        answer = await forgetting(cluster, 3, confirm=None, dry_run=True, ask_controller=ask)
        assert not any("without it: orders" in line for line in answer.lines)
        assert any(
            "NO OTHER live replica is in sync of 2 living partitions: alone-0, orders-0" in x for x in answer.lines
        )
        assert isinstance(answer.data, dict)
        plan: Any = answer.data["plan"]
        assert (plan["held_topics"], plan["unknown"]) == (["orders"], [])
    begun = await forgetting(cluster, 3, confirm=None, dry_run=True, ask_controller=says("acknowledged"))
    assert "1 deletion ends without it: orders." in begun.lines


async def test_the_controller_does_it(cluster: FakeSession, capsys: pytest.CaptureFixture[str]) -> None:
    forgotten = forgetting(cluster, 3, confirm=agrees, timeout_ms=60_000)
    answer, _ = await asyncio.gather(forgotten, controller(cluster, ended=("orders",)))
    assert (answer.exit, answer.lines) == (Exit.OK, ("Broker 3 is forgotten.",))
    assert "Written off: 2 partitions" in capsys.readouterr().err


async def test_a_deletion_that_has_not_begun_does_not_end(cluster: FakeSession) -> None:
    """While deletions are paused or paced, a marked topic is held, and the request is carried out without it."""
    forgotten = forgetting(cluster, 3, confirm=None, timeout_ms=60_000)
    answer, _ = await asyncio.gather(forgotten, controller(cluster))
    assert answer.exit is Exit.NO
    assert answer.lines[-2:] == (
        "Broker 3 is forgotten.",
        (
            "Not ended: orders. These deletions have not begun, and will wait for broker 3, or owe it: see lethe "
            "explain orders, and forget it again once they do."
        ),
    )
    assert isinstance(answer.data, dict)
    assert (answer.data["forgotten"], answer.data["not_ended"]) == (True, ["orders"])


async def test_a_deletion_whose_marker_was_not_seen_is_not_said_to_go_on(cluster: FakeSession) -> None:
    """Newer ZooKeepers refuse Exists for znodes that the client may not read. The marker is gone, and may be there."""
    await in_trash(cluster, back=replace(ENTRY, partitions={0: SavedPartition((1, 3), 1, 0, (1,))}))
    path = paths.delete_topic("orders")
    forgotten = forgetting(forbidding(cluster, path, tells_existence=False), 3, confirm=None, timeout_ms=60_000)
    answer, _ = await asyncio.gather(forgotten, controller(cluster, ended=("orders",)))
    assert answer.lines[-2].startswith(
        f"Whether the deletion of orders has ended was not seen: {path} cannot be read: NO_AUTH"
    )
    assert answer.lines[-1].startswith("Not ended: back. ")
    assert isinstance(answer.data, dict)
    assert answer.data["not_ended"] == ["back"]
    unseen: Any = answer.data["not_ended_unseen"]
    assert [(each["topic"], each["path"]) for each in unseen] == [("orders", path)]
    assert answer.exit is Exit.NO


async def test_where_a_marker_was_not_seen_the_end_is_not_good(cluster: FakeSession) -> None:
    hidden = forbidding(cluster, paths.delete_topic("orders"), tells_existence=False)
    forgotten = forgetting(hidden, 3, confirm=None, timeout_ms=60_000)
    answer, _ = await asyncio.gather(forgotten, controller(cluster, ended=("orders",)))
    assert answer.exit is Exit.UNREACHABLE
    assert not any("Not ended" in line for line in answer.lines)


async def test_without_agreement_nothing_is_requested(cluster: FakeSession) -> None:
    with pytest.raises(Refusal, match="nothing was done"):
        await forgetting(cluster, 3, confirm=declines)
    assert await request(cluster) is None


async def test_a_refusal_is_told_and_leaves_no_request(cluster: FakeSession) -> None:
    forgotten = forgetting(cluster, 3, confirm=None, timeout_ms=60_000)
    answer, _ = await asyncio.gather(forgotten, controller(cluster, "broker 3 is registered"))
    assert (answer.exit, answer.lines[-1]) == (Exit.NO, "broker 3 is not forgotten: broker 3 is registered")
    assert await request(cluster) is None


async def test_without_an_answer_the_request_is_withdrawn(cluster: FakeSession) -> None:
    answer = await forgetting(cluster, 3, confirm=None, timeout_ms=1)
    assert answer.exit is Exit.UNREACHABLE
    assert answer.lines[-1].endswith("the request is withdrawn: deletions that have not ended wait for it again")
    assert await request(cluster) is None


async def test_a_request_lasts_until_it_is_ended_and_not_until_a_part_of_its_time_is_over(cluster: FakeSession) -> None:
    stopping = asyncio.Event()
    asked = asyncio.create_task(forget(cluster, 3, timeout_ms=60_000, poll_ms=1, stopping=stopping))
    while await request(cluster) is None:
        await asyncio.sleep(0)
    stopping.set()
    outcome = await asked
    assert outcome.is_unknown
    assert outcome.problem is not None
    assert "the request is withdrawn" in outcome.problem
    assert await request(cluster) is None


async def test_a_request_that_another_command_withdrew_forgets_nothing(cluster: FakeSession) -> None:
    commands = [forgetting(cluster, 3, confirm=None, timeout_ms=ms) for ms in (1, 60_000)]
    withdrawn, waiting = await asyncio.gather(*commands)
    assert "the request is withdrawn" in withdrawn.lines[-1]
    why = "its request is gone, and it still owes 2 partitions of 1 deleted topic"
    assert waiting.lines[-1].startswith(f"broker 3 is not forgotten: {why}")
    assert waiting.exit is Exit.UNREACHABLE


async def test_debts_that_stay_unseen_are_not_written_off(cluster: FakeSession) -> None:
    await apply(cluster, Create(paths.debt(3, "odd", 18), b"?"))
    forgotten = forgetting(cluster, 3, confirm=None, timeout_ms=60_000)
    answer, _ = await asyncio.gather(forgotten, controller(cluster))
    assert answer.lines[-1].startswith("whether broker 3 is forgotten is unknown: /lethe/debts/3/odd@18")
    assert answer.exit is Exit.UNREACHABLE


async def test_a_registered_broker_is_not_forgotten(cluster: FakeSession) -> None:
    with pytest.raises(Refusal, match="broker 1 is registered"):
        await forgetting(cluster, 1, confirm=None)
    await apply(cluster, Create(paths.broker_id(3), b"?"))
    with pytest.raises(Refusal, match="broker 3 is registered"):
        await forgetting(cluster, 3, confirm=None)


async def test_a_broker_that_nothing_names(cluster: FakeSession) -> None:
    with pytest.raises(Refusal, match="neither assignments nor debts name broker 77"):
        await forgetting(cluster, 77, confirm=None)


async def test_kafkas_controller_forgets_nobody(session: FakeSession) -> None:
    await creation(session, TopicCreationRequest("bills", assignment=((1, 3),)))
    await elect(session, 1)
    await apply(session, Delete(paths.broker_id(3)))
    with pytest.raises(Refusal, match="lethe rescue --forget 3"):
        await forgetting(session, 3, confirm=None)


async def test_debts_that_cannot_be_read_are_named(cluster: FakeSession) -> None:
    await apply(cluster, SetData(paths.debt(3, "gone", 17), b"?", ANY_VERSION))
    answer = await forgetting(cluster, 3, confirm=None, dry_run=True)
    assert answer.lines[1].startswith("What /lethe/debts/3/gone@17 says is unseen; written off where it is this")


async def test_topics_in_the_trash_lose_their_records_too(cluster: FakeSession) -> None:
    alone = replace(ENTRY, partitions={0: SavedPartition((3, 1), 3, 0, (3,)), 1: SavedPartition((1,), 1, 0, (1,))})
    elsewhere = replace(ENTRY, partitions={0: SavedPartition((3, 1), 3, 0, (3, 1))})
    await in_trash(cluster, precious=alone, copied=elsewhere, bills=alone.entering(TrashPhase.FREEZING, 0))
    await apply(cluster, Create(paths.trashed("odd"), b"?"))
    answer = await forgetting(cluster, 3, confirm=None, dry_run=True)
    assert (
        "NO OTHER live replica is in sync of 1 topic in the trash: precious. Without its disks their records are lost."
    ) in answer.lines
    assert answer.lines[-1] == "What odd in the trash loses is not known."
    assert isinstance(answer.data, dict)
    plan: Any = answer.data["plan"]
    assert (plan["only_here_in_trash"], plan["unknown"]) == (["precious"], ["odd in the trash"])


async def test_topics_in_the_trash_will_wait_for_it(cluster: FakeSession) -> None:
    """The request is long gone when their time is over."""
    shared = replace(ENTRY, partitions={0: SavedPartition((1, 3), 1, 0, (1,))})
    owing = replace(shared, offline_replicas=OfflineReplicas.OWE)
    await in_trash(cluster, old=shared, back=shared, owed=owing, other=ENTRY)
    planned = await forgetting(cluster, 3, confirm=None, dry_run=True)
    waiting = "These deletions have not begun, and will wait for broker 3, or owe it"
    assert f"In the trash: back, old. {waiting}." in planned.lines
    assert isinstance(planned.data, dict)
    plan: Any = planned.data["plan"]
    assert plan["in_trash"] == ["back", "old"]

    forgotten = forgetting(cluster, 3, confirm=agrees, timeout_ms=60_000)
    answer, _ = await asyncio.gather(forgotten, controller(cluster, ended=("orders",)))
    assert answer.exit is Exit.NO
    assert answer.lines == (
        "Broker 3 is forgotten.",
        f"Not ended: back, old. {waiting}: see lethe explain back, and forget it again once they do.",
    )
    assert isinstance(answer.data, dict)
    assert answer.data["not_ended"] == ["back", "old"]


async def test_a_topic_that_has_left_the_trash_meanwhile_is_not_waited_for(cluster: FakeSession) -> None:
    await in_trash(cluster, back=replace(ENTRY, partitions={0: SavedPartition((1, 3), 1, 0, (1,))}))

    async def returns(question: str) -> bool:
        returned.append(asyncio.ensure_future(apply(cluster, Delete(paths.trashed("back")))))
        return True

    returned: list[asyncio.Future[None]] = []
    forgotten = forgetting(cluster, 3, confirm=returns, timeout_ms=60_000)
    answer, _ = await asyncio.gather(forgotten, controller(cluster, ended=("orders",)))
    await asyncio.gather(*returned)
    assert (answer.exit, answer.lines) == (Exit.OK, ("Broker 3 is forgotten.",))


async def test_a_broker_that_only_the_trash_names(cluster: FakeSession) -> None:
    await in_trash(cluster, old=replace(ENTRY, partitions={0: SavedPartition((1, 77), 1, 0, (1,))}))
    with pytest.raises(Refusal) as refusal:
        await forgetting(cluster, 77, confirm=None)
    assert str(refusal.value) == (
        "neither assignments nor debts name broker 77: there is nothing to forget yet. In the trash: old. These "
        "deletions have not begun, and will wait for broker 77, or owe it: see lethe explain old, and "
        "forget it once they do"
    )
    assert await request(cluster) is None


async def test_a_topic_that_cannot_be_read_may_lose_something(cluster: FakeSession) -> None:
    await apply(cluster, SetData(paths.topic("bills"), b"?", ANY_VERSION))
    answer = await forgetting(cluster, 3, confirm=None, dry_run=True)
    assert answer.lines[-1] == "What bills loses is not known."
