"""Commands that end before their request is answered: it is withdrawn, or they say that it may stand."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from lethe.adapters.zookeeper.interface import SessionLost
from lethe.admin.refusal import Exit
from lethe.admin.standing_requests import until_interrupted
from lethe.admin.topic_creation import TopicCreationRequest
from lethe.cli.answer import Answer
from lethe.cli.brokers_forget import forgetting
from lethe.cli.topics_create import creation
from lethe.cli.topics_trash_purge import purging
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Data, Delete, GetData
from lethe.protocol.zookeeper.znodes import RequestedAction, TopicRequest, encode_topic_request
from tests.fakes.trash import ENTRY, in_trash
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply, elect

LONG_MS = 600_000
MAY_STAND = "may stand, and is carried out when a controller reads it: to withdraw it, give the same command again"


@dataclass(frozen=True)
class Command:
    """A command that waits for a controller that does not answer."""

    path: str
    begin: Callable[[FakeSession], Awaitable[asyncio.Task[Answer]]]


async def purge(session: FakeSession) -> asyncio.Task[Answer]:
    await elect(session, 1001, admin="http://localhost:1")
    await in_trash(session, orders=ENTRY)
    return asyncio.create_task(purging(session, ["orders"], confirm=None, timeout_ms=LONG_MS))


async def forget(session: FakeSession) -> asyncio.Task[Answer]:
    await creation(session, TopicCreationRequest("bills", assignment=((1, 3),)))
    await elect(session, 1, admin="http://localhost:1")
    await apply(session, Delete(paths.broker_id(3)))
    return asyncio.create_task(forgetting(session, 3, confirm=None, timeout_ms=LONG_MS))


COMMANDS = [
    pytest.param(Command(paths.request("orders"), purge), id="purge"),
    pytest.param(Command(paths.forget(3), forget), id="forget"),
]


async def stands(session: FakeSession, path: str) -> bool:
    (found,) = await session.read([GetData(path)])
    return isinstance(found, Data)


async def begun(session: FakeSession, command: Command) -> asyncio.Task[Answer]:
    """Begin the command, and wait until its request is written."""
    task = await command.begin(session)
    async with asyncio.timeout(10):
        while not await stands(session, command.path):
            await asyncio.sleep(0)
    return task


async def ended(task: asyncio.Task[Answer]) -> Answer:
    async with asyncio.timeout(10):
        return await task


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_at_a_signal_the_request_is_withdrawn(
    session: FakeSession, command: Command, number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    task = await begun(session, command)
    os.kill(os.getpid(), number)
    answer = await ended(task)
    assert "and the request is withdrawn" in answer.lines[-1]
    assert answer.exit is Exit.INTERRUPTED
    assert f"received {number.name}: the request is being withdrawn" in capsys.readouterr().err
    assert not await stands(session, command.path)


@pytest.mark.parametrize("command", COMMANDS)
async def test_at_a_cancellation_the_request_is_withdrawn(session: FakeSession, command: Command) -> None:
    task = await begun(session, command)
    task.cancel()
    assert (await ended(task)).exit is Exit.INTERRUPTED
    assert not await stands(session, command.path)


async def test_a_request_that_is_carried_out_already_is_said_to_be(session: FakeSession) -> None:
    task = await purge(session)
    while not await stands(session, paths.request("orders")):
        await asyncio.sleep(0)
    await apply(session, Delete(paths.trashed("orders")), Delete(paths.request("orders")))
    task.cancel()
    answer = await ended(task)
    assert (answer.exit, answer.lines) == (Exit.OK, ("Topic orders is being deleted.",))


@pytest.mark.parametrize("command", COMMANDS)
async def test_while_zookeeper_does_not_answer_a_second_signal_ends_the_command(
    session: FakeSession, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    task = await begun(session, command)
    session.disconnect()
    os.kill(os.getpid(), signal.SIGINT)
    while "being withdrawn" not in (err := capsys.readouterr().err):
        await asyncio.sleep(0)
    assert "may stand" not in err
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(asyncio.CancelledError):
        await ended(task)
    assert f"the request {command.path} {MAY_STAND}" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_lost_session_leaves_a_request_that_may_stand(session: FakeSession, command: Command) -> None:
    task = await begun(session, command)
    session.end("expired")
    with pytest.raises(
        SessionLost, match=f"the ZooKeeper session is lost: expired; the request {command.path} {MAY_STAND}"
    ):
        await ended(task)


async def test_a_withdrawal_that_hangs_is_given_up() -> None:
    interrupted, said = asyncio.Event(), list[str]()
    hangs = asyncio.Event()
    task = asyncio.create_task(until_interrupted(hangs.wait(), interrupted, ["/a", "/b"], said.append, limit_s=0.01))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(10):
            await task
    assert said[0] == "interrupted: the request is being withdrawn"
    assert said[1].startswith("the requests /a, /b may stand, and are carried out when a controller reads them")


async def test_a_request_whose_writing_is_unknown_may_stand(session: FakeSession) -> None:
    await elect(session, 1001, admin="http://localhost:1")
    await in_trash(session, orders=ENTRY)
    for path in (paths.LETHE, paths.REQUESTS):
        await session.ensure_path(path)
    session.lose_next_reply(applied=True)
    answer = await purging(session, ["orders"], confirm=None, timeout_ms=LONG_MS)
    assert answer.exit is Exit.UNREACHABLE
    assert f"the request {paths.request('orders')} {MAY_STAND}" in answer.lines[0]


async def test_the_request_of_another_process_that_replaces_it_stays(session: FakeSession) -> None:
    """An operator wants the topic back while the command waits."""
    command = Command(paths.request("orders"), purge)
    task = await begun(session, command)
    undelete = encode_topic_request(TopicRequest(RequestedAction.UNDELETE))
    await apply(session, Delete(command.path, ANY_VERSION), Create(command.path, undelete))
    task.cancel()
    answer = await ended(task)
    assert answer.lines == ("topic orders: another process has replaced the request",)
    assert await stands(session, command.path)
