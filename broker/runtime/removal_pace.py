"""How fast the bytes of deleted replicas are removed: by the agent's file, or live by the brokers' configuration.

`/config/brokers/ID` comes before `/config/brokers/<default>`, both before the file. They are read twice a minute. What
cannot be read changes nothing, and is logged seldom (`AuditLog`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from lethe.adapters.security.audit import AuditLog
from lethe.adapters.zookeeper.interface import SessionLost, ZooKeeperSession
from lethe.protocol.own_settings import REMOVED_BYTES_PER_SECOND, REMOVED_FILES_PER_SECOND, own_setting_problem
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Data, GetData, failure_words, is_absent
from lethe.protocol.zookeeper.znodes import MalformedZnode, decode_config

logger = logging.getLogger(__name__)

REREAD_S: Final = 30.0
NO_SESSION_S: Final = 1.0


class RemovalLimits(NamedTuple):
    """Limits per second; 0: none."""

    files: int = 0
    bytes: int = 0


class RemovalPace:
    """The limits that hold now."""

    def __init__(self, broker: int, configured: RemovalLimits) -> None:
        self._paths = (paths.config_broker_default(), paths.config_broker(broker))
        self._configured = configured
        self._failures: Final = AuditLog(logger)
        self.limits = configured

    async def follow(self, session: Callable[[], ZooKeeperSession | None]) -> None:
        """Read the limits again and again; never ends."""
        while True:
            if (present := session()) is not None:
                await self.refresh(present)
            await asyncio.sleep(NO_SESSION_S if present is None else REREAD_S)

    async def refresh(self, session: ZooKeeperSession) -> None:
        """Read the limits."""
        try:
            found = await self._read(session)
        except (MalformedZnode, SessionLost, ValueError) as error:
            problem = f"the limits of removal stay as they are, because they cannot be read: {error}"
            self._failures.note(problem, problem)
            return
        if found != self.limits:
            logger.info("removal is limited to %s files and %s bytes a second (0: no limit)", *found)
            self.limits = found

    async def _read(self, session: ZooKeeperSession) -> RemovalLimits:
        merged: dict[str, str] = {}
        outcomes = await session.read([GetData(path) for path in self._paths])
        for path, outcome in zip(self._paths, outcomes, strict=True):
            if isinstance(outcome, Data):
                merged |= decode_config(path, outcome.data)
            elif not is_absent(outcome):
                raise ValueError(f"{path}: {failure_words(outcome)}")
        return RemovalLimits(
            _number(merged, REMOVED_FILES_PER_SECOND, self._configured.files),
            _number(merged, REMOVED_BYTES_PER_SECOND, self._configured.bytes),
        )


def _number(config: dict[str, str], name: str, otherwise: int) -> int:
    text = config.get(name)
    if text is None:
        return otherwise
    if (problem := own_setting_problem(name, text)) is not None:
        raise ValueError(f"{name}: {problem}")
    return int(text)
