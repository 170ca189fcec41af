"""People who change how the cluster is run while it runs: configuration of topics and brokers, deletions paused.

A configuration is written first and announced afterwards, by a notification, as Kafka's tools do it; whoever does so
may be interrupted in between, and then nobody is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lethe.protocol.own_settings import TOPICS_PER_SECOND
from lethe.protocol.topic_globs import PROTECTED_TOPICS, parse_globs
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, SetData
from tests.simulation.settings import DELETION, UNCLEAN

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

UNANNOUNCED = 0.1
"""How often whoever changes a configuration is interrupted before it is announced."""
PAUSES = (znodes.encode_deletions_paused(znodes.DeletionsPaused(1, "an audit")), b"", b"{", None)

PATTERNS = ("", "t0", "t1, t2", "t*", "t?", "none", "t0 t1")
"""Of protected topics; the last one is none."""

PACES = ("0", "1", "0.5", "3", "20", "-1")
"""Deletions that may begin in a second; the last one is no number."""


def _is_clear(key: str, value: str) -> bool:
    return key == PROTECTED_TOPICS and not isinstance(parse_globs(value), str)


class Switches:
    """What they do; each method is one deed, which may turn out to be impossible."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._ensemble = cluster.ensemble

    # --- deletions -------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Let no deletion go on; what is written there does not matter."""
        model = self._ensemble.model
        if model.node(paths.DELETIONS_PAUSED) is None:
            data = PAUSES[self._world.between(0, len(PAUSES) - 1)]
            parent = () if model.node(paths.LETHE) is not None else (Create(paths.LETHE, None),)
            self._ensemble.operate(*parent, Create(paths.DELETIONS_PAUSED, data))

    def resume(self) -> None:
        """Let deletions go on."""
        if self._ensemble.model.node(paths.DELETIONS_PAUSED) is not None:
            self._ensemble.operate(Delete(paths.DELETIONS_PAUSED))

    # --- configuration ---------------------------------------------------------------------------------------------

    def allow_unclean_for_topic(self) -> None:
        """One topic's leaders may lack records, or may not any more."""
        names = [name for name, each in self._cluster.ledger.living.items() if each.readable]
        if names:
            name = names[self._world.between(0, len(names) - 1)]
            path = paths.config_topic(name)
            self._configure(path, (self._understood(path) or {}) | {UNCLEAN: self._yes_or_no()})

    def allow_unclean(self) -> None:
        """Leaders may lack records, or may not any more, by default."""
        self._configure_brokers(UNCLEAN)

    def allow_deletion(self) -> None:
        """Topics may be deleted, or may not any more."""
        self._configure_brokers(DELETION)

    def protect(self) -> None:
        """Some topics may not be deleted, or may again."""
        path = self._brokers_config()
        patterns = PATTERNS[self._world.between(0, len(PATTERNS) - 1)]
        self._configure(path, (self._understood(path) or {}) | {PROTECTED_TOPICS: patterns})

    def pace(self) -> None:
        """Few deletions may begin in a second, or any number."""
        path = self._brokers_config()
        pace = PACES[self._world.between(0, len(PACES) - 1)]
        self._configure(path, (self._understood(path) or {}) | {TOPICS_PER_SECOND: pace})

    def forget_configuration(self) -> None:
        """Leave it to what the controllers were started with."""
        self._configure(self._brokers_config(), {})

    def spoil_configuration(self) -> None:
        """Write a configuration that nobody can understand."""
        self._write(self._brokers_config(), b"{")

    def mend_configuration(self) -> None:
        """Leave nothing there that cannot be understood, and nothing that was not announced."""
        brokers = paths.parent_of(paths.config_broker_default())
        for name in self._ensemble.model.children(brokers):
            path = f"{brokers}/{name}"
            config = self._understood(path) or {}
            clear = {key: value for key, value in config.items() if value in ("true", "false") or _is_clear(key, value)}
            self._ensemble.operate(SetData(path, znodes.encode_config(clear), ANY_VERSION))
        for entity in list(self._cluster.announcements.owed):
            self._announce(entity)

    def _yes_or_no(self) -> str:
        return "true" if self._world.chance(0.5) else "false"

    def _brokers_config(self) -> str:
        """That of all brokers, or of one controller."""
        if self._world.chance(0.7):
            return paths.config_broker_default()
        controllers = self._cluster.controllers
        return paths.config_broker(controllers[self._world.between(0, len(controllers) - 1)].id)

    def _configure_brokers(self, key: str) -> None:
        path = self._brokers_config()
        value = "perhaps" if self._world.chance(0.1) else self._yes_or_no()
        self._configure(path, (self._understood(path) or {}) | {key: value})

    def _understood(self, path: str) -> dict[str, str] | None:
        node = self._ensemble.model.node(path)
        try:
            return znodes.decode_config(path, None if node is None else node.data)
        except znodes.MalformedZnode:
            return None

    def _configure(self, path: str, config: dict[str, str]) -> None:
        self._write(path, znodes.encode_config(config))

    def _write(self, path: str, data: bytes) -> None:
        there = self._ensemble.model.node(path) is not None
        self._ensemble.operate(SetData(path, data, ANY_VERSION) if there else Create(path, data))
        if not self._world.chance(UNANNOUNCED):
            self._world.after(self._world.between(0, 200), lambda: self._announce(path.removeprefix("/config/")))

    def _announce(self, entity: str) -> None:
        change = znodes.encode_config_change(znodes.ConfigChange(entity))
        self._ensemble.operate(Create(paths.config_change(), change, sequential=True))
