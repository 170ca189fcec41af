"""`lethe doctor` against ills planted in a cluster of real brokers: each is found and repaired, nothing else changes,
and `--restore` takes the repairs back.

While the ills are planted, and while they are restored, control is held by a session that does nothing (`take`):
Kafka's controller removes some of them as soon as it sees them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.doctor_backup import read_backup
from lethe.admin.doctor_ills import IllKind, RepairWay
from lethe.cluster.local import LocalCluster
from lethe.protocol.vocabulary import LeaderAndIsr, ReplicaAssignment, TopicPartition
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Data, Delete, GetData, SetData
from lethe.protocol.zookeeper.znodes import (
    TopicZnode,
    decode_config,
    decode_topic,
    encode_config,
    encode_controller_epoch,
    encode_isr_change,
    encode_log_dir_event,
    encode_preferred_replica_election,
    encode_reassignment,
    encode_state,
    encode_topic,
)
from tests.fakes.command_line import Lethe, Ran
from tests.fakes.haunting import drop, haunt
from tests.fakes.sick_cluster import tree_of
from tests.fakes.zookeeper_cluster import apply
from tests.interop.clients import bootstrap, produce, read_all
from tests.interop.conditions import (
    create,
    gone_everywhere,
    is_known_to_all,
    is_whole,
    kafka_leads,
    plan,
    states,
    until,
)
from tests.interop.conftest import MakeCluster
from tests.interop.stuck import NOBODY, epoch_of, take

pytestmark = [pytest.mark.interop, pytest.mark.zookeeper, pytest.mark.processes, pytest.mark.timeout(600)]

EVERYWHERE = [(1, 2, 3), (2, 3, 1)]
TOPICS = ("kept", "half", "moving", "foreign", "throttled")
ABSENT, UNKNOWN, DECOMMISSIONED = 8, 9, 7
ACL = b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","operation":"Read","host":"*"}]}'
OF_CONTROL = {paths.CONTROLLER, paths.CONTROLLER_EPOCH}
Tree = dict[str, bytes | None]


async def test_each_planted_ill_is_found_repaired_and_taken_back(
    kafka_cluster: MakeCluster, version: str, tmp_path: Path
) -> None:
    lone = {"auto.leader.rebalance.enable": "false"}
    async with (
        kafka_cluster(version, controllers=0, log_dirs=1, properties=lone) as cluster,
        cluster.session() as session,
    ):
        doctor = Doctor(cluster, tmp_path / "backup")
        await kafka_leads(session)
        await create(session, *(plan(name, *EVERYWHERE, version=version) for name in TOPICS))
        await until(is_known_to_all(session, 3, *TOPICS), "all brokers know the topics")
        for name in TOPICS:
            await until(is_whole(session, name, EVERYWHERE), f"{name} is whole")
        sent = await produce(bootstrap(cluster), "kept", range(100))
        for path in (paths.ACL_TOPICS, paths.FORGET, *paths.PERSISTENT_ROOTS):
            await session.ensure_path(path)
        healthy = await tree_of(session)
        assert (await doctor()).data["ills"] == []
        async with cluster.session() as operator:
            await take(operator)
            planted = await plant(operator, cluster)
            sick = await tree_of(session)
            found = await doctor()
            assert found.code == 1, found
            assert sorted((each["kind"], each["where"]) for each in found.data["ills"]) == sorted(planted)
            mended = {
                (kind, where) for kind, where in planted if IllKind[kind.upper()].value.way is not RepairWay.PERSON
            }
            assert len(mended) >= 16
            fixed = await doctor("--fix", "--yes", *(f"--only={kind}" for kind in sorted({kind for kind, _ in mended})))
            outcomes = {(each["kind"], each["where"]): each["outcome"] for each in fixed.data["repairs"]}
            assert outcomes == dict.fromkeys(mended, "repaired"), fixed
        await kafka_leads(session)
        await nothing_else_has_changed(session, doctor.backup, healthy, sick)
        by_hand(cluster)
        after = await doctor()
        assert (after.code, after.data["ills"]) == (0, []), after
        await gone_everywhere(cluster, session, "half")
        assert sorted(await read_all(bootstrap(cluster), "kept", 2)) == sorted(sent)

        async with cluster.session() as operator:
            await take(operator)
            await apply(operator, Create(paths.acl_topic("acl-only"), b"new"))
            refused = await doctor("--restore", str(doctor.backup), "--yes")
            assert (refused.code, f"{paths.acl_topic('acl-only')} was created" in refused.out) == (1, True), refused
            await apply(operator, Delete(paths.acl_topic("acl-only")))
            restored = await doctor("--restore", str(doctor.backup), "--yes")
            assert restored.code == 0, restored
            assert restored.data["not_restorable"] == [], restored
            assert not unlike(sick, await tree_of(session)) - OF_CONTROL, "the tree is as it was before the repairs"
            again = await doctor("--restore", str(doctor.backup), "--yes")
            assert (again.code, again.data["restored"]) == (0, [])


@pytest.mark.slow
async def test_controllers_that_fall_over_each_other_are_cured(
    kafka_cluster: MakeCluster, version: str, tmp_path: Path
) -> None:
    """A deletion that was interrupted in a reassignment: each of Kafka's controllers fails on it, one after another."""
    async with kafka_cluster(version, controllers=0, log_dirs=1) as cluster, cluster.session() as session:
        doctor = Doctor(cluster, tmp_path / "backup")
        await kafka_leads(session)
        await create(session, *(plan(name, *EVERYWHERE, version=version) for name in ("moving", "kept")))
        for name in ("moving", "kept"):
            await until(is_whole(session, name, EVERYWHERE), f"{name} is whole")
        async with cluster.session() as operator:
            await take(operator)
            await apply(
                operator,
                await move(operator, 3),
                Delete(paths.partition_state("moving", 0)),
                Delete(paths.topic_partition("moving", 0)),
                Create(paths.delete_topic("moving"), None),
                Create(paths.config_topic("config-only"), encode_config({"retention.ms": "1"})),
            )
        found = await doctor()
        assert "ills" in found.data, found
        assert {each["kind"] for each in found.data["ills"]} >= {
            IllKind.CONTROLLER_UNSTABLE.code,
            IllKind.HALF_DELETED_TOPIC.code,
        }, found
        fixed = await doctor("--fix", "--yes", "--only", IllKind.HALF_DELETED_TOPIC.code)
        assert "repairs" in fixed.data, fixed
        assert [each["outcome"] for each in fixed.data["repairs"]] == ["repaired"], fixed
        assert [each["kind"] for each in fixed.data["ills"]] == [IllKind.CONFIG_WITHOUT_TOPIC.code], fixed
        assert fixed.code == 0
        await until(is_whole(session, "kept", EVERYWHERE), "what nobody wanted gone is whole")


class Doctor:
    """`lethe doctor --json` against the cluster."""

    def __init__(self, cluster: LocalCluster, backup: Path) -> None:
        self._lethe = Lethe(cluster.zookeeper_connect)
        self.backup = backup

    async def __call__(self, *options: str) -> Ran:
        file = ("--backup", str(self.backup)) if "--fix" in options else ()
        ran = await self._lethe("doctor", "--json", *options, *file)
        assert ran.out.startswith("{"), ran
        return ran


def unlike(one: Tree, other: Tree) -> set[str]:
    """Znodes that differ, but for what brokers are told of changed settings."""
    names = {path for path in one.keys() | other.keys() if one.get(path, b"-") != other.get(path, b"-")}
    return {path for path in names if not (path.startswith(paths.config_change()) and path not in one)}


async def nothing_else_has_changed(session: ZooKeeperSession, backup: Path, healthy: Tree, sick: Tree) -> None:
    """Only znodes in the backup differ from the sick tree; and from the healthy one, only those of the deleted topic
    and the states that got another leader epoch."""
    now = await tree_of(session)
    saved = {znode.path for repair in read_backup(backup).repairs for znode in repair.before}
    assert unlike(sick, now) - OF_CONTROL <= saved
    from_healthy = {path for path in unlike(healthy, now) - OF_CONTROL if "/half" not in path}
    states_of = {paths.partition_state(name, 0) for name in ("foreign", "moving")}
    assert from_healthy <= states_of, {path: (healthy.get(path), now.get(path)) for path in from_healthy}
    for name in ("foreign", "moving"):
        (state, _) = await states(session, name, 2)
        assert state is not None
        assert sorted(state.isr) == [1, 2, 3]


def by_hand(cluster: LocalCluster) -> None:
    """What the doctor leaves to a person: the directory is moved out of the log directory."""
    found = cluster.log_dirs[1][0] / "ghost-on-disk-0"
    found.rename(found.parent.parent / "moved-away")


# --- planting -----------------------------------------------------------------------------------------------------


async def plant(operator: ZooKeeperSession, cluster: LocalCluster) -> list[tuple[str, str]]:
    """Plants the ills; returns the kind and the place of each."""
    brokers = await plant_in_brokers(operator)
    disk = plant_on_disk(cluster)
    znodes = await plant_in_zookeeper(operator)
    return [(IllKind.CONTROLLER_NOT_REGISTERED.code, paths.CONTROLLER), *brokers, disk, *znodes]


async def plant_in_zookeeper(operator: ZooKeeperSession) -> list[tuple[str, str]]:
    election, moves = [TopicPartition("kept", 0)], {TopicPartition("gone", 0): (1,), TopicPartition("kept", 0): (1, 8)}
    isr, log_dir = paths.isr_change_notification("0000000003"), paths.log_dir_event_notification("0000000004")
    change, state = paths.config_change("0000000900"), paths.partition_state("foreign", 0)
    (before,) = await states(operator, "foreign", 1)
    assert before is not None
    foreign = LeaderAndIsr(before.leader, before.leader_epoch, (*before.isr, UNKNOWN), before.controller_epoch)
    await apply(
        operator,
        Create(paths.delete_topic("marker-only"), None),
        Create(paths.config_topic("config-only"), encode_config({"retention.ms": "1"})),
        Create(paths.acl_topic("acl-only"), ACL),
        Create(paths.config_broker(DECOMMISSIONED), encode_config({})),
        Create(paths.REASSIGN_PARTITIONS, encode_reassignment(moves)),
        Create(paths.PREFERRED_REPLICA_ELECTION, encode_preferred_replica_election(election)),
        Create(isr, encode_isr_change(election)),
        Create(log_dir, encode_log_dir_event(1)),
        Create(change, b"{"),
        Create(paths.forget(ABSENT), b"{}"),
        SetData(state, encode_state(foreign), ANY_VERSION),
        await throttle(operator),
        await move(operator, ABSENT),
        Create(paths.delete_topic("half"), None),
        Delete(paths.partition_state("half", 0)),
        Delete(paths.topic_partition("half", 0)),
    )
    return [
        (IllKind.MARKER_WITHOUT_TOPIC.code, paths.delete_topic("marker-only")),
        (IllKind.CONFIG_WITHOUT_TOPIC.code, paths.config_topic("config-only")),
        (IllKind.ACL_WITHOUT_TOPIC.code, paths.acl_topic("acl-only")),
        (IllKind.BROKER_CONFIG_WITHOUT_BROKER.code, paths.config_broker(DECOMMISSIONED)),
        (IllKind.REASSIGNMENT_WITHOUT_TOPIC.code, paths.REASSIGN_PARTITIONS),
        (IllKind.REASSIGNMENT_TO_ABSENT_BROKER.code, paths.REASSIGN_PARTITIONS),
        (IllKind.PREFERRED_ELECTION_LEFT.code, paths.PREFERRED_REPLICA_ELECTION),
        (IllKind.NOTIFICATIONS_UNREAD.code, paths.ISR_CHANGE_NOTIFICATION),
        (IllKind.NOTIFICATIONS_UNREAD.code, paths.LOG_DIR_EVENT_NOTIFICATION),
        (IllKind.CONFIG_CHANGE_UNREADABLE.code, change),
        (IllKind.REQUEST_FOR_LETHE.code, paths.forget(ABSENT)),
        (IllKind.STATE_OUTSIDE_ASSIGNMENT.code, state),
        (IllKind.THROTTLE_WITHOUT_REASSIGNMENT.code, paths.config_topic("throttled")),
        (IllKind.REASSIGNMENT_STUCK.code, paths.topic("moving")),
        (IllKind.HALF_DELETED_TOPIC.code, paths.topic("half")),
    ]


async def throttle(operator: ZooKeeperSession) -> SetData:
    path = paths.config_topic("throttled")
    (found,) = await operator.read([GetData(path)])
    assert isinstance(found, Data)
    config = decode_config(path, found.data) | {"leader.replication.throttled.replicas": "*"}
    return SetData(path, encode_config(config), found.stat.version)


async def move(operator: ZooKeeperSession, broker: int) -> SetData:
    """Begins to move a replica of `moving` to this broker."""
    (found,) = await operator.read([GetData(paths.topic("moving"))])
    assert isinstance(found, Data)
    znode = decode_topic("moving", found.data)
    replicas = (1, 2, 3) if broker == 3 else (1, 2, broker, 3)
    moving = ReplicaAssignment(replicas, adding=(broker,), removing=(2,) if broker == 3 else (3,))
    torn = TopicZnode({**znode.assignments, 0: moving}, znode.topic_id)
    return SetData(paths.topic("moving"), encode_topic(torn), found.stat.version)


def plant_on_disk(cluster: LocalCluster) -> tuple[str, str]:
    directory = cluster.log_dirs[1][0] / "ghost-on-disk-0"
    directory.mkdir()
    (directory / "00000000000000000000.log").write_bytes(b"x" * 1000)
    return IllKind.DIRECTORY_WITHOUT_TOPIC.code, str(directory)


async def plant_in_brokers(operator: ZooKeeperSession) -> list[tuple[str, str]]:
    """All brokers hear of a controller epoch that ZooKeeper does not have, and broker 1 of a topic."""
    before = await epoch_of(operator)
    await apply(operator, SetData(paths.CONTROLLER_EPOCH, encode_controller_epoch(before + 20), ANY_VERSION))
    await haunt(operator, 1, "ghost-in-cache", NOBODY)
    for broker in (2, 3):
        await drop(operator, broker, "ghost-in-cache", NOBODY)
    await apply(operator, SetData(paths.CONTROLLER_EPOCH, encode_controller_epoch(before), ANY_VERSION))
    return [
        (IllKind.EPOCH_TOO_LOW.code, paths.CONTROLLER_EPOCH),
        (IllKind.CACHED_WITHOUT_TOPIC.code, "ghost-in-cache"),
    ]
