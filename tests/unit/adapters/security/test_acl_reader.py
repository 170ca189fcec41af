"""The reader on the model of ZooKeeper. Kafka's own changes of ACLs are followed in tests/authorizer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from lethe.adapters.security.acl_reader import AclLimits, AclReader
from lethe.adapters.zookeeper.interface import SessionLost, ZooKeeperSession
from lethe.protocol.security.acls import (
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    acl_path,
    encode_acls,
    encode_change,
)
from lethe.protocol.security.authorizer import UNREADABLE, Action, Authorizer, Client
from lethe.protocol.security.principals import Principal
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete, MultiDone, SetData
from lethe.protocol.zookeeper.operations import Operation as ZkOperation
from tests.fakes.forbidden_znodes import forbidding
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper

ANN = Client(Principal("User", "ann"), "10.0.0.1")
ALLOW = AclEntry(ANN.principal, "*", Operation.READ, Permission.ALLOW)
LIMIT_S = 5.0


def topic(name: str, pattern_type: PatternType = PatternType.LITERAL) -> ResourcePattern:
    return ResourcePattern(ResourceType.TOPIC, pattern_type, name)


ORDERS, PREFIX = topic("orders"), topic("pre", PatternType.PREFIXED)


class Cluster:
    """A ZooKeeper whose ACLs are changed as Kafka does it, and a reader that follows."""

    def __init__(self, limits: AclLimits | None = None, retry_s: float = 60.0) -> None:
        self.zookeeper = FakeZooKeeper()
        self.reader = AclReader(limits or AclLimits(), retry_s=retry_s, changed=self._count)
        self.changes = 0

    def _count(self) -> None:
        self.changes += 1

    @asynccontextmanager
    async def following(
        self, seen_as: Callable[[FakeSession], ZooKeeperSession] = lambda session: session
    ) -> AsyncIterator[FakeSession]:
        async with self.zookeeper.open_session(self.reader.on_watch) as session:
            task = asyncio.create_task(self.reader.follow(seen_as(session)))
            try:
                await self.until(lambda: self.changes > 0)
                yield session
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError, SessionLost):
                    await task

    async def put(self, resource: ResourcePattern, data: bytes, *, tell: bool = True) -> None:
        """Write the ACLs; notify unless told otherwise."""
        async with self.zookeeper.open_session(lambda _: None) as session:
            path = acl_path(resource)
            for parent in (paths.parent_of(path), paths.ACL_CHANGES, paths.EXTENDED_ACL_CHANGES):
                await session.ensure_path(parent)
            write = SetData(path, data, -1) if self.zookeeper.model.node(path) else Create(path, data)
            assert isinstance(await session.multi([write]), MultiDone)
            if tell:
                await self.notify(session, resource.pattern_type, encode_change(resource))

    async def notify(self, session: FakeSession, pattern_type: PatternType, data: bytes) -> None:
        parent = paths.ACL_CHANGES if pattern_type is PatternType.LITERAL else paths.EXTENDED_ACL_CHANGES
        assert isinstance(await session.multi([Create(f"{parent}/acl_changes_", data, sequential=True)]), MultiDone)

    async def remove(self, resource: ResourcePattern) -> None:
        async with self.zookeeper.open_session(lambda _: None) as session:
            assert isinstance(await session.multi([Delete(acl_path(resource))]), MultiDone)
            await self.notify(session, resource.pattern_type, encode_change(resource))

    def may_read(self, name: str, *, resource_type: ResourceType = ResourceType.TOPIC) -> bool:
        """Whether ann may, where everyone may what no ACL is about."""
        rights = Authorizer(self.reader.acls, allow_everyone_if_no_acl_found=True)
        return rights.allows(ANN, Action(Operation.READ, resource_type, name))

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not condition():
                await asyncio.sleep(0.001)


DENIES = encode_acls((ALLOW._replace(permission=Permission.DENY),))


async def test_before_the_first_read_everything_is_denied() -> None:
    assert not Cluster().may_read("orders")


async def test_acls_are_read_and_their_changes_followed() -> None:
    cluster = Cluster()
    await cluster.put(ORDERS, DENIES)
    async with cluster.following():
        assert not cluster.may_read("orders")
        assert cluster.may_read("prefix")
        await cluster.put(PREFIX, DENIES)
        await cluster.until(lambda: not cluster.may_read("prefix"))
        await cluster.put(ORDERS, encode_acls((ALLOW,)))
        await cluster.until(lambda: cluster.may_read("orders"))
        await cluster.remove(PREFIX)
        await cluster.until(lambda: cluster.may_read("prefix"))
    assert dict(cluster.reader.acls.patterns()) == {ORDERS: (ALLOW,)}
    assert cluster.reader.faults == {}


async def test_a_cluster_without_any_acls_gets_its_first_one() -> None:
    cluster = Cluster()
    async with cluster.following():
        assert cluster.may_read("orders")
        await cluster.put(ORDERS, DENIES)
        await cluster.until(lambda: not cluster.may_read("orders"))


async def test_what_cannot_be_understood_is_denied_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    cluster = Cluster()
    await cluster.put(ORDERS, b"rubbish")
    async with cluster.following():
        assert not cluster.may_read("orders")
        assert cluster.may_read("prefix")
        await cluster.put(PREFIX, b"{}")
        await cluster.until(lambda: not cluster.may_read("prefix"))
        assert cluster.may_read("other")
        before = cluster.changes
        await cluster.put(topic("other"), DENIES)
        await cluster.until(lambda: cluster.changes > before)
        assert list(cluster.reader.faults) == ["/kafka-acl/Topic/orders", "/kafka-acl-extended/prefixed/Topic/pre"]
        await cluster.put(ORDERS, encode_acls((ALLOW,)))
        await cluster.until(lambda: cluster.may_read("orders"))
    said = [record.getMessage() for record in caplog.records]
    assert sum("/kafka-acl/Topic/orders: not JSON" in line for line in said) == 1
    assert sum("/kafka-acl-extended/prefixed/Topic/pre: 'version' must be" in line for line in said) == 1
    assert said.count("ACLs can be used again: /kafka-acl/Topic/orders") == 1


@pytest.mark.parametrize("unseen", [paths.ACL_CHANGES, "/kafka-acl/Topic"])
async def test_a_fault_that_is_out_of_sight_is_not_said_to_be_over(
    unseen: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    cluster = Cluster()
    await cluster.put(ORDERS, b"rubbish")
    async with cluster.following():
        assert list(cluster.reader.faults) == [acl_path(ORDERS)]
    async with cluster.following(lambda session: forbidding(session, unseen)):
        await cluster.until(lambda: unseen in cluster.reader.faults)
    async with cluster.following():
        await cluster.until(lambda: unseen not in cluster.reader.faults)
        assert not cluster.may_read("orders")
        said = [record.getMessage() for record in caplog.records]
        assert [line for line in said if "again" in line] == [f"ACLs can be used again: {unseen}"]
        assert sum("/kafka-acl/Topic/orders: not JSON" in line for line in said) == 1
        await cluster.put(ORDERS, encode_acls((ALLOW,)))
        await cluster.until(lambda: cluster.may_read("orders"))
    assert caplog.records[-1].getMessage() == "ACLs can be used again: /kafka-acl/Topic/orders"


async def test_above_a_limit_no_fault_is_said_to_be_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    cluster = Cluster(AclLimits(resources=1))
    await cluster.put(ORDERS, b"rubbish")
    async with cluster.following():
        await cluster.put(topic("c"), encode_acls((ALLOW,)))
        await cluster.until(lambda: paths.ACLS in cluster.reader.faults)
        assert not any("again" in record.getMessage() for record in caplog.records)


async def test_many_faults_and_long_names_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    cluster = Cluster()
    names = ["x" * 100_000, *(f"t{number}" for number in range(29))]
    for name in names:
        await cluster.put(topic(name), b"rubbish")
    async with cluster.following():
        assert len(cluster.reader.faults) == 30
        assert not any(cluster.may_read(name) for name in names)
    said = [record.getMessage() for record in caplog.records]
    assert len([line for line in said if "not JSON" in line]) == 20
    assert "ACLs of 10 znodes more cannot be used either" in said
    assert max(map(len, said)) < 1_000


async def test_what_may_not_be_read_is_denied() -> None:
    cluster = Cluster()
    await cluster.put(ORDERS, encode_acls((ALLOW,)))
    async with cluster.following(lambda session: forbidding(session, acl_path(ORDERS))):
        assert not cluster.may_read("orders")
        assert cluster.may_read("other")
        assert cluster.reader.faults == {"/kafka-acl/Topic/orders": "it cannot be read (NO_AUTH)"}


@pytest.mark.parametrize("parent", ["/kafka-acl/Topic", "/kafka-acl-extended/prefixed/Topic"])
async def test_a_type_whose_names_may_not_be_listed_is_denied_as_a_whole(parent: str) -> None:
    cluster = Cluster()
    await cluster.put(topic("*"), encode_acls((ALLOW,)))
    await cluster.put(PREFIX, encode_acls((ALLOW,)))
    async with cluster.following(lambda session: forbidding(session, parent)):
        assert not cluster.may_read("other")
        assert cluster.may_read("other", resource_type=ResourceType.GROUP)
        # A change of the wildcard's ACLs tells nothing of the names that are not seen.
        before = cluster.changes
        await cluster.put(topic("*"), encode_acls((ALLOW,)))
        await cluster.until(lambda: cluster.changes > before)
        assert not cluster.may_read("other")


@pytest.mark.parametrize("parent", [paths.ACL_CHANGES, paths.EXTENDED_ACL_CHANGES])
@pytest.mark.parametrize("tells_existence", [True, False])
async def test_without_notifications_everything_is_denied(parent: str, tells_existence: bool) -> None:
    cluster = Cluster()
    await cluster.put(ORDERS, encode_acls((ALLOW,)))
    async with cluster.following(lambda session: forbidding(session, parent, tells_existence=tells_existence)):
        assert not cluster.may_read("orders")
        assert list(cluster.reader.faults) == [parent]


@pytest.mark.parametrize("data", [b"rubbish", b"\xff:", b""])
async def test_a_notification_that_cannot_be_understood_has_everything_read_again(data: bytes) -> None:
    cluster = Cluster()
    await cluster.put(ORDERS, encode_acls((ALLOW,)))
    async with cluster.following() as session:
        await cluster.put(topic("other"), DENIES, tell=False)
        await cluster.notify(session, PatternType.LITERAL, data)
        await cluster.until(lambda: not cluster.may_read("other"))


@pytest.mark.parametrize("name", ["..", "a/b", "", "x\0"])
async def test_a_notification_of_a_name_that_no_znode_has_is_ignored(name: str) -> None:
    cluster = Cluster()
    await cluster.put(ORDERS, encode_acls((ALLOW,)))
    async with cluster.following() as session:
        nested = [Create("/kafka-acl/Topic/a", None), Create("/kafka-acl/Topic/a/b", DENIES)]
        assert isinstance(await session.multi(nested), MultiDone)
        await cluster.notify(session, PatternType.LITERAL, f"TOPIC:{name}".encode())
        await cluster.put(topic("other"), DENIES)
        await cluster.until(lambda: not cluster.may_read("other"))
        assert cluster.reader.faults == {}
        assert {resource.name for resource, _ in cluster.reader.acls.patterns()} == {"orders", "other"}


async def test_a_notification_that_cannot_be_read_has_everything_read_again() -> None:
    cluster = Cluster()
    await cluster.put(ORDERS, encode_acls((ALLOW,)))
    hidden = "/kafka-acl-changes/acl_changes_0000000001"
    async with cluster.following(lambda session: forbidding(session, hidden)) as session:
        await cluster.put(topic("untold"), DENIES, tell=False)
        await cluster.notify(session, PatternType.LITERAL, b"TOPIC:orders")
        assert cluster.zookeeper.model.node(hidden) is not None
        await cluster.until(lambda: not cluster.may_read("untold"))


async def test_many_notifications_at_once_have_everything_read_again() -> None:
    cluster = Cluster(AclLimits(notifications=3))
    await cluster.put(ORDERS, encode_acls((ALLOW,)))
    async with cluster.following() as session:
        await cluster.put(topic("untold"), DENIES, tell=False)
        changes = [Create(paths.acl_change(), b"TOPIC:orders", sequential=True) for _ in range(4)]
        assert isinstance(await session.multi(changes), MultiDone)
        await cluster.until(lambda: not cluster.may_read("untold"))


async def test_a_parent_that_was_made_anew_has_everything_read_again() -> None:
    cluster = Cluster()
    await cluster.put(ORDERS, encode_acls((ALLOW,)))
    async with cluster.following() as session:
        await cluster.put(topic("untold"), DENIES, tell=False)
        name = "/kafka-acl-changes/acl_changes_0000000000"
        parent = paths.ACL_CHANGES
        anew: list[ZkOperation] = [Delete(name), Delete(parent), Create(parent, None), Create(name, b"TOPIC:orders")]
        assert isinstance(await session.multi(anew), MultiDone)
        await cluster.until(lambda: not cluster.may_read("untold"))


@pytest.mark.parametrize("limits", [AclLimits(resources=2), AclLimits(entries=2)])
async def test_above_a_limit_everything_is_denied_until_there_are_fewer(limits: AclLimits) -> None:
    cluster = Cluster(limits)
    for name in ("a", "b"):
        await cluster.put(topic(name), encode_acls((ALLOW,)))
    async with cluster.following():
        assert cluster.may_read("a")
        await cluster.put(topic("c"), encode_acls((ALLOW,)))
        await cluster.until(lambda: not cluster.may_read("a"))
        assert "at most 2" in cluster.reader.faults[paths.ACLS] or "with 2 entries" in cluster.reader.faults[paths.ACLS]
        await cluster.remove(topic("b"))
        await cluster.until(lambda: cluster.may_read("a"))


async def test_faults_are_looked_at_again_from_time_to_time() -> None:
    cluster = Cluster(retry_s=0.01)
    await cluster.put(ORDERS, b"rubbish")
    async with cluster.following():
        assert dict(cluster.reader.acls.patterns()) == {ORDERS: UNREADABLE}
        await cluster.put(ORDERS, encode_acls((ALLOW,)), tell=False)
        await cluster.until(lambda: cluster.may_read("orders"))


async def test_without_a_session_the_last_acls_are_kept_and_the_next_one_reads_all() -> None:
    cluster = Cluster()
    await cluster.put(ORDERS, encode_acls((ALLOW,)))
    async with cluster.zookeeper.open_session(cluster.reader.on_watch) as session:
        task = asyncio.create_task(cluster.reader.follow(session))
        await cluster.until(lambda: cluster.may_read("orders"))
        cluster.zookeeper.expire(session.session_id)
        with pytest.raises(SessionLost):
            await asyncio.wait_for(task, LIMIT_S)
    assert cluster.may_read("orders")
    await cluster.put(ORDERS, DENIES, tell=False)
    async with cluster.following():
        await cluster.until(lambda: not cluster.may_read("orders"))


async def test_types_that_kafka_does_not_have_are_named_and_ignored(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    await cluster.put(ORDERS, encode_acls((ALLOW,)))
    async with cluster.zookeeper.open_session(lambda _: None) as session:
        await session.ensure_path("/kafka-acl/Robot/r2")
    async with cluster.following():
        await cluster.until(lambda: "ignored, as in Kafka: /kafka-acl/Robot" in caplog.text)
        assert cluster.may_read("orders")
