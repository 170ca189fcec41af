"""Topic names that are paths, in control requests and in ZooKeeper."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Final

from lethe.admin import topic_znodes
from lethe.admin.topic_plans import TopicPlan
from lethe.protocol.kafka.control import ControlRequest
from lethe.protocol.vocabulary import TopicId
from lethe.protocol.zookeeper.operations import (
    ANY_VERSION,
    Create,
    Delete,
    GetData,
    MultiDone,
    is_absent,
)
from tests.attacks.attack import Attack, Attempt, Seen, told
from tests.attacks.forged import deletes
from tests.attacks.http_attacks import TRAVERSAL
from tests.attacks.world import World, until
from tests.unit.broker.core import driver

FORGED_LINE: Final = "2026-01-01T00:00:00.000Z ERROR   lethe: written by the attacker"
NAMES: Final = (
    "..",
    ".",
    "",
    "../x",
    "../../outside/orders",
    "a/b",
    "/tmp/lethe-attack",
    "orders-0/../../../outside/orders",
    "a\0b",
    f"a\n{FORGED_LINE}",
    "..\\x",
    "x" * 250,
    "x" * 30_000,
)
IN_ZOOKEEPER: Final = ("%2e%2e%2f%2e%2e%2foutside%2forders", "..%2foutside", "a b", "~", "..\\x", "x" * 250)
"""ZooKeeper itself refuses a path with `..`, `.`, an empty part or NUL."""


def requests(make: Callable[[str], ControlRequest]) -> Attempt:
    """Return an attempt: a request for each name, by a user with ClusterAction, with the controller's id and epochs."""

    async def attempt(world: World) -> Seen:
        found: dict[str, None] = {}
        for name in NAMES:
            what, _ = await told(world.ask(await world.addressed(make(name))))
            found[what] = None
        is_forged = any(line.startswith(FORGED_LINE) for line in world.agent.process.output().splitlines())
        said = "a line of the log is forged" if is_forged else "no line of the log is forged"
        return Seen(f"{' or '.join(sorted(found))}; {said}", is_forged)

    return attempt


async def _as_in_the_topic(world: World) -> str:
    """Control: a topic in ZooKeeper is created, and deleted on request."""
    name = f"control-{next(world.names)}"
    await topic_znodes.create_topics(world.session, [TopicPlan(name, TopicId(uuid.uuid4()), ((1,),))])
    await until(lambda: len(world.directory(name)) == 1, f"{name} has a directory")
    await topic_znodes.mark_for_deletion(world.session, [name])

    async def is_gone() -> bool:
        (found,) = await world.session.read([GetData(f"/brokers/topics/{name}")])
        return is_absent(found) and not world.directory(name)

    await until(is_gone, f"{name} is gone")
    return "a topic of a legal name is created and deleted"


async def _in_zookeeper(world: World) -> Seen:
    """Topics of such names, as znodes; the attacker removes them afterwards."""
    for name in IN_ZOOKEEPER:
        made = await world.session.multi([Create(_topic(name), _ZNODE)])
        assert isinstance(made, MultiDone), made
    listed: list[str] = []

    async def are_listed() -> bool:
        state = await world.controller.get("/state")
        listed[:] = [each["path"] for each in (state or {}).get("set_aside", [])]
        return all(_topic(name) in listed for name in IN_ZOOKEEPER)

    await until(are_listed, "the controller lists the znodes")
    there = [path.name for log_dir in world.agent.log_dirs for path in log_dir.iterdir() if path.is_dir()]
    for name in IN_ZOOKEEPER:
        await world.session.multi([Delete(_topic(name), ANY_VERSION)])

    async def are_forgotten() -> bool:
        state = await world.controller.get("/state")
        return state is not None and not state["set_aside"]

    await until(are_forgotten, "the controller forgets the znodes")
    unknown = [name for name in there if not name.startswith(("orders-0", "ledger-0", "control-", "sacrifice-"))]
    return Seen(f"quarantined by the controller; directories: {', '.join(unknown) or 'none'}", bool(unknown))


async def _markers(world: World) -> Seen:
    """Requests to delete topics of such names."""
    for name in IN_ZOOKEEPER:
        await world.session.multi([Create(f"/admin/delete_topics/{name}", b"")])

    async def are_gone() -> bool:
        found = await world.session.read([GetData(f"/admin/delete_topics/{name}") for name in IN_ZOOKEEPER])
        return all(map(is_absent, found))

    await until(are_gone, "the controller takes the markers away")
    return Seen("the controller takes them away, and deletes nothing", False)


_ZNODE: Final = (
    b'{"partitions":{"0":[1]},"topic_id":"AAAAAAAAQACAAAAAAAAAAQ",'
    b'"adding_replicas":{},"removing_replicas":{},"version":3}'
)


def _topic(name: str) -> str:
    return f"/brokers/topics/{name}"


def _become(name: str) -> ControlRequest:
    return driver.become(name, TopicId(uuid.uuid4()), is_new=True)


_LIKE: Final = "that are paths or lines of a log"
ATTACKS: Final = (
    Attack(
        TRAVERSAL,
        f"StopReplica of {len(NAMES)} names {_LIKE}",
        deletes(),
        requests(driver.stop),
    ),
    Attack(TRAVERSAL, f"LeaderAndIsr of {len(NAMES)} names {_LIKE}", deletes(), requests(_become)),
    Attack(
        TRAVERSAL,
        f"UpdateMetadata, tombstones of {len(NAMES)} names {_LIKE}",
        deletes(),
        requests(lambda name: driver.tombstone(name, TopicId(uuid.uuid4()))),
    ),
    Attack(
        TRAVERSAL, f"{len(IN_ZOOKEEPER)} topics in ZooKeeper whose names are paths", _as_in_the_topic, _in_zookeeper
    ),
    Attack(
        TRAVERSAL, f"{len(IN_ZOOKEEPER)} requests to delete topics whose names are paths", _as_in_the_topic, _markers
    ),
)
