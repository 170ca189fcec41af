"""Event records about clients' requests: who asked for what, and what became of it.

Values of settings and credentials are left out: they may be secrets. Names are cut, because clients may send long ones.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from lethe.protocol.journal import EventRecord, EventRecordType, JsonValue
from lethe.protocol.kafka.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeletableTopic,
    DeleteTopicsRequest,
)
from lethe.protocol.kafka.admin_cluster import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    UpdateFeaturesRequest,
)
from lethe.protocol.kafka.admin_configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from lethe.protocol.kafka.admin_partitions import (
    AlterPartitionReassignmentsRequest,
    ElectionKind,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from lethe.protocol.kafka.errors import error_name
from lethe.protocol.kafka.queries import api_of_request
from lethe.protocol.kafka.to_controller import AdminRequest, ControllerResponse, errors_of
from lethe.protocol.security.authorizer import Sender
from lethe.protocol.vocabulary import MAX_TOPIC_NAME_LENGTH, topic_id_to_text

NAMES_RECORDED: Final = 20
_READ_ONLY: Final = (ListPartitionReassignmentsRequest, DescribeConfigsRequest, DescribeUserScramCredentialsRequest)
_VALIDATED: Final = (
    *(CreateTopicsRequest, CreatePartitionsRequest, AlterConfigsRequest),
    *(IncrementalAlterConfigsRequest, UpdateFeaturesRequest),
)


def record_of(request: AdminRequest, sender: Sender, response: ControllerResponse) -> EventRecord | None:
    """Return the event record of an answered request; None where it only reads."""
    if isinstance(request, _READ_ONLY):
        return None
    names = _names(request)
    data: dict[str, JsonValue] = {
        "api": api_of_request(request).name,
        "host": sender.client.host,
        "topics": len(names),
        "names": _shown(names),
        "errors": dict(Counter(map(error_name, errors_of(response)))),
    }
    if isinstance(request, _VALIDATED):
        data["validate_only"] = request.validate_only
    if isinstance(request, AlterConfigsRequest | IncrementalAlterConfigsRequest):
        settings = (config.name for resource in request.resources for config in resource.configs)
        data["settings"] = _shown(tuple(dict.fromkeys(settings)))
    if isinstance(request, ElectLeadersRequest):
        data["election"] = ElectionKind(request.kind).name if request.kind in list(ElectionKind) else str(request.kind)
    return EventRecord(EventRecordType.CLIENT_REQUEST, f"client/{sender.client.principal}", data)


def _names(request: AdminRequest) -> tuple[str, ...]:
    """Return each topic, resource, user or feature that the request names, once."""
    match request:
        case CreateTopicsRequest() | CreatePartitionsRequest():
            names = [topic.name for topic in request.topics]
        case DeleteTopicsRequest(topics=to_delete):
            names = [_name_or_id(topic) for topic in to_delete]
        case AlterConfigsRequest(resources=resources) | IncrementalAlterConfigsRequest(resources=resources):
            names = [f"{each.resource.type_name} {each.name}" for each in resources]
        case AlterUserScramCredentialsRequest():
            names = [each.name for each in request.changes]
        case UpdateFeaturesRequest():
            names = [each.feature for each in request.updates]
        case ElectLeadersRequest() | AlterPartitionReassignmentsRequest():
            names = [topic.topic for topic in request.topics or ()]
        case _:
            names = []
    return tuple(dict.fromkeys(names))


def _shown(names: tuple[str, ...]) -> str:
    return ", ".join(name[:MAX_TOPIC_NAME_LENGTH] for name in names[:NAMES_RECORDED])


def _name_or_id(topic: DeletableTopic) -> str:
    if topic.name is not None:
        return topic.name
    return "" if topic.topic_id is None else topic_id_to_text(topic.topic_id)
