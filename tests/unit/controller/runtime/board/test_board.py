"""Where the active controller is to be looked at."""

import pytest

from lethe.controller.runtime.board.board import BoardMemory, LeaderAddress, admin_of
from lethe.controller.runtime.board.state import Phase
from lethe.protocol.journal import EventRecord, EventRecordType
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Delete
from lethe.protocol.zookeeper.znodes import ControllerZnode, encode_controller
from tests.fakes.runtime import ManualClock
from tests.fakes.zookeeper import FakeZooKeeper


@pytest.mark.parametrize(
    "admin, is_shown",
    [
        ("http://one:8080", True),
        ("https://[::1]:1", True),
        ("javascript:alert(1)", False),
        ("//x", False),
        (None, False),
    ],
)
async def test_only_an_http_address_is_shown(admin: str | None, is_shown: bool) -> None:
    async with FakeZooKeeper().open_session(lambda _: None) as session:
        data = encode_controller(ControllerZnode(BrokerId(1002), 1, admin=admin))
        await session.multi([Create(paths.CONTROLLER, data)])
        assert await admin_of(1002, session) == (admin if is_shown else None)
        assert await admin_of(1003, session) is None


@pytest.mark.parametrize("data", [None, b"", b"{", b"[]", b'{"brokerid": "x"}'])
async def test_what_cannot_be_read_names_nobody(data: bytes | None) -> None:
    async with FakeZooKeeper().open_session(lambda _: None) as session:
        assert await admin_of(1002, session) is None
        await session.multi([Create(paths.CONTROLLER, data)])
        assert await admin_of(1002, session) is None


async def test_a_leader_that_comes_back_elsewhere_is_found_there() -> None:
    address, path = LeaderAddress(1001), paths.CONTROLLER
    async with FakeZooKeeper().open_session(lambda _: None) as session:

        async def leads(url: str) -> None:
            data = encode_controller(ControllerZnode(BrokerId(1002), 1, admin=url))
            await session.multi([Delete(path), Create(path, data)] if address.url else [Create(path, data)])

        await leads("http://one:8080")
        await address.find(1002, session, 1_000)
        assert address.url == "http://one:8080"
        await leads("http://one:9090")
        await address.find(1002, session, 2_000)
        assert address.url == "http://one:8080", "not asked at each look"
        await address.find(1002, session, 7_000)
        assert address.url == "http://one:9090"
        await address.find(1001, session, 7_001)
        assert address.url is None, "that is this one"


def test_every_fact_is_a_change_and_events_say_who_leads() -> None:
    clock = ManualClock(5)
    memory = BoardMemory(1001, clock)
    memory.note_record(EventRecord(EventRecordType.TRANSITION, "topic/a"))
    assert memory.state.changes == 1
    memory.note_record(EventRecord(EventRecordType.DELETION_PHASE, "topic/a", {"phase": "queued"}))
    memory.active_controller = lambda: 1002
    clock.ms = 7
    memory.note_record(
        EventRecord(EventRecordType.EVENT, "controller/1001", {"event": "ControllerChanged", "outcome": "handled"})
    )
    assert memory.state.changes == 3
    assert memory.state.names(Phase.QUEUED) == ["a"]
    assert [(each.controller, each.since_ms) for each in memory.state.terms] == [(1002, 7)]
