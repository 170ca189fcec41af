"""Controllers whose access lists a real ZooKeeper does not admit to what a controller writes: none takes control."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.adapters.registration import ensure_roots
from lethe.adapters.zookeeper.config import ZooKeeperConfig, parse_connect_string
from lethe.adapters.zookeeper.interface import WriteRefused
from lethe.adapters.zookeeper.session import Session, open_session
from lethe.admin import rescue_control
from lethe.admin.refusal import Refusal
from lethe.admin.rescue_control import RescueController, TakeoverSettings, in_control
from lethe.controller.core.config import Takeover
from lethe.controller.core.scope import EVERYTHING
from lethe.controller.runtime.app import application
from lethe.controller.runtime.znode_rights import PARENTS, demand_rights
from lethe.protocol.kafka.versions import LATEST
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    Acl,
    Children,
    Create,
    Credentials,
    Data,
    Exists,
    GetChildren,
    GetData,
    MultiDone,
)
from lethe.protocol.zookeeper.znodes import ControllerZnode, encode_broker, encode_controller
from tests.fakes.broken_broker import FakeBroker
from tests.fakes.runtime import controller_config, reach

pytestmark = pytest.mark.zookeeper

LIMIT_S = 60.0
ALICE = (Credentials("digest", b"alice:secret"),)
OPEN_ROOTS = ("/controller_epoch", "/brokers/topics", "/admin/delete_topics", "/config/topics")


@asynccontextmanager
async def session_on(connect: str, *, is_alice: bool = False) -> AsyncIterator[Session]:
    config = ZooKeeperConfig(
        parse_connect_string(connect),
        credentials=ALICE if is_alice else (),
        set_acl=is_alice,
        session_timeout_ms=20_000,
    )
    async with open_session(config, lambda _: None) as session:
        yield session


async def make(session: Session, path: str, *, owned: bool, data: bytes | None = None, ephemeral: bool = False) -> None:
    acl = Acl.DEFAULT if owned else Acl.OPEN
    assert isinstance(await session.multi([Create(path, data, ephemeral=ephemeral, acl=acl)]), MultiDone)


async def prepare(alice: Session, anybody: Session, owned: Sequence[str]) -> None:
    """A cluster of which everybody may write everything but these znodes, and what is directly below them."""
    for path in ("/brokers", "/admin", "/config", *OPEN_ROOTS):
        await make(alice, path, owned=path in owned, data=b"0" if path == paths.CONTROLLER_EPOCH else None)
    await ensure_roots(anybody)


async def test_an_epoch_that_may_not_be_written_keeps_control_where_it_is(zookeeper_chroot: str) -> None:
    """As with an access list on `/controller_epoch` alone: `/controller` could be replaced, and the term not begin."""
    async with (
        session_on(zookeeper_chroot) as anybody,
        session_on(zookeeper_chroot, is_alice=True) as alice,
        FakeBroker() as broker,
    ):
        await prepare(alice, anybody, ["/controller_epoch"])
        registered = Broker(BrokerId(1), BrokerEpoch(-1), (broker.endpoint,))
        await make(alice, "/brokers/ids/1", owned=False, data=encode_broker(registered, timestamp_ms=1), ephemeral=True)
        holder = encode_controller(ControllerZnode(BrokerId(1), 0))
        await make(alice, paths.CONTROLLER, owned=False, data=holder, ephemeral=True)
        config = replace(controller_config(connect=zookeeper_chroot), takeover=Takeover.ONCE)
        app = application(config)
        running = asyncio.create_task(app.run())
        try:
            async with asyncio.timeout(LIMIT_S):
                await app.started.wait()
            await reach(lambda: paths.CONTROLLER_EPOCH in (app.session_problem() or ""), LIMIT_S)
        finally:
            app.stop("the test is over")
            await running
        (found,) = await anybody.read([GetData(paths.CONTROLLER)])
        assert isinstance(found, Data)
        assert found.stat.ephemeral_owner == alice.session_id, "it was not replaced, not even for a moment"
        assert broker.requests == []


async def test_all_znodes_that_may_not_be_written_are_named_and_nothing_is_changed(zookeeper_chroot: str) -> None:
    owned = ["/controller_epoch", "/brokers/topics", "/config/topics"]
    async with session_on(zookeeper_chroot) as anybody, session_on(zookeeper_chroot, is_alice=True) as alice:
        await prepare(alice, anybody, owned)
        before = await state(anybody)
        with pytest.raises(WriteRefused) as refused:
            await demand_rights(anybody)
        assert refused.value.path == "/brokers/topics, /config/topics, /controller_epoch"
        assert str(refused.value).startswith(
            "ZooKeeper refuses to write /brokers/topics, /config/topics, /controller_epoch: NO_AUTH, since "
        )
        await demand_rights(alice)
        assert await state(anybody) == before


async def test_a_rescue_says_at_once_what_it_may_not_write(
    zookeeper_chroot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only when it has waited in vain for its election."""
    monkeypatch.setattr(rescue_control, "ELECTION_LIMIT_S", 10 * LIMIT_S)

    async def work(controller: RescueController) -> None:
        await controller.elected()

    async with session_on(zookeeper_chroot) as anybody, session_on(zookeeper_chroot, is_alice=True) as alice:
        await prepare(alice, anybody, ["/controller_epoch"])
        before = await state(anybody)
        with pytest.raises(Refusal, match="control could not be taken: .* refuses to write /controller_epoch: NO_AUTH"):
            async with asyncio.timeout(LIMIT_S):
                await in_control(
                    TakeoverSettings(zookeeper_chroot, BrokerId(1000), LATEST, PLAINTEXT_REACH), EVERYTHING, work
                )
        assert await state(anybody) == before


async def test_a_cluster_without_znodes_may_be_begun(zookeeper_chroot: str) -> None:
    async with session_on(zookeeper_chroot) as session:
        await demand_rights(session)
        assert await session.read([GetChildren("/")]) == [Children(())]


async def state(session: Session) -> list[object]:
    """Every Stat, and the children, of what is tried."""
    tried = [paths.CONTROLLER_EPOCH, *PARENTS]
    return [*await session.read([Exists(path) for path in tried]), *await session.read([GetChildren(p) for p in tried])]
