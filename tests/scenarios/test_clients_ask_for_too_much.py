"""What ZooKeeper does not take in one write is refused to the client, and the controller goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lethe.controller.core.context import Role
from lethe.protocol import client_rows
from lethe.protocol.kafka.admin_cluster import AlterUserScramCredentialsRequest, ScramUpsertion
from lethe.protocol.kafka.admin_configs import (
    TOPIC_RESOURCE,
    AlterableConfig,
    AlterableResource,
    IncrementalAlterConfigsRequest,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import AdminRequest, errors_of
from lethe.protocol.zookeeper.znodes import most_partitions
from tests.scenarios.moves import assignment
from tests.scenarios.plot import cluster, with_topic
from tests.scenarios.test_clients_add_partitions import grown, growth
from tests.scenarios.test_clients_create_topics import creation, wanted
from tests.scenarios.test_reassignment_api import alter


def partitions(validate_only: bool) -> AdminRequest:
    """As many as one write has room for, if nothing else were in it; so are the `topics`."""
    return growth(
        grown("orders", most_partitions(2, client_rows.ROW_BYTES)), grown("bills", 2), validate_only=validate_only
    )


def topics(validate_only: bool) -> AdminRequest:
    return creation(
        wanted("new", most_partitions(1, client_rows.ROW_BYTES), 1), wanted("small", 1, 1), validate_only=validate_only
    )


def setting(validate_only: bool) -> AdminRequest:
    replicas = ",".join(f"{number}:1" for number in range(150_000))
    config = AlterableConfig("leader.replication.throttled.replicas", replicas)
    small = AlterableConfig("retention.ms", "5")
    rows = (("orders", config), ("bills", small))
    resources = tuple(AlterableResource(TOPIC_RESOURCE, name, (each,)) for name, each in rows)
    return IncrementalAlterConfigsRequest(resources, validate_only)


def credential(_: bool) -> AdminRequest:
    upsertions = (ScramUpsertion("u", 1, 4096, bytes(1_000_000), b"x"), ScramUpsertion("v", 1, 4096, b"s", b"x"))
    return AlterUserScramCredentialsRequest((), upsertions)


@pytest.mark.parametrize("ask", [partitions, topics, setting, credential])
@pytest.mark.parametrize("validate_only", [False, True])
def test_a_row_that_is_too_large_is_refused_and_no_other(
    ask: Callable[[bool], AdminRequest], validate_only: bool
) -> None:
    world = with_topic(with_topic(cluster(), "orders", (1, 2)), "bills", (1, 2))
    answer = world.ask(ask(validate_only), 1)
    assert errors_of(answer) == (ErrorCode.INVALID_REQUEST, ErrorCode.NONE)
    assert "in ZooKeeper, and one write has room for 980,000." in repr(answer)
    assert world.context.role is Role.ACTIVE


def test_a_move_that_makes_a_znode_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is lowered: a topic of a megabyte takes seconds to make."""
    world = with_topic(with_topic(cluster(), "orders", (1, 2), (1, 2), (1, 2)), "bills", (1, 2))
    monkeypatch.setattr(client_rows, "ROW_BYTES", 220)
    errors = alter(world, orders_0=(3, 2), orders_1=(3, 2), orders_2=(3, 2), bills_0=(2, 1))
    assert {at: error.name for at, (error, _) in errors.items()} == {
        "orders-0": "INVALID_REQUEST",
        "orders-1": "INVALID_REQUEST",
        "orders-2": "INVALID_REQUEST",
        "bills-0": "NONE",
    }
    assert not assignment(world, "orders").is_being_reassigned
    assert world.context.role is Role.ACTIVE
