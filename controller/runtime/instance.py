"""Makes `/lethe/instances/<broker.id>`, an ephemeral znode that allows one process per controller id.

Brokers, `/controller`, metrics and the journal identify a controller by its id only, so two processes with one
`broker.id` cannot be told apart. Each process creates the znode before it stands for election. Where the id is taken,
it waits for the session of a killed process to expire (`registration.Patience`):

    holder of the id                                  result
    no process                                        the id is held
    an earlier session of this process                the id is held
    a process whose session ends within that time     the id is held then
    a controller that stays                           ControllerIdTaken
    a broker in /brokers/ids that stays               ControllerIdTaken
    unknown: its registration cannot be read          ControllerIdTaken
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from typing import Final, NamedTuple

import orjson

from lethe.adapters.registration import EphemeralTaken, Patience, ensure_roots, make_ephemeral
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, Data, GetData, Operation, SetData, error_words, read_error
from lethe.protocol.zookeeper.znodes import is_controller_registration

logger = logging.getLogger(__name__)

POLL_S = 0.25
KEPT_SESSIONS: Final = 16
"""Earlier sessions of this process whose znode may still exist."""
_SHOWN: Final = 200


class ControllerIdTaken(Exception):
    """Another process uses this controller's id, or may use it. The message names it and says what to do."""


class _Holder(NamedTuple):
    """What has the id, or may have it."""

    what: str
    remedy: str = "stop it"


class Instance:
    """Holds the controller's id, in one session after the other."""

    def __init__(self, controller: BrokerId, admin: Callable[[], str | None] = lambda: None) -> None:
        """`admin` returns the URL of this process's pages; other controllers link to it."""
        self._controller = controller
        self._admin = admin
        self._earlier: list[int] = []

    async def prepare(self, session: ZooKeeperSession) -> None:
        """Create the parent znodes that a controller watches, and its own znode. Raises ControllerIdTaken, SessionLost,
        RegistrationFailed."""
        await ensure_roots(session)
        await session.ensure_path(paths.INSTANCES)
        path = paths.instance(self._controller)
        making: list[Operation] = [Create(path, None, ephemeral=True), SetData(path, _own_record(self._admin()), 0)]
        patience = Patience(session)
        told = False
        try:
            while True:
                taken = await self._broker_of_this_id(session)
                if taken is None:
                    try:
                        await make_ephemeral(session, path, making, self._earlier)
                        return
                    except EphemeralTaken as held:
                        taken = await self._process(session, held)
                if patience.is_over():
                    raise ControllerIdTaken(
                        f"{taken.what}: {taken.remedy}, or give this controller a broker.id of its own "
                        f"(it is {self._controller})"
                    )
                if not told:
                    logger.warning("%s; waiting %.0f s for it to go", taken.what, patience.seconds)
                    told = True
                await asyncio.sleep(POLL_S)
        finally:
            self._earlier = [*self._earlier, session.session_id][-KEPT_SESSIONS:]

    async def _broker_of_this_id(self, session: ZooKeeperSession) -> _Holder | None:
        """Return the broker that has this id, or may have it."""
        path = paths.broker_id(self._controller)
        (found,) = await session.read([GetData(path)])
        if (error := read_error(found)) is not None:
            why = f"{path} cannot be read ({error_words(error)})"
            what = f"{why}: a broker may be registered under the id of this controller"
            return _Holder(what, "let this controller read it")
        if isinstance(found, Data) and not is_controller_registration(found.data):
            return _Holder(
                f"broker {self._controller} is registered in {paths.BROKER_IDS}, under the id of this controller"
            )
        return None

    async def _process(self, session: ZooKeeperSession, held: EphemeralTaken) -> _Holder:
        (found,) = await session.read([GetData(held.path)])
        where = _where(found.data) if isinstance(found, Data) else ""
        return _Holder(
            f"another process{where} has the id of controller {self._controller} (ZooKeeper session {held.owner:#x})"
        )


def _where(data: bytes | None) -> str:
    """Return host and pid of the process for a message; empty where the znode has another format."""
    try:
        said = orjson.loads(data or b"")
        return f" ({said['host']}, process {said['pid']})"[:_SHOWN]
    except (orjson.JSONDecodeError, TypeError, KeyError):
        return ""


def _own_record(admin: str | None) -> bytes:
    return orjson.dumps({"host": socket.gethostname(), "pid": os.getpid(), "admin": admin})


def admin_in(data: bytes | None) -> str | None:
    """Return the URL of the pages from the data of an instance znode; None where there is no valid one."""
    try:
        admin = orjson.loads(data or b"")["admin"]
    except (orjson.JSONDecodeError, TypeError, KeyError):
        return None
    is_address = isinstance(admin, str) and len(admin) <= _SHOWN and admin.startswith(("http://", "https://"))
    return admin if is_address else None
