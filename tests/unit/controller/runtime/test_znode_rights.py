"""What a controller may write is tried with one multi that is never applied."""

from __future__ import annotations

from typing import cast

import pytest

from lethe.adapters.registration import RegistrationFailed, ensure_roots
from lethe.adapters.zookeeper.interface import WriteRefused, ZooKeeperSession
from lethe.controller.runtime.znode_rights import CHILD, PARENTS, demand_rights
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import (
    Create,
    Delete,
    GetChildren,
    GetData,
    Operation,
    SetData,
    ZkError,
)
from tests.fakes.forbidden_znodes import ErrorOf, Refusing
from tests.fakes.zookeeper import FakeZooKeeper


async def demand(error_of: ErrorOf, unknown: int = 0) -> int:
    """Return the number of multis that were sent; the tree has to be as before."""
    zookeeper = FakeZooKeeper()
    async with zookeeper.open_session(lambda _: None) as session:
        await ensure_roots(session)
        await session.multi([Create(paths.CONTROLLER_EPOCH, b"0")])
        looks = [look(path) for path in ("/", paths.CONTROLLER_EPOCH, *PARENTS) for look in (GetData, GetChildren)]
        before, refusing = await session.read(looks), Refusing(session, error_of, unknown)
        try:
            await demand_rights(cast(ZooKeeperSession, refusing))
        finally:
            assert await session.read(looks) == before, "nothing is written"
        return refusing.tried


def below(*parents: str, error: ZkError, kind: type[Operation] = Create) -> ErrorOf:
    return lambda each: error if isinstance(each, kind) and each.path in {f"{p}/{CHILD}" for p in parents} else None


async def test_one_multi_is_enough_where_everything_may_be_written() -> None:
    assert await demand(lambda _: None) == 1


@pytest.mark.parametrize("kind", [Create, Delete])
async def test_who_may_not_create_or_not_delete_children_is_refused(kind: type[Operation]) -> None:
    with pytest.raises(WriteRefused) as refused:
        await demand(below(paths.BROKER_TOPICS, paths.DELETE_TOPICS, error=ZkError.NO_AUTH, kind=kind))
    assert refused.value.path == f"{paths.DELETE_TOPICS}, {paths.BROKER_TOPICS}"


async def test_the_epoch_is_looked_at_although_the_others_may_be_written() -> None:
    with pytest.raises(WriteRefused, match="refuses to write /controller_epoch: NO_AUTH"):
        await demand(lambda each: ZkError.NO_AUTH if isinstance(each, SetData) else None)


async def test_a_server_that_cannot_make_znodes_ours_is_named_at_once() -> None:
    with pytest.raises(WriteRefused, match="INVALID_ACL"):
        await demand(lambda each: ZkError.INVALID_ACL if isinstance(each, Create) else None)


async def test_a_znode_that_is_removed_meanwhile_hides_no_other() -> None:
    def error_of(operation: Operation) -> ZkError | None:
        gone = below(paths.DELETE_TOPICS, error=ZkError.NO_NODE)(operation)
        return gone or below(paths.BROKER_TOPICS, error=ZkError.NO_AUTH)(operation)

    with pytest.raises(WriteRefused) as refused:
        await demand(error_of)
    assert refused.value.path == paths.BROKER_TOPICS


async def test_a_lost_reply_is_no_right() -> None:
    assert await demand(lambda _: None, unknown=2) == 3
    with pytest.raises(RegistrationFailed, match="did not answer whether"):
        await demand(lambda _: None, unknown=1_000)
