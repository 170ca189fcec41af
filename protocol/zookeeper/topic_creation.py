"""The writes that create a topic, for the controller and for tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lethe.protocol.vocabulary import ReplicaAssignment, TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Operation, SetData
from lethe.protocol.zookeeper.znodes import TopicZnode, encode_config, encode_topic


def creation_of_topic(
    name: str,
    topic_id: TopicId | None,
    assignment: Sequence[tuple[int, ...]],
    config: Mapping[str, str],
    *,
    config_exists: bool,
) -> tuple[Operation, ...]:
    """Return the writes of the configuration and then the topic, to be applied together.

    `assignment`: replicas by partition. A configuration that an earlier topic of this name left behind is replaced."""
    data = encode_config(dict(sorted(config.items())))
    path = paths.config_topic(name)
    assignments = {partition: ReplicaAssignment(replicas) for partition, replicas in enumerate(assignment)}
    return (
        SetData(path, data, ANY_VERSION) if config_exists else Create(path, data),
        Create(paths.topic(name), encode_topic(TopicZnode(assignments, topic_id))),
    )
