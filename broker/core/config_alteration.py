"""What an agent alters for clients: configurations of topics in its metadata cache, its own, and that of all brokers.

`protocol.config_alteration` has the rules, which controllers share. The defaults that a topic's settings have to fit to
come from ZooKeeper and from the agent's file; where ZooKeeper could not be read, no topic is altered. An agent has no
remote storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from lethe.broker.core.config_queries import OwnSettings
from lethe.broker.core.metadata_cache import MetadataCache
from lethe.protocol.client_rows import RowRefused
from lethe.protocol.config_alteration import Alterer, path_of, stored_config
from lethe.protocol.kafka.admin_configs import AlterableResource
from lethe.protocol.kafka.config_synonyms import ConfigPlaces, defaults_of_topics
from lethe.protocol.own_settings import OF_AGENTS
from lethe.protocol.security.authorizer import Sender
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ReadOutcome

Read = Mapping[str, ReadOutcome]
"""What was read in ZooKeeper, by path."""


def paths_to_alter(resources: Iterable[AlterableResource], own: OwnSettings) -> tuple[str, ...]:
    """Return the configurations in ZooKeeper that the change of these resources needs, each once."""
    wanted = (path_of(each.type, each.name) for each in resources)
    return tuple(dict.fromkeys((*wanted, paths.config_broker_default(), paths.config_broker(own.broker_id))))


def alterer(cache: MetadataCache, own: OwnSettings, sender: Sender, read: Read) -> Alterer:
    """Return the agent as one that alters configurations for the sender. `read` has all `paths_to_alter`; it is empty
    before they are read."""

    @lru_cache(1)
    def decoded() -> Mapping[str, str] | RowRefused:
        places = (paths.config_broker(own.broker_id), paths.config_broker_default())
        try:
            this, every = (stored_config(path, read[path]) for path in places)
        except RowRefused as refused:
            return refused
        return defaults_of_topics(ConfigPlaces(this, every, own.file))

    def defaults() -> Mapping[str, str]:
        # A request may name thousands of topics, and the defaults are the same for each.
        found = decoded()
        if isinstance(found, RowRefused):
            raise RowRefused(found.error, found.message, why=str(found))
        return found

    return Alterer(own.broker_id, OF_AGENTS, cache.topics, defaults, False, sender)
