"""Enables unclean leader election for a topic, and restores its configuration exactly.

ZooKeeper has no request for one unclean election; the topic's setting allows them. So the setting is written, with the
notification that makes the controller read it. Afterwards the configuration znode is restored to the byte. If another
client changed it meanwhile, only this setting is restored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lethe.adapters.registration import ensure_roots
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.outcomes import CONFLICTS, MAX_ATTEMPTS, Outcome, is_conflict, outcome_of
from lethe.protocol.shell_words import operand, option
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.config_writes import config_notification, config_operations
from lethe.protocol.zookeeper.operations import (
    Data,
    Delete,
    MultiDone,
    MultiFailed,
    MultiUnknown,
    Operation,
    SetData,
    error_words,
)
from lethe.protocol.zookeeper.znodes import decode_config
from lethe.survey.znodes import read_data

SETTING: Final = "unclean.leader.election.enable"


@dataclass(frozen=True, slots=True)
class PreviousConfiguration:
    """A topic's earlier configuration: the znode (None: there was none), and its content."""

    topic: str
    znode: Data | None
    config: dict[str, str]

    @property
    def value(self) -> str | None:
        """The earlier value of the setting, if any."""
        return self.config.get(SETTING)

    @property
    def undo(self) -> str:
        """The command that restores the setting manually."""
        how = f"--delete-config {SETTING}" if self.value is None else option("--config", f"{SETTING}={self.value}")
        return f"lethe topics alter {how} {operand(self.topic)}"


async def settings_before(session: ZooKeeperSession, topic: str) -> PreviousConfiguration:
    """Return the topic's present configuration. Raises MalformedZnode."""
    path = paths.config_topic(topic)
    data = await read_data(session, path)
    return PreviousConfiguration(topic, data, {} if data is None else decode_config(path, data.data))


async def switch_on(session: ZooKeeperSession, before: PreviousConfiguration) -> Outcome:
    """Enable unclean elections for the topic, if its configuration is unchanged since `before`."""
    await ensure_roots(session, (paths.config_topics(), paths.CONFIG_CHANGES))
    path = paths.config_topic(before.topic)
    version = None if before.znode is None else before.znode.stat.version
    outcome = await session.multi(config_operations(path, {**before.config, SETTING: "true"}, version))
    settings = f"the settings of topic {before.topic}"
    if is_conflict(outcome):
        return Outcome(before.topic, f"{settings} were changed by another process at the same time: try again")
    return outcome_of(before.topic, outcome, act=f"change {settings}", done=f"{settings} were changed")


async def put_back(session: ZooKeeperSession, before: PreviousConfiguration) -> Outcome:
    """Restore the configuration; also done where it is as before already."""
    path = paths.config_topic(before.topic)
    ours = {**before.config, SETTING: "true"}
    for _ in range(MAX_ATTEMPTS):
        now = await read_data(session, path)
        if now is None or (before.znode is not None and now.data == before.znode.data):
            return Outcome(before.topic, was_done=True)
        current = decode_config(path, now.data)
        operations: tuple[Operation, ...]
        if current != ours:
            # Another client has changed the configuration since: keep its changes.
            wanted = {name: value for name, value in current.items() if name != SETTING}
            if before.value is not None:
                wanted[SETTING] = before.value
            if wanted == current:
                return Outcome(before.topic, was_done=True)
            operations = config_operations(path, wanted, now.stat.version)
        elif before.znode is None:
            operations = (Delete(path, now.stat.version), config_notification(path))
        else:
            operations = (SetData(path, before.znode.data, now.stat.version), config_notification(path))
        match await session.multi(operations):
            case MultiDone():
                return Outcome(before.topic)
            case MultiFailed(error=error) if error not in CONFLICTS:
                return Outcome(before.topic, f"ZooKeeper refused to write {path}: {error_words(error)}")
            case MultiFailed() | MultiUnknown():
                continue  # the next attempt reads whether it was written
    return Outcome(before.topic, f"{path} could not be written in {MAX_ATTEMPTS} attempts", is_unknown=True)
