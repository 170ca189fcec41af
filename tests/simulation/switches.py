"""People who change how the cluster is run while it runs: configuration of topics and brokers, deletions paused.

A configuration is written first and announced afterwards, by a notification, as Kafka's tools do it; whoever does so
may be interrupted in between, and then nobody is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.zookeeper import paths, znodes
from protocol.zookeeper.operations import ANY_VERSION, Create, Delete, SetData

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

UNCLEAN = "unclean.leader.election.enable"
DELETION = "delete.topic.enable"
PAUSES = (znodes.encode_deletions_paused(znodes.DeletionsPaused(1, "an audit")), b"", b"{", None)


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
            self._configure(paths.config_topic(name), f"topics/{name}", {UNCLEAN: self._yes_or_no()})

    def allow_unclean(self) -> None:
        """Leaders may lack records, or may not any more, by default."""
        self._configure_brokers(UNCLEAN, self._yes_or_no())

    def allow_deletion(self) -> None:
        """Topics may be deleted, or may not any more."""
        self._configure_brokers(DELETION, self._yes_or_no())

    def forget_configuration(self) -> None:
        """Leave it to what the controllers were started with."""
        self._configure(paths.config_broker_default(), f"brokers/{paths.DEFAULT_ENTITY}", {})

    def _yes_or_no(self) -> str:
        return "true" if self._world.chance(0.5) else "false"

    def _configure_brokers(self, key: str, value: str) -> None:
        path = paths.config_broker_default()
        node = self._ensemble.model.node(path)
        config = znodes.decode_config(path, None if node is None else node.data)
        self._configure(path, f"brokers/{paths.DEFAULT_ENTITY}", config | {key: value})

    def _configure(self, path: str, entity: str, config: dict[str, str]) -> None:
        data = znodes.encode_config(config)
        there = self._ensemble.model.node(path) is not None
        self._ensemble.operate(SetData(path, data, ANY_VERSION) if there else Create(path, data))
        change = znodes.encode_config_change(znodes.ConfigChange(entity))
        announce = Create(paths.config_change(), change, sequential=True)
        self._world.after(self._world.between(0, 200), lambda: self._announce(announce))

    def _announce(self, announce: Create) -> None:
        self._ensemble.operate(announce)
