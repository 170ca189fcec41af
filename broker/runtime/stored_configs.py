"""Read configurations in ZooKeeper for answers to clients."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from lethe.adapters.zookeeper.interface import SessionLost, ZooKeeperSession
from lethe.protocol.zookeeper.operations import Data, GetData, ReadOutcome, is_absent
from lethe.protocol.zookeeper.znodes import MalformedZnode, decode_config

logger = logging.getLogger(__name__)


async def read_configs(session: ZooKeeperSession | None, paths: Sequence[str]) -> dict[str, Mapping[str, str] | None]:
    """Return the settings in each of these znodes, none where there is no znode; None: unreadable, see the log."""
    if session is None:
        return dict.fromkeys(paths)
    try:
        outcomes = await session.read([GetData(path) for path in paths])
    except SessionLost as lost:
        logger.info("configurations cannot be read for a client: %s", lost)
        return dict.fromkeys(paths)
    return {path: _settings(path, outcome) for path, outcome in zip(paths, outcomes, strict=True)}


def _settings(path: str, outcome: ReadOutcome) -> Mapping[str, str] | None:
    if is_absent(outcome):
        return {}
    if not isinstance(outcome, Data):
        logger.warning("a client cannot be shown %s: reading it failed", path)
        return None
    try:
        return decode_config(path, outcome.data)
    except MalformedZnode as malformed:
        logger.warning("a client cannot be shown a configuration: %s", malformed)
        return None
