"""The commands as their users run them: processes, exit codes and output, against a real ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.adapters.zookeeper.session import open_session
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Data, Exists, GetData, ReadFailed, ZkError
from tests.fakes.command_line import Lethe, Ran
from tests.fakes.zookeeper_cluster import apply, bring_online, complete_deletion, elect, prepare

pytestmark = pytest.mark.zookeeper


@pytest.fixture
async def session(zookeeper_chroot: str) -> AsyncIterator[ZooKeeperSession]:
    """Three brokers' registrations, in a chroot of their own. They listen nowhere."""
    config = ZooKeeperConfig(parse_connect_string(zookeeper_chroot), session_timeout_ms=20_000)
    async with open_session(config, lambda _: None) as session:
        await prepare(session, {1: None, 2: None, 3: None})
        yield session


@pytest.fixture
def lethe(zookeeper_chroot: str, session: ZooKeeperSession) -> Lethe:
    return Lethe(zookeeper_chroot)


async def test_the_life_of_a_topic(lethe: Lethe, session: ZooKeeperSession) -> None:
    created = await lethe(
        "topics", "create", "--topic", "orders", "--partitions", "2", "--replication-factor", "2",
        "--config", "retention.ms=5", "--start-index", "0",
    )  # fmt: skip
    assert created == Ran(0, "Created topic orders.\n", f"through ZooKeeper ({lethe.connect})\n")
    (topic, config) = await session.read([GetData(paths.topic("orders")), GetData(paths.config_topic("orders"))])
    assert isinstance(topic, Data)
    assert isinstance(config, Data)
    body = json.loads(topic.data or b"")
    assert (body["version"], body["partitions"]) == (3, {"0": [1, 2], "1": [2, 3]})
    assert config.data == b'{"version":1,"config":{"retention.ms":"5"}}'

    await bring_online(session, "orders", {0: (1, 2), 1: (2,)})
    described = await lethe("topics", "describe", "--topic", "orders", "--json")
    assert described.code == 0
    assert (described.data[0]["topic_id"], described.data[0]["through"]) == (body["topic_id"], "zookeeper")
    assert [p["under_replicated"] for p in described.data[0]["partitions"]] == [False, True]

    marked = await lethe("topics", "delete", "--topic", "orders")
    assert (marked.code, marked.out) == (0, "Topic orders is marked for deletion.\n")
    assert "waits for a controller: none is active" in marked.err
    assert (await lethe("topics", "list")).out == "orders - marked for deletion\n"
    again = await lethe(
        "topics", "create", "--topic", "orders", "--partitions", "1", "--replication-factor", "1", "--if-not-exists"
    )
    assert again.code == 1
    assert "marked for deletion" in again.err


async def test_a_typo_is_no_success_and_names_are_given_in_one_way(lethe: Lethe) -> None:
    made = await lethe("topics", "create", "orders", "--topic", "bills", "--replica-assignment", "1:2", "--json")
    assert (made.code, [topic["topic"] for topic in made.data]) == (0, ["orders", "bills"])
    assert (await lethe("topics", "list", "bills", "--topic", "orders")).out == "bills\norders\n"
    described = await lethe("topics", "describe", "orders", "--topic", "bills", "--json")
    assert [topic["topic"] for topic in described.data] == ["bills", "orders"]
    assert (await lethe("topics", "alter", "--topic", "orders", "--config", "retention.ms=5")).code == 0
    for command in (
        ("topics", "describe", "ordes"),
        ("topics", "delete", "ordes"),
        ("topics", "delete", "ordes", "--unreadable", "--yes"),
        ("topics", "alter", "ordes", "--partitions", "3"),
        ("topics", "list", "ordes"),
        ("partitions", "elect", "--preferred", "ordes"),
        ("partitions", "reassign", "ordes:0=1"),
    ):
        typo = await lethe(*command)
        assert typo.code == 1, (command, typo)
        assert "topic 'ordes' does not exist; did you mean orders?" in typo.err, (command, typo)
    missing = await lethe("explain", "ordes", "--without-controller")
    # The brokers of this cluster listen nowhere.
    assert missing.code == 3, missing
    assert missing.out.startswith("There is no topic ordes, and no trace of one as far as could be seen: ")
    assert missing.out.splitlines()[0].endswith("; did you mean orders?")
    twice = await lethe("explain", "orders", "bills")
    assert twice.code == 2
    assert "about one topic or --all, not about 2: orders, bills" in twice.err
    assert (await lethe("topics", "delete", "orders", "--topic", "bills")).code == 0
    assert "marked for deletion" in (await lethe("topics", "list", "orders")).out
    twice = await lethe("topics", "create", "a", "--partitions", "1", "--partitions", "2")
    assert twice.code == 2
    assert (await lethe("topics", "list")).out.count("\n") == 2


async def test_exit_codes_say_what_kind_of_no(lethe: Lethe, session: ZooKeeperSession) -> None:
    refused = await lethe("topics", "describe", "--topic", "nothing")
    said = f"through ZooKeeper ({lethe.connect})\nlethe: topic 'nothing' does not exist\n"
    assert (refused.code, refused.out, refused.err) == (1, "", said)
    usage = await lethe(
        "topics", "create", "--topic", "a/b", "--partitions", "1", "--replication-factor", "1", "--json"
    )
    assert usage.code == usage.data["exit"] == 2
    assert "'a/b'" in usage.data["error"]
    nowhere = await Lethe("127.0.0.1:1,127.0.0.1:x")("topics", "list")
    assert nowhere.code == 2
    assert "'127.0.0.1:x' is not host:port" in nowhere.err
    empty = await Lethe(lethe.connect + "/empty")("topics", "list")
    assert empty.code == 1
    assert "no broker has ever registered" in empty.err
    assert (await session.read([Exists("/empty")])) == [ReadFailed(ZkError.NO_NODE)]


async def test_a_pattern_deletes_nothing_unasked(lethe: Lethe) -> None:
    for name in ("a-1", "a-2", "b-1"):
        await lethe("topics", "create", "--topic", name, "--replica-assignment", "1")
    unasked = await lethe("topics", "delete", "--topic", "a-.*")
    assert unasked.code == 2
    assert "  a-1\n  a-2\n" in unasked.err
    assert "--yes" in unasked.err
    dry = await lethe("topics", "delete", "--topic", "a-.*", "--dry-run", "--json")
    assert dry.data == ["a-1", "a-2"]
    assert "marked" not in (await lethe("topics", "list")).out
    assert (await lethe("topics", "delete", "--topic", "a-.*", "--yes")).code == 0
    assert (await lethe("topics", "list")).out == "a-1 - marked for deletion\na-2 - marked for deletion\nb-1\n"


async def test_waiting_names_those_who_do_not_answer(lethe: Lethe, session: ZooKeeperSession) -> None:
    await elect(session, 1)
    await lethe("topics", "create", "--topic", "orders", "--replica-assignment", "1:2")
    waited = await lethe("topics", "delete", "--topic", "orders", "--wait", "--timeout-ms", "500", "--json")
    assert waited.code == 4
    (topic,) = waited.data
    assert (topic["deleted"], topic["znode"], topic["silent"]) == (False, True, [1, 2, 3])
    await complete_deletion(session, "orders")
    shown = await lethe("topics", "delete", "--topic", "orders", "--wait", "--timeout-ms", "500", "--if-exists")
    assert shown.code == 0
    assert shown.out == "Nothing to delete.\n"


async def test_resigning(lethe: Lethe, session: ZooKeeperSession) -> None:
    nobody = await lethe("controller-resign")
    assert nobody.code == 1
    assert "no active controller" in nobody.err
    await apply(session, Create(paths.CONTROLLER_EPOCH, b"3"))
    await elect(session, 2)
    alone = await lethe("controller-resign", "--timeout-ms", "1", "--json")
    assert alone.code == 4
    assert alone.data == {
        "resigned": {"controller": 2, "epoch": 3},
        "successor": None,
        "unconfirmed": {"gone": [], "marked": [], "ghosts": [], "missed": []},
        "unseen": None,
    }
