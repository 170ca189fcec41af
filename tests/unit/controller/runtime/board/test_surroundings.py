"""The cluster's id, and the other controllers that a page links to."""

from __future__ import annotations

import pytest

from lethe.controller.runtime.board.surroundings import LOOK_EVERY_MS, PeerController, Surroundings
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete
from lethe.protocol.zookeeper.znodes import encode_cluster_id
from tests.fakes.zookeeper import FakeSession, FakeZooKeeper


async def write(session: FakeSession, path: str, data: bytes | None) -> None:
    await session.ensure_path(path.rpartition("/")[0])
    await session.multi([Create(path, data)])


def seen(here: Surroundings) -> tuple[str | None, list[PeerController]]:
    return here.cluster_id, list(here.others)


async def test_the_cluster_and_the_other_controllers() -> None:
    async with FakeZooKeeper().open_session(lambda _: None) as session:
        here = Surroundings(1001)
        await here.look(session, 0)
        assert seen(here) == (None, [])
        await write(session, paths.CLUSTER_ID, encode_cluster_id("abc"))
        for number in (1001, 1002):
            await write(session, paths.instance(BrokerId(number)), b'{"admin": "http://one:%d"}' % number)
        await here.look(session, LOOK_EVERY_MS - 1)
        assert seen(here) == (None, []), "not asked at each look"
        await here.look(session, LOOK_EVERY_MS)
        assert seen(here) == ("abc", [PeerController(BrokerId(1002), "http://one:1002")])
        await session.multi([Delete(paths.instance(BrokerId(1002)))])
        await here.look(session, 2 * LOOK_EVERY_MS)
        assert seen(here) == ("abc", [])


@pytest.mark.parametrize(
    "data", [None, b"", b"{", b"[]", b"{}", b'{"admin": 1}', b'{"admin": "javascript:alert(1)"}', b'{"admin": "//x"}']
)
async def test_an_address_that_is_none_is_not_linked(data: bytes | None) -> None:
    async with FakeZooKeeper().open_session(lambda _: None) as session:
        await write(session, paths.instance(BrokerId(1002)), data)
        here = Surroundings(1001)
        await here.look(session, 0)
        assert here.others == ()
