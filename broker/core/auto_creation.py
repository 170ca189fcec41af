"""Topics that a Metadata request creates, because it names them and `auto.create.topics.enable` is set.

A client may create what it may describe, with the right Create on the cluster or on the topic, as in Kafka 3.9. Brokers
of Kafka in ZooKeeper mode write such topics themselves; an agent asks the controller, which has the rules for topics.

    the controller says                              the client receives
    created, or there already                        LEADER_NOT_AVAILABLE, and asks again
    nothing, or that it is no controller             UNKNOWN_TOPIC_OR_PARTITION, and asks again
    that the agent itself may not create topics      the same
    another error                                    that error

Internal topics are not created: the controller's defaults do not suit them, and agents have no use for them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from lethe.broker.core.metadata_cache import MetadataCache
from lethe.protocol.kafka.admin import BROKERS_DEFAULT, CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import MetadataRequest
from lethe.protocol.security.acls import Operation, ResourceType
from lethe.protocol.security.authorizer import Action, Sender, cluster_action
from lethe.protocol.vocabulary import INTERNAL_TOPICS, topic_name_problem

LEAST_VERSION: Final = 4
"""From here on a CreateTopics request leaves the numbers to the controller."""
_CREATED: Final = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.REQUEST_TIMED_OUT)
_TRY_AGAIN: Final = (
    *(ErrorCode.NOT_CONTROLLER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
)


class Missing(NamedTuple):
    """Topics that a request names and that are not there."""

    creatable: tuple[str, ...]
    refused: Mapping[str, int]
    """Those that the sender may not create, with the error."""


def missing_topics(cache: MetadataCache, request: MetadataRequest, sender: Sender) -> Missing:
    """Return the topics that are to be created for this request."""
    asked = request.topics or ()
    if not request.allow_auto_topic_creation or any(each.topic_id is not None for each in asked):
        return Missing((), {})
    names = dict.fromkeys(each.name for each in asked if each.name is not None and each.name not in cache.topics)
    unseen = [name for name in names if sender.allows(Action(Operation.DESCRIBE, ResourceType.TOPIC, name))]
    refused: dict[str, int] = {}
    if unseen and not sender.allows(cluster_action(Operation.CREATE)):
        may_create = (sender.allows(Action(Operation.CREATE, ResourceType.TOPIC, name)) for name in unseen)
        denied = [name for name, allowed in zip(unseen, may_create, strict=True) if not allowed]
        refused = dict.fromkeys(denied, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return Missing(tuple(name for name in unseen if name not in refused and _is_creatable(name)), refused)


def _is_creatable(name: str) -> bool:
    return topic_name_problem(name) is None and name not in INTERNAL_TOPICS


def creation_request(topics: Collection[str]) -> CreateTopicsRequest:
    """Return the request to the controller. It is answered when the topics are written, not when they have leaders."""
    return CreateTopicsRequest(tuple(CreatableTopic(name, BROKERS_DEFAULT, BROKERS_DEFAULT) for name in topics), 0)


def creation_errors(topics: Collection[str], answer: CreateTopicsResponse | None) -> dict[str, int]:
    """Return what the client receives for each topic; None: there was no answer."""
    found = {} if answer is None else {row.name: row.error for row in answer.topics}
    return {name: _shown(found.get(name, ErrorCode.NOT_CONTROLLER)) for name in topics}


def _shown(error: int) -> int:
    if error in _CREATED:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if error in _TRY_AGAIN else error
