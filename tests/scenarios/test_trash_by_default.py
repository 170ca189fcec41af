"""Topics go into the trash by the controller's configuration, whoever marks them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lethe.controller.core.context import Role
from lethe.controller.core.scope import Scope
from lethe.protocol.causes import CauseKind
from lethe.protocol.deletion_grace import GraceRule, parse_grace
from lethe.protocol.kafka.versions import InterBrokerProtocol
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete
from lethe.protocol.zookeeper.znodes import (
    ConfigChange,
    DeletionOrders,
    OfflineReplicas,
    TrashPhase,
    encode_config,
    encode_config_change,
    encode_deletion_marker,
)
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import causes, cluster, is_gone, led, refusals, with_topic
from tests.scenarios.test_protected_topics import EVERYWHERE, mark
from tests.scenarios.test_trash import DAY_MS, FREEZE_MS, entry, phase_of, purge, settings
from tests.scenarios.test_undelete_marked import request


def rules(text: str) -> tuple[GraceRule, ...]:
    parsed = parse_grace(text)
    assert not isinstance(parsed, str)
    return parsed


def graced(text: str, ibp: str = "3.9") -> OneController:
    """A cluster with topics orders and bills, whose controller has these rules in its file."""
    world = OneController(ibp=InterBrokerProtocol.parse(ibp))
    world.context.config = replace(world.context.config, grace=rules(text))
    return with_topic(with_topic(cluster(world=world), "orders", (1, 2)), "bills", (2, 3))


def configure(world: OneController, text: str | None) -> None:
    """Write the rules into ZooKeeper, as Kafka's tools do; None removes them."""
    path = paths.config_broker_default()
    if world.exists(path):
        world.write(Delete(path))
    if text is not None:
        world.write(Create(path, encode_config({"lethe.deletion.grace": text})))
    world.write(Create(paths.config_change(), encode_config_change(ConfigChange(EVERYWHERE)), sequential=True))
    world.run()


def mark_with(world: OneController, name: str, orders: DeletionOrders) -> None:
    world.write(Create(paths.delete_topic(name), encode_deletion_marker(orders)))
    world.run()


def test_kafkas_marker_puts_a_topic_into_the_trash_by_the_first_rule_that_matches() -> None:
    world = graced("ord*:24h, *:0")
    mark(world, "orders", "bills")
    assert is_gone(world, "bills")
    world.advance(FREEZE_MS)
    found = entry(world)
    assert found is not None
    assert (found.phase, found.grace_ms) == (TrashPhase.TRASHED, DAY_MS)
    request(world, "orders")
    assert led(world, "orders") == (1, 1, (1, 2))


def test_topic_that_no_rule_matches_is_deleted_at_once() -> None:
    world = graced("ord*:24h")
    mark(world, "bills")
    assert is_gone(world, "bills")


@pytest.mark.parametrize("grace_ms, text", [(0, "*:24h"), (5_000, "*:24h"), (5_000, "*:0")])
def test_order_of_the_marker_comes_first(grace_ms: int, text: str) -> None:
    world = graced(text)
    mark_with(world, "orders", DeletionOrders(grace_ms=grace_ms))
    world.advance(FREEZE_MS)
    found = entry(world)
    assert (found.grace_ms if found is not None else 0) == grace_ms
    assert is_gone(world, "orders") is (grace_ms == 0)


def test_topic_that_cannot_go_into_the_trash_stays_in_service_until_the_rule_does_not_ask_for_it() -> None:
    world = graced("*:24h", ibp="2.7")
    mark(world, "orders")
    assert refusals(world, "topic/orders")[0].startswith("it has no id")
    assert causes(world, "orders") == [(None, None, "TRASH")]
    world.advance(DAY_MS)
    assert led(world, "orders") == (1, 0, (1, 2))
    world.crash()
    world.elect()
    assert led(world, "orders") is not None, "nor does the next controller delete it"
    configure(world, "orders:0, *:24h")
    assert is_gone(world, "orders")
    mark_with(world, "bills", DeletionOrders(grace_ms=0))
    assert is_gone(world, "bills"), "without the trash by its order"


def test_rules_change_while_the_controller_runs() -> None:
    world = graced("*:0")
    configure(world, "orders:1h")
    mark(world, "orders")
    world.advance(FREEZE_MS // 2)
    configure(world, "orders:24h")
    world.advance(FREEZE_MS)
    found = entry(world)
    assert found is not None
    assert (found.phase, found.grace_ms) == (TrashPhase.TRASHED, 3_600_000), "what held when it was marked, holds"
    configure(world, None)
    mark(world, "bills")
    assert is_gone(world, "bills")


def test_rules_that_cannot_be_understood_change_nothing() -> None:
    world = graced("*:0")
    configure(world, "orders:1h")
    configure(world, "orders")
    problem = "'orders' is not a pattern and a duration, such as orders.*:24h"
    assert problem in refusals(world, "cluster")
    mark(world, "orders")
    assert phase_of(world) is TrashPhase.FREEZING


def test_controller_that_cannot_understand_the_rules_deletes_nothing() -> None:
    world = graced("*:0")
    configure(world, "orders=1h")
    world.crash()
    world.mark("bills")
    world.elect()
    assert causes(world, "bills") == [(None, None, "CONFIGURATION")]
    configure(world, "orders:1h")
    assert is_gone(world, "bills")


def test_deletion_that_has_begun_goes_on_under_the_next_controller() -> None:
    world = graced("*:0")
    world.stop_broker(2)
    world.run()
    mark(world, "orders")
    assert causes(world, "orders") == [(0, 2, "BROKER_TO_RETURN")]
    configure(world, "*:24h")
    assert causes(world, "orders") == [(0, 2, "BROKER_TO_RETURN")]
    world.crash()
    world.elect()
    assert phase_of(world) is None
    world.start_broker(2)
    world.run()
    assert is_gone(world, "orders")


def test_order_to_owe_is_kept_for_the_end() -> None:
    world = graced("*:24h")
    mark_with(world, "orders", DeletionOrders(offline_replicas=OfflineReplicas.OWE))
    world.advance(FREEZE_MS)
    assert phase_of(world) is TrashPhase.TRASHED
    world.stop_broker(2)
    world.run()
    purge(world)
    assert not world.exists(paths.topic("orders"))
    assert [key.broker for key in dict(world.context.cluster.debts.all())] == [2]


def test_controller_that_is_here_for_a_rescue_has_no_default() -> None:
    world = graced("*:24h")
    world.crash()
    world.context.config = replace(world.context.config, scope=Scope(frozenset(("orders",))))
    world.mark("orders")
    world.elect()
    assert world.context.role is Role.ACTIVE
    assert is_gone(world, "orders")


def test_topic_is_held_by_its_marker_alone_and_comes_back_with_its_settings() -> None:
    world = graced("*:24h")
    mark(world, "orders")
    assert world.context.cluster.marks["orders"].held_by is CauseKind.TRASH
    request(world, "orders")
    assert settings(world) == {}
    assert led(world, "orders") == (1, 0, (1, 2))
