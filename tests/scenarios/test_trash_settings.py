"""Retention of a topic in the trash is off when it comes back, whatever has become of its settings.

/config/topics/orders, while orders is in the trash   orders, when it is requested
----------------------------------------------------  ----------------------------------------------------------------
is removed                                            waits until brokers have noticed that retention is off again
is replaced, with those of another topic              the same; the other topic's settings are gone
is changed, and retention is still off                the same; the changed settings stay
cannot be read                                        stays in the trash

The same settings are there when its deletion is called off before it begins.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from lethe.controller.core.effects import ReadZnodes, WriteZnodes
from lethe.controller.core.trash import NAME_IS_TAKEN
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
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Check, Create, Delete, Operation, SetData, ZkError
from lethe.protocol.zookeeper.znodes import (
    RequestedAction,
    TopicRequest,
    TrashPhase,
    encode_config,
    encode_topic_request,
)
from tests.fakes.forbidden_znodes import NO_AUTH
from tests.fakes.one_controller import OneController
from tests.scenarios.plot import cluster, is_gone, led, refusals, text, with_topic
from tests.scenarios.test_trash import (
    DAY_MS,
    FREEZE_MS,
    dies_as_it_leaves,
    entry,
    made_by_another,
    mark,
    phase_of,
    purge,
    settings,
    state_written,
    trashed,
)
from tests.scenarios.test_undelete_marked import refused, request

CONFIG = paths.config_topic("orders")
OWN = {"retention.ms": "6000", "segment.bytes": "1048576"}
OFF = {**OWN, "retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}


def with_settings() -> OneController:
    """Topic orders is in the trash, and had settings of its own."""
    world = cluster()
    world.create_topic("orders", (1, 2))
    world.write(SetData(CONFIG, encode_config(OWN), ANY_VERSION))
    world.run()
    return trashed(world)


def replace_settings(world: OneController, config: dict[str, str]) -> None:
    world.write(SetData(CONFIG, encode_config(config), ANY_VERSION))


def test_retention_is_off_again_before_the_topic_comes_back() -> None:
    world = with_settings()
    world.write(Delete(CONFIG))
    request(world, "orders")
    assert world.take_story() == text("""
        * TopicRequestsChanged
        -> 1,2 DescribeLogDirs
        <- 1,2 DescribeLogDirs ok
        zk check /lethe/trash/orders at version -1
        zk create /brokers/topics/orders
        zk delete /brokers/topics/orders
        zk create /config/topics/orders
        zk create /config/changes/config_change_
        * TopicsChanged
        * ConfigurationChanged
    """)
    assert settings(world) == OFF
    world.advance(FREEZE_MS - 1)
    assert phase_of(world) is TrashPhase.TRASHED, "brokers have not had their time yet"
    why = "its settings were removed or changed in the trash: retention is off again, and brokers get 10 s to notice"
    assert refusals(world, "topic/orders") == [why]
    world.advance(1)
    assert led(world, "orders") == (1, 1, (1, 2))
    assert settings(world) == OWN
    assert entry(world) is None


@pytest.mark.parametrize("others", [{}, {"retention.ms": "1000", "cleanup.policy": "delete"}])
def test_settings_of_another_topic_of_the_name_are_gone(others: dict[str, str]) -> None:
    world = with_settings()
    made_by_another(world)
    replace_settings(world, others)
    world.run()
    request(world, "orders")
    assert refused(world, "orders") == NAME_IS_TAKEN
    assert settings(world) == others
    world.write(Delete(paths.topic("orders")), Delete(paths.request("orders")))
    world.run()
    request(world, "orders")
    world.advance(FREEZE_MS)
    assert led(world, "orders") == (1, 1, (1, 2))
    assert settings(world) == OWN


def test_settings_that_were_changed_stay_under_the_next_controller() -> None:
    world = with_settings()
    replace_settings(world, {**OFF, "segment.bytes": "7"})
    request(world, "orders")
    world.advance(FREEZE_MS - 1)
    world.crash()
    world.elect()
    world.advance(FREEZE_MS - 1)
    assert phase_of(world) is TrashPhase.TRASHED, "this controller cannot tell when brokers were notified"
    world.advance(1)
    assert led(world, "orders") == (1, 1, (1, 2))
    assert settings(world) == {**OWN, "segment.bytes": "7"}


def test_grace_period_that_ends_meanwhile_deletes_nothing() -> None:
    world = with_settings()
    world.write(Delete(CONFIG))
    world.advance(DAY_MS - 1)
    request(world, "orders")
    world.advance(FREEZE_MS)
    assert led(world, "orders") == (1, 1, (1, 2))


def test_settings_that_are_removed_just_before_the_write_are_written_again() -> None:
    world = with_settings()

    def removed(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes) and any(isinstance(each, Check) for each in effect.groups[0]):
            world.meanwhile = lambda _: None
            world.write(Delete(CONFIG))

    world.meanwhile = removed
    request(world, "orders")
    assert phase_of(world) is TrashPhase.TRASHED
    assert refusals(world, "topic/orders")[0] == "its settings have changed meanwhile"
    assert settings(world) == OFF
    world.advance(FREEZE_MS)
    assert led(world, "orders") == (1, 1, (1, 2))
    assert settings(world) == OWN


def test_topic_whose_settings_cannot_be_read_stays_in_the_trash() -> None:
    world = with_settings()
    world.write(SetData(CONFIG, b"?", ANY_VERSION))
    request(world, "orders")
    told = refused(world, "orders")
    assert told is not None
    assert told.startswith(f"znode {CONFIG} cannot be understood")
    assert phase_of(world) is TrashPhase.TRASHED


def test_settings_that_come_back_as_they_were_are_announced_all_the_same() -> None:
    world = with_settings()
    world.write(Delete(CONFIG))
    world.write(Create(CONFIG, encode_config(OFF)))
    request(world, "orders")
    assert phase_of(world) is TrashPhase.TRASHED
    world.advance(FREEZE_MS)
    assert settings(world) == OWN


@pytest.mark.parametrize("dies", [False, True])
def test_settings_that_are_changed_just_before_the_topic_leaves_are_frozen_first(dies: bool) -> None:
    """Brokers would remove old segments of the topic while it is in the trash."""
    world = cluster()
    world.create_topic("orders", (1, 2))
    world.run()
    mark(world, "orders")
    world.advance(FREEZE_MS - 1)
    replace_settings(world, OWN)
    if dies:
        world.crash()
        world.elect()
        world.advance(FREEZE_MS - 1)
    world.advance(1)
    assert phase_of(world) is TrashPhase.FREEZING
    assert settings(world) == OFF
    world.advance(FREEZE_MS - 1)
    assert phase_of(world) is TrashPhase.FREEZING, "brokers have not had their time yet"
    world.advance(1)
    assert phase_of(world) is TrashPhase.TRASHED
    assert settings(world) == OFF
    request(world, "orders")
    assert settings(world) == OWN


INCREMENTAL = IncrementalAlterConfigsRequest(
    (AlterableResource(TOPIC_RESOURCE, "orders", (AlterableConfig("retention.ms", None, AlterOperation.DELETE),)),)
)
WHOLE = AlterConfigsRequest(
    (AlterableResource(TOPIC_RESOURCE, "orders", (AlterableConfig("segment.bytes", "1048576"),)),)
)


@pytest.mark.parametrize("request_", [INCREMENTAL, WHOLE], ids=["deleted", "replaced"])
@pytest.mark.parametrize("way", ["spared", "trashed"])
def test_setting_that_a_client_deletes_while_retention_is_off_stays_deleted(
    request_: IncrementalAlterConfigsRequest | AlterConfigsRequest, way: str
) -> None:
    """The client was answered; with the retention from before, brokers would remove what it wants to keep."""
    world = cluster()
    world.create_topic("orders", (1, 2))
    world.write(SetData(CONFIG, encode_config(OWN), ANY_VERSION))
    world.run()
    mark(world, "orders")
    altered = world.ask(request_)
    assert altered == AlterConfigsResponse((AlteredResource(0, None, TOPIC_RESOURCE, "orders"),))
    if way == "trashed":
        world.advance(FREEZE_MS)
        world.advance(FREEZE_MS)
        assert (phase_of(world), settings(world)) == (TrashPhase.TRASHED, OFF)
    request(world, "orders")
    assert entry(world) is None
    assert settings(world) == {"segment.bytes": "1048576"}


def test_settings_that_are_removed_just_before_the_topic_leaves_are_written_again() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    mark(world, "orders")
    world.advance(FREEZE_MS - 1)
    world.write(Delete(CONFIG))
    world.advance(1)
    assert phase_of(world) is TrashPhase.FREEZING
    world.advance(FREEZE_MS)
    assert phase_of(world) is TrashPhase.TRASHED
    assert settings(world)["retention.ms"] == "-1"


def test_topic_whose_changed_settings_do_not_fit_is_refused() -> None:
    """The write was made all the same, and the controller resigned at each attempt."""
    world = with_topic(cluster(), "orders", (1, 2))
    state_written(world, times=15_000)
    trashed(world)
    replace_settings(world, {**OFF, "large": "y" * 120_000})
    request(world, "orders")
    world.advance(FREEZE_MS)
    told = refused(world, "orders")
    assert told is not None
    assert told.endswith("bytes at once, and that is too large for ZooKeeper")
    replace_settings(world, OFF)
    world.write(Delete(paths.request("orders")))
    request(world, "orders")
    world.advance(FREEZE_MS)
    assert led(world, "orders") == (1, 1, (1, 2))


@pytest.mark.parametrize(
    "write, wanted",
    [
        pytest.param(None, OWN, id="left alone"),
        pytest.param(Delete(CONFIG), OWN, id="removed"),
        pytest.param(SetData(CONFIG, encode_config({"retention.ms": "1"}), ANY_VERSION), OWN, id="replaced"),
        pytest.param(
            SetData(CONFIG, encode_config({**OFF, "segment.bytes": "7"}), ANY_VERSION),
            {**OWN, "segment.bytes": "7"},
            id="changed",
        ),
    ],
)
def test_topic_whose_deletion_is_called_off_before_it_begins_has_its_settings(
    write: Operation | None, wanted: dict[str, str]
) -> None:
    """Its entry, which had them, went when it left the trash: nothing would ever switch its retention on again."""
    world = with_settings()
    if write is not None:
        world.write(write)
    dies_as_it_leaves(world)
    world.context.config = replace(world.context.config, delete_topic_enable=False)
    world.elect()
    assert led(world, "orders") == (1, 2, (1, 2))
    assert phase_of(world) is None
    assert settings(world) == wanted


def test_settings_that_cannot_be_read_keep_no_topic_in_the_trash() -> None:
    world = with_settings()
    world.write(SetData(CONFIG, b"{", ANY_VERSION))
    purge(world)
    assert is_gone(world, "orders")
    assert any(why.startswith("its settings are not restored: ") for why in refusals(world, "topic/orders"))


@pytest.mark.parametrize("is_requested", [True, False])
def test_settings_that_zookeeper_does_not_take_keep_no_topic_in_the_trash(is_requested: bool) -> None:
    """Somebody has made them anew as another user. The controller goes on with other events meanwhile."""
    world = with_settings()
    world.read_only[CONFIG] = ZkError.NO_AUTH
    if is_requested:
        purge(world)
    else:
        world.advance(DAY_MS)
    assert refusals(world, "topic/orders") == [f"its settings are not restored: {NO_AUTH}"]
    world.read_only.clear()
    world.advance(60_000)
    assert is_gone(world, "orders")
    assert phase_of(world) is None


@pytest.mark.parametrize("write", [Delete(CONFIG), SetData(CONFIG, encode_config(OFF), ANY_VERSION)])
def test_settings_that_change_before_the_end_is_written_are_read_again(write: Operation) -> None:
    world = with_settings()

    def change(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes):
            world.meanwhile = lambda _: None
            world.write(write)

    world.meanwhile = change
    purge(world)
    assert refusals(world, "topic/orders") == ["its settings have changed meanwhile"]
    world.advance(60_000)
    assert is_gone(world, "orders")


def test_purge_of_an_entry_that_was_removed_by_hand_does_not_keep_the_controller_busy() -> None:
    world = with_settings()
    found = entry(world)
    assert found is not None
    world.write(Delete(paths.trashed("orders")))
    for path in (paths.lethe(), paths.requests()):
        if not world.exists(path):
            world.write(Create(path, None))
    asked = TopicRequest(RequestedAction.PURGE, found.topic_id)
    world.write(Create(paths.request("orders"), encode_topic_request(asked)))
    world.run()
    assert refusals(world, "topic/orders") == ["NO_NODE"]
