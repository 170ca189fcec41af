"""Reading debts: none, some, and those that are unseen."""

from __future__ import annotations

from uuid import UUID

from lethe.adapters.debts import DebtsRead, OpenDebt, UnseenDebts, read_debts, read_debts_of
from lethe.protocol.vocabulary import BrokerId, TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, WatchFired
from lethe.protocol.zookeeper.znodes import Debt, encode_debt
from tests.fakes.forbidden_znodes import NO_AUTH, forbidding
from tests.fakes.zookeeper import FakeZooKeeper

FIRST = Debt(TopicId(UUID(int=7)), (0, 1), 3, 1_000, 500)
SECOND = Debt(None, (2,), 0, 2_000)


def ignore(_: WatchFired) -> None:
    pass


def zookeeper_with(**debts: bytes) -> FakeZooKeeper:
    """Znodes below `/lethe/debts`, `__` for `/` and `_at_` for `@`."""
    zookeeper = FakeZooKeeper()
    session = zookeeper.model.open_session()
    for name, data in debts.items():
        path = f"{paths.debts()}/{name.replace('__', '/').replace('_at_', '@')}"
        made = [each for each in (*paths.ancestors_of(path),) if zookeeper.model.node(each) is None]
        zookeeper.model.multi(session, [*(Create(each, None) for each in made), Create(path, data)])
    return zookeeper


async def test_without_any_there_are_none() -> None:
    async with FakeZooKeeper().open_session(ignore) as session:
        assert await read_debts(session) == DebtsRead()
        assert await read_debts_of(session, [BrokerId(3)]) == DebtsRead()


async def test_all_and_those_of_one_broker() -> None:
    zookeeper = zookeeper_with(
        **{"3__t_at_17": encode_debt(FIRST), "3__t_at_18": encode_debt(SECOND), "12__u_at_19": encode_debt(SECOND)}
    )
    of_3 = (OpenDebt(BrokerId(3), "t", 17, FIRST, 0), OpenDebt(BrokerId(3), "t", 18, SECOND, 0))
    of_12 = (OpenDebt(BrokerId(12), "u", 19, SECOND, 0),)
    async with zookeeper.open_session(ignore) as session:
        assert await read_debts(session) == DebtsRead((*of_3, *of_12))
        assert await read_debts_of(session, [BrokerId(12)]) == DebtsRead(of_12)
    assert of_3[0].path == "/lethe/debts/3/t@17"


async def test_what_cannot_be_read_or_understood_is_unseen() -> None:
    zookeeper = zookeeper_with(
        **{
            "3__t_at_17": b"{}",
            "3__t": encode_debt(FIRST),
            "3__u_at_18": encode_debt(FIRST),
            "x": b"",
            "4__v_at_1": b"",
        }
    )
    async with zookeeper.open_session(ignore) as session:
        read = await read_debts(forbidding(session, "/lethe/debts/3/u@18", "/lethe/debts/4"))
        assert read.debts == ()
        assert [unseen.path for unseen in read.unseen] == [
            "/lethe/debts/x",
            "/lethe/debts/4",
            "/lethe/debts/3/t",
            "/lethe/debts/3/t@17",
            "/lethe/debts/3/u@18",
        ]
        hidden = forbidding(session, "/lethe/debts")
        assert await read_debts(hidden) == DebtsRead(unseen=(UnseenDebts("/lethe/debts", NO_AUTH),))
