"""The rules on settings of topics: which writes a controller may make, and what it may answer."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import pytest

from lethe.protocol.kafka.admin_configs import (
    TOPIC_RESOURCE,
    AlterableConfig,
    AlterableResource,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlteredResource,
    AlterOperation,
    IncrementalAlterConfigsRequest,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import BrokerId, ReplicaAssignment, TopicId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, Operation, SetData
from lethe.protocol.zookeeper.znodes import TrashEntry, TrashPhase
from tests.simulation import client_answers, config_book
from tests.simulation.client_book import Arrived
from tests.simulation.cluster import Cluster
from tests.simulation.config_book import FROZEN, Alteration
from tests.simulation.ensemble import Writer
from tests.simulation.world import Violation, World

ID = TopicId(uuid.UUID(int=1))
CONTROLLER = Writer("controller 1000", 1)
PATH = paths.config_topic("t0")
SET, DELETE, APPEND, SUBTRACT = AlterOperation


def asks(*changes: AlterableConfig, whole: bool = False, validate_only: bool = False) -> Alteration:
    kind = AlterConfigsRequest if whole else IncrementalAlterConfigsRequest
    return kind((AlterableResource(TOPIC_RESOURCE, "t0", changes),), validate_only)


FLUSH = asks(AlterableConfig("flush.ms", "1"))


def settings(config: Mapping[str, str]) -> SetData:
    return SetData(PATH, znodes.encode_config(config), ANY_VERSION)


def book(cluster: Cluster, *operations: Operation, by: str = CONTROLLER.name) -> None:
    for operation in operations:
        cluster.ledger.book(by, operation, 9, by_controller=by == CONTROLLER.name)
    cluster.ledger.configs.book(by, operations, by_controller=by == CONTROLLER.name)


def living(config: Mapping[str, str]) -> Cluster:
    """Topic t0 lives, with these settings."""
    cluster = Cluster(World(0))
    topic = znodes.TopicZnode({0: ReplicaAssignment((BrokerId(1),))}, ID)
    create = Create(paths.topic("t0"), znodes.encode_topic(topic))
    book(cluster, Create(PATH, znodes.encode_config(config)), create, by="operator")
    return cluster


def arrived(cluster: Cluster, request: Alteration) -> Arrived:
    return cluster.ledger.clients.arrived(request, cluster.ledger)


def write(cluster: Cluster, *operations: Operation) -> None:
    config_book.writes_are_explained(cluster, CONTROLLER, operations)
    book(cluster, *operations)


@pytest.mark.parametrize(
    "request_, before, after",
    [
        (FLUSH, None, {"flush.ms": "1"}),
        (FLUSH, {"a": "1", "flush.ms": "7"}, {"a": "1", "flush.ms": "1"}),
        (asks(AlterableConfig("a", None, DELETE)), {"a": "1", "b": "2"}, {"b": "2"}),
        (asks(AlterableConfig("cleanup.policy", "compact", APPEND)), {}, {"cleanup.policy": "delete,compact"}),
        (asks(AlterableConfig("cleanup.policy", "delete", SUBTRACT)), {}, {"cleanup.policy": ""}),
        (
            asks(AlterableConfig("cleanup.policy", "compact", APPEND)),
            {"cleanup.policy": "compact"},
            {"cleanup.policy": "compact"},
        ),
        (asks(AlterableConfig("flush.ms", "1"), whole=True), {"a": "1"}, {"flush.ms": "1"}),
    ],
)
def test_what_becomes_of_settings(request_: Alteration, before: dict[str, str] | None, after: dict[str, str]) -> None:
    assert config_book.altered(request_, "t0", before) == after
    assert config_book.altered(request_, "t1", before) is None


def test_settings_are_written_as_a_client_has_asked() -> None:
    cluster = living({"a": "1"})
    with pytest.raises(Violation, match="no client asked for that"):
        write(cluster, settings({"a": "1", "flush.ms": "1"}))
    arrived(cluster, FLUSH)
    write(cluster, settings({"a": "1", "flush.ms": "1"}))


def test_what_another_has_written_meanwhile_is_kept() -> None:
    cluster = living({"a": "1"})
    arrived(cluster, FLUSH)
    book(cluster, settings({"a": "2"}), by="operator")
    with pytest.raises(Violation, match="of the settings .'a': '2'.* no client asked for that"):
        write(cluster, settings({"a": "1", "flush.ms": "1"}))


def test_a_request_that_only_looks_explains_nothing() -> None:
    cluster = living({})
    arrived(cluster, asks(AlterableConfig("flush.ms", "1"), validate_only=True))
    with pytest.raises(Violation, match="no client asked"):
        write(cluster, settings({"flush.ms": "1"}))


@pytest.mark.parametrize("is_made_again, problem", [(False, "there is no such topic"), (True, "no client asked")])
def test_a_later_topic_gets_nothing_that_was_asked_for_an_earlier_one(is_made_again: bool, problem: str) -> None:
    cluster = living({})
    cluster.ledger.clients.ended(arrived(cluster, FLUSH))
    again = Create(paths.topic("t0"), znodes.encode_topic(znodes.TopicZnode({}, TopicId(uuid.UUID(int=2)))))
    book(cluster, Delete(paths.topic("t0")), *((again,) if is_made_again else ()), by="operator")
    with pytest.raises(Violation, match=problem):
        write(cluster, settings({"flush.ms": "1"}))


ALTERED = AlterConfigsResponse((AlteredResource(0, None, TOPIC_RESOURCE, "t0"),))
REFUSED = AlterConfigsResponse((AlteredResource(ErrorCode.UNKNOWN_SERVER_ERROR, None, TOPIC_RESOURCE, "t0"),))


@pytest.mark.parametrize(
    "by, response, problems",
    [
        (None, ALTERED, ["the settings of t0 are altered, and that was not written"]),
        ("operator", ALTERED, ["the settings of t0 are altered, and that was not written"]),
        (CONTROLLER.name, ALTERED, []),
        (None, REFUSED, []),
    ],
)
def test_settings_count_as_altered_once_the_controller_has_written_them(
    by: str | None, response: AlterConfigsResponse, problems: list[str]
) -> None:
    cluster = living({})
    book(cluster, settings({"flush.ms": "1"}))
    request = arrived(cluster, FLUSH)
    if by is not None:
        book(cluster, settings({"flush.ms": "1"}), by=by)
        book(cluster, settings({"flush.ms": "7"}), by="operator")
    assert list(client_answers.untrue(cluster, cluster.controllers[0], request, response)) == problems


# --- and the trash ------------------------------------------------------------------------------------------------


def on_the_way_into_the_trash(config: Mapping[str, str]) -> Cluster:
    cluster = living(config)
    entry = znodes.encode_trash(TrashEntry(TrashPhase.FREEZING, ID, 0, 1_000, config))
    write(cluster, settings({**config, **FROZEN}), Create(paths.trashed("t0"), entry))
    return cluster


def test_the_trash_leaves_settings_that_it_does_not_freeze() -> None:
    cluster = living({"a": "1"})
    entry = Create(paths.trashed("t0"), znodes.encode_trash(TrashEntry(TrashPhase.FREEZING, ID, 0, 1_000, {})))
    with pytest.raises(Violation, match="the trash is to leave the others"):
        write(cluster, settings(FROZEN), entry)


@pytest.mark.parametrize(
    "change, own, others",
    [
        (None, {"retention.ms": "6000"}, {}),
        (AlterableConfig("flush.ms", "1"), {"retention.ms": "6000"}, {}),
        (AlterableConfig("retention.ms", "7000"), {"retention.ms": "7000"}, {"retention.ms": "6000"}),
        (AlterableConfig("retention.ms", None, DELETE), {}, {"retention.ms": "6000"}),
    ],
)
def test_a_topic_is_to_have_what_it_had_or_what_clients_have_altered_since(
    change: AlterableConfig | None, own: dict[str, str], others: dict[str, str]
) -> None:
    cluster = on_the_way_into_the_trash({"retention.ms": "6000"})
    configs = cluster.ledger.configs
    if change is not None:
        arrived(cluster, request := asks(change))
        write(cluster, settings(config_book.altered(request, "t0", configs.now["t0"]) or {}))
    assert configs.has_its_own("t0", own)
    assert not configs.has_its_own("t0", others)


def test_nobody_can_tell_what_a_client_sets_as_the_trash_does() -> None:
    cluster = on_the_way_into_the_trash({"retention.ms": "6000"})
    for value in ("7000", "-1"):
        arrived(cluster, asks(AlterableConfig("retention.ms", value)))
        write(cluster, settings({**FROZEN, "retention.ms": value}))
    assert cluster.ledger.configs.has_its_own("t0", {"retention.ms": "7000"})
    assert cluster.ledger.configs.has_its_own("t0", {"retention.ms": "-1"})
