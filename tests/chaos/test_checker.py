"""One clean cluster, and each fault planted in it alone: each must be found, in its place."""

from __future__ import annotations

import ast
import json
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.chaos.checker import MISSING, RESIDUE, UNSEEN, Finding, Seen, Verdict, judge
from tests.chaos.disks import SeenDirectory
from tests.chaos.half_created import HalfCreated
from tests.chaos.history import NO_ID, History
from tests.chaos.raw_kafka import SeenCache, SeenPartition, SeenTopic
from tests.chaos.test_history import X, Y, created, elected, in_service, marked, played, removed, state, topic


@dataclass
class World:
    """`orders` has lived, was deleted, and was made again under id Y, with one partition on brokers 1 and 2."""

    history: History = field(
        default_factory=lambda: played(
            elected(1, 1), created(), in_service(1), marked(), removed(1), created(Y), in_service(1)
        )
    )
    znodes: dict[str, bytes] = field(
        default_factory=lambda: {
            "/controller": b'{"brokerid": 1001}',
            "/brokers/topics/orders": topic(Y),
            "/brokers/topics/orders/partitions": b"",
            "/brokers/topics/orders/partitions/0": b"",
            "/brokers/topics/orders/partitions/0/state": state(1),
            "/config/topics/orders": b"{}",
        }
    )
    caches: dict[int, SeenCache | None] = field(
        default_factory=lambda: {broker: SeenCache(1001, (1, 2), {"orders": shown()}) for broker in (1, 2)}
    )
    directories: list[SeenDirectory] = field(default_factory=lambda: [directory(1), directory(2)])

    half_created: frozenset[HalfCreated] = frozenset()

    def verdict(self) -> Verdict:
        return judge(self.history, Seen(self.znodes, self.caches, self.directories, self.half_created))

    def cache(self, broker: int) -> dict[str, SeenTopic]:
        found = self.caches[broker]
        assert found is not None
        return found.topics


def shown(topic_id: uuid.UUID = Y, leader: int = 1, replicas: tuple[int, ...] = (1, 2)) -> SeenTopic:
    return SeenTopic(topic_id, 0, {0: SeenPartition(leader, replicas, 0)})


def directory(broker: int, topic_id: uuid.UUID = Y, state: str = "") -> SeenDirectory:
    name = f"orders-0.{'0' * 32}-{state}" if state else "orders-0"
    return SeenDirectory(broker, Path(f"/{broker}/{name}"), "orders", 0, topic_id, state, {})


def kinds(findings: list[Finding]) -> set[tuple[str, str]]:
    return {(each.kind, each.place) for each in findings}


def test_a_clean_cluster_has_no_finding() -> None:
    assert World().verdict() == Verdict()


def forget(world: World) -> None:
    world.directories.pop()


def leave_topic(world: World) -> None:
    world.znodes["/brokers/topics/gone"] = topic(X)


def leave_config(world: World) -> None:
    world.znodes["/config/topics/gone"] = b"{}"


def leave_marker(world: World) -> None:
    world.znodes["/admin/delete_topics/gone"] = b""


def leave_request(world: World) -> None:
    world.znodes["/admin/reassign_partitions"] = b"{}"


def go_on_moving(world: World) -> None:
    world.znodes["/brokers/topics/orders"] = topic(Y, adding_replicas={"0": [2]})


def lose_topic(world: World) -> None:
    del world.znodes["/brokers/topics/orders"]


def lose_state(world: World) -> None:
    del world.znodes["/brokers/topics/orders/partitions/0/state"]


def shrink_isr(world: World) -> None:
    said = {"controller_epoch": 1, "leader": 1, "isr": [1]}
    world.znodes["/brokers/topics/orders/partitions/0/state"] = json.dumps(said).encode()


def lose_leader(world: World) -> None:
    said = {"controller_epoch": 1, "leader": -1, "isr": [1]}
    world.znodes["/brokers/topics/orders/partitions/0/state"] = json.dumps(said).encode()


def show_ghost(world: World) -> None:
    world.cache(2)["gone"] = shown(X)


def show_old_id(world: World) -> None:
    world.cache(2)["orders"] = shown(X)


def show_nothing(world: World) -> None:
    world.cache(2).clear()


def show_no_leader(world: World) -> None:
    world.cache(2)["orders"] = shown(leader=-1)


def show_other_replicas(world: World) -> None:
    world.cache(2)["orders"] = shown(replicas=(2, 3))


def show_an_error(world: World) -> None:
    world.cache(2)["orders"] = replace(shown(), partitions={0: SeenPartition(1, (1, 2), 5)})


def show_no_other_broker(world: World) -> None:
    world.caches[2] = SeenCache(1001, (2,), {"orders": shown()})


def show_a_former_controller(world: World) -> None:
    world.caches[2] = SeenCache(1002, (1, 2), {"orders": shown()})


def resign(world: World) -> None:
    del world.znodes["/controller"]


def say_nothing(world: World) -> None:
    world.caches[2] = None


def leave_directory(world: World) -> None:
    world.directories.append(directory(3, X))


def leave_renamed(world: World) -> None:
    world.directories.append(directory(1, X, "delete"))


def leave_stray(world: World) -> None:
    world.directories.append(directory(1, X, "stray"))


def leave_unidentified(world: World) -> None:
    world.directories.append(directory(3, uuid.UUID(int=0)))


def keep_a_living_one_aside(world: World) -> None:
    world.directories[0] = directory(1, Y, "stray")


def hold_the_old_incarnation(world: World) -> None:
    world.directories[0] = directory(1, X)


def have_it_twice(world: World) -> None:
    world.directories.append(replace(directory(1), path=Path("/1/b/orders-0")))


@pytest.mark.parametrize(
    "plant,expected",
    [
        (leave_topic, {(RESIDUE, "zookeeper")}),
        (leave_config, {(RESIDUE, "zookeeper")}),
        (leave_marker, {(RESIDUE, "zookeeper")}),
        (leave_request, {(RESIDUE, "zookeeper")}),
        (go_on_moving, {(RESIDUE, "zookeeper")}),
        (lose_topic, {(MISSING, "zookeeper")}),
        (lose_state, {(MISSING, "zookeeper")}),
        (lose_leader, {(MISSING, "zookeeper")}),
        (shrink_isr, {(MISSING, "zookeeper")}),
        (show_ghost, {(RESIDUE, "caches")}),
        (show_old_id, {(RESIDUE, "caches")}),
        (show_nothing, {(MISSING, "caches")}),
        (show_no_leader, {(MISSING, "caches")}),
        (show_other_replicas, {(MISSING, "caches")}),
        (show_an_error, {(MISSING, "caches")}),
        (show_no_other_broker, {(MISSING, "caches")}),
        (show_a_former_controller, {(MISSING, "caches")}),
        (resign, {(MISSING, "zookeeper")}),
        (say_nothing, {(UNSEEN, "caches")}),
        (leave_directory, {(RESIDUE, "disks")}),
        (leave_renamed, {(RESIDUE, "disks")}),
        (leave_stray, {(RESIDUE, "disks")}),
        (leave_unidentified, {(RESIDUE, "disks")}),
        (forget, {(MISSING, "disks")}),
        (have_it_twice, {(MISSING, "disks")}),
        (keep_a_living_one_aside, {(RESIDUE, "disks"), (MISSING, "disks")}),
        (hold_the_old_incarnation, {(RESIDUE, "disks"), (MISSING, "disks")}),
    ],
)
def test_each_planted_fault_is_found(plant: Callable[[World], None], expected: set[tuple[str, str]]) -> None:
    world = World()
    plant(world)
    assert kinds(world.verdict().findings) == expected


def test_what_a_move_left_on_a_broker_that_was_away_is_listed_apart() -> None:
    world = World()
    world.history.incarnations[0].moved_from_dead.add((0, 3))
    leave_directory(world)
    verdict = world.verdict()
    assert verdict.findings == []
    assert verdict.left_by_moves == ["/3/orders-0"]


def test_what_a_kafka_broker_has_half_created_is_listed_apart() -> None:
    world = World(half_created=frozenset({(3, "orders", 0)}))
    world.directories.append(directory(3, NO_ID))
    verdict = world.verdict()
    assert verdict.findings == []
    assert verdict.left_by_kafka == ["/3/orders-0"]


@pytest.mark.parametrize(
    "left",
    [
        directory(3),
        directory(3, NO_ID, "stray"),
        replace(directory(3, NO_ID), segments={"0.log": 1}),
        directory(4, NO_ID),
    ],
    ids=["with an id", "set aside", "with records", "on another broker"],
)
def test_that_excuse_holds_for_nothing_else(left: SeenDirectory) -> None:
    world = World(half_created=frozenset({(3, "orders", 0)}))
    world.directories.append(left)
    assert kinds(world.verdict().findings) == {(RESIDUE, "disks")}


def test_the_excuse_holds_for_that_replica_alone() -> None:
    world = World()
    world.history.incarnations[0].moved_from_dead.add((0, 4))
    leave_directory(world)
    assert kinds(world.verdict().findings) == {(RESIDUE, "disks")}


@pytest.mark.parametrize(
    "module", ["checker", "disks", "half_created", "history", "raw_kafka", "raw_zookeeper", "txn_log"]
)
def test_what_decides_shares_no_code_with_what_it_judges(module: str) -> None:
    tree = ast.parse(Path(__file__).with_name(f"{module}.py").read_text())
    imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported += [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    assert imported
    foreign = [each for each in imported if each.partition(".")[0] not in sys.stdlib_module_names]
    assert [each for each in foreign if not each.startswith("tests.chaos.")] == []
