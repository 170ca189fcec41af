"""What a controller may write is tried with one multi that is never applied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from lethe.adapters.registration import RegistrationFailed, ensure_roots
from lethe.adapters.zookeeper.interface import WriteRefused, needs_new_settings
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
from tests.fakes.forbidden_znodes import NO_AUTH, ErrorOf, Refusing, forbidding
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper


async def demand(error_of: ErrorOf, unknown: int = 0, hidden: Sequence[str] = (), tells_existence: bool = True) -> int:
    """Return the number of multis that were sent; the tree has to be as before. `hidden` may not be read."""
    zookeeper = FakeZooKeeper()
    async with zookeeper.open_session(lambda _: None) as session:
        await ensure_roots(session)
        await session.multi([Create(paths.CONTROLLER_EPOCH, b"0")])
        looks = [look(path) for path in ("/", paths.CONTROLLER_EPOCH, *PARENTS) for look in (GetData, GetChildren)]
        before, refusing = await session.read(looks), Refusing(session, error_of, unknown)
        try:
            forbidden = forbidding(cast(FakeSession, refusing), *hidden, tells_existence=tells_existence)
            await demand_rights(forbidden)
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


@pytest.mark.parametrize("tells_existence", [True, False])
async def test_who_may_not_read_a_list_is_refused_also_where_its_existence_is_not_told(tells_existence: bool) -> None:
    """The term could not begin without it, so control would be taken and lost again and again."""
    hidden = (paths.DELETE_TOPICS, paths.BROKER_TOPICS)
    with pytest.raises(RegistrationFailed) as refused:
        await demand(lambda _: None, hidden=hidden, tells_existence=tells_existence)
    assert str(refused.value) == f"ZooKeeper refuses to read {paths.DELETE_TOPICS}, {paths.BROKER_TOPICS}: {NO_AUTH}"
    assert needs_new_settings(refused.value)
    refusing = below(paths.config_topics(), error=ZkError.NO_AUTH)
    with pytest.raises(
        RegistrationFailed, match=f"to read {paths.DELETE_TOPICS}, and to write {paths.config_topics()}: "
    ):
        await demand(refusing, hidden=(paths.DELETE_TOPICS,), tells_existence=tells_existence)


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
