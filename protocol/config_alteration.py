"""AlterConfigs and IncrementalAlterConfigs: what is read, checked and written, for controllers and agents alike.

    the row                                             error
    --------------------------------------------------  -------------------------------------------------------------
    fails a check                                       `config_alteration_rules`
    its znode cannot be read or understood              UNKNOWN_SERVER_ERROR, and nothing is written over it
    its znode has changed since it was read             it is read again, and checked anew; after some attempts
                                                        UNKNOWN_SERVER_ERROR
    its topic's znode is gone meanwhile                 UNKNOWN_TOPIC_OR_PARTITION
    is written                                          none

A configuration and its notification are one multi, where Kafka writes one after the other. Kafka overwrites in any
version; Lethe does not, so that of two clients neither undoes what the other has set. Like a broker, a process alters
its own configuration, that of all brokers, and those of topics.

    to_read     -> rows that are refused at once, and the resources whose znodes are to be read
    to_write    -> rows, and the resources with the writes of each
    after_write -> rows, and the resources that are to be read again
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from lethe.protocol import config_alteration_rules as rules
from lethe.protocol.client_rows import RowRefused, check_size
from lethe.protocol.kafka.admin_configs import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    AlterableResource,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlteredResource,
    IncrementalAlterConfigsRequest,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.own_settings import OF_AGENTS, OF_CONTROLLERS
from lethe.protocol.security.acls import Operation as AclOperation
from lethe.protocol.security.authorizer import Sender
from lethe.protocol.security.rights import config_action, error_of
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.config_writes import config_operations
from lethe.protocol.zookeeper.operations import (
    ANY_VERSION,
    Check,
    Data,
    Operation,
    ReadFailed,
    ReadOutcome,
    ZkError,
    is_absent,
)
from lethe.protocol.zookeeper.packing import FenceFailed, GroupDone, GroupFailed, GroupOutcome, GroupUnknown

MAX_ATTEMPTS: Final = 5
MAX_PATH_SHOWN: Final = 300
"""Letters of a path or name in event records: a client chooses the names of users."""
_OVERTAKEN: Final = (ZkError.BAD_VERSION, ZkError.NO_NODE, ZkError.NODE_EXISTS)
_ANYWHERE: Final = OF_CONTROLLERS | OF_AGENTS
AlterRequest = AlterConfigsRequest | IncrementalAlterConfigsRequest


class Alterer(NamedTuple):
    """The process that alters configurations, and for whom."""

    id: int
    own_settings: Container[str]
    """Which of Lethe's own settings have an effect on the process."""
    topics: Container[str]
    """At least those of the request that brokers show."""
    defaults: Callable[[], Mapping[str, str]]
    """Return what brokers set for topics, by the names of topic settings. Raises RowRefused where that is unseen."""
    tiered_storage: bool
    sender: Sender


@dataclass(frozen=True, slots=True)
class AlterationStep:
    """What a step has ended, and the resources that are left, with the writes of each where there are some."""

    rows: tuple[AlteredResource, ...] = ()
    left: tuple[AlterableResource, ...] = ()
    groups: tuple[tuple[Operation, ...], ...] = ()
    faults: tuple[tuple[AlterableResource, str], ...] = ()
    """Why resources are answered with UNKNOWN_SERVER_ERROR, which says nothing to clients. They are not altered."""
    unknown: tuple[tuple[AlterableResource, str], ...] = ()
    """The same, where they may be altered: the reply of the write was lost."""


class _Rows:
    """Collects the rows of a step."""

    def __init__(self) -> None:
        self._rows: list[AlteredResource] = []
        self._left: list[AlterableResource] = []
        self._groups: list[tuple[Operation, ...]] = []
        self._faults: list[tuple[AlterableResource, str]] = []
        self._unknown: list[tuple[AlterableResource, str]] = []

    def done(self, resource: AlterableResource) -> None:
        self._rows.append(AlteredResource(ErrorCode.NONE, None, *resource.resource))

    def refused(self, resource: AlterableResource, problem: RowRefused) -> None:
        if problem.error is ErrorCode.UNKNOWN_SERVER_ERROR:
            self._faults.append((resource, str(problem)))
        self._rows.append(AlteredResource(problem.error, problem.message, *resource.resource))

    def unknown(self, resource: AlterableResource, why: str) -> None:
        self._unknown.append((resource, why))
        self._rows.append(AlteredResource(ErrorCode.UNKNOWN_SERVER_ERROR, None, *resource.resource))

    def left(self, resource: AlterableResource, *groups: tuple[Operation, ...]) -> None:
        self._left.append(resource)
        self._groups.extend(groups)

    def step(self) -> AlterationStep:
        return AlterationStep(
            tuple(self._rows), tuple(self._left), tuple(self._groups), tuple(self._faults), tuple(self._unknown)
        )


# --- before anything is read ------------------------------------------------------------------------------------------


def to_read(request: AlterRequest, resources: Sequence[AlterableResource], by: Alterer) -> AlterationStep:
    """Check what can be checked at once. `resources` are those of the request that have no row yet."""
    rows, named = _Rows(), Counter(each.resource for each in request.resources)
    for resource in resources:
        try:
            if _is_to_be_read(request, resource, named[resource.resource], by):
                rows.left(resource)
            else:
                rows.done(resource)
        except RowRefused as problem:
            rows.refused(resource, problem)
    return rows.step()


def _is_to_be_read(request: AlterRequest, resource: AlterableResource, times: int, by: Alterer) -> bool:
    """Return whether the resource has a configuration to change. Raises RowRefused."""
    rules.check_form(resource, times)
    rules.check_type(resource, incremental=isinstance(request, IncrementalAlterConfigsRequest))
    if resource.type == BROKER_RESOURCE:
        if resource.name:
            rules.check_broker(resource.name, by.id)
        return True
    _check_right(by.sender, resource)
    if resource.type == TOPIC_RESOURCE:
        _check_topic(request, resource, by)
        return True
    if resource.type == BROKER_LOGGER_RESOURCE:
        rules.check_broker(resource.name, by.id)
        rules.refuse_log_levels(resource)
        return False
    raise rules.unsupported(resource)


def _check_right(sender: Sender, resource: AlterableResource) -> None:
    action = config_action(AclOperation.ALTER_CONFIGS, *resource.resource)
    if action is not None and not sender.allows(action):
        raise RowRefused(error_of(action))


def _check_topic(request: AlterRequest, resource: AlterableResource, by: Alterer) -> None:
    if not resource.name:
        raise RowRefused(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    if resource.name not in by.topics:
        if isinstance(request, IncrementalAlterConfigsRequest):
            rules.altered_topic({}, resource.configs)  # Kafka applies the operations before it looks for the topic
        raise _no_topic(resource.name)


def _no_topic(name: str) -> RowRefused:
    return RowRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


# --- what was read ----------------------------------------------------------------------------------------------------


def path_of(resource_type: int, name: str) -> str:
    """Return where the configuration of a topic, a broker or, without a name, of all brokers is."""
    if resource_type == TOPIC_RESOURCE:
        return paths.config_topic(name)
    return paths.config_broker(int(name)) if name else paths.config_broker_default()


def stored_config(path: str, outcome: ReadOutcome) -> dict[str, str]:
    """Return the settings in a znode that was read; none if there is no znode. Raises RowRefused if it is unknown."""
    if is_absent(outcome):
        return {}
    if not isinstance(outcome, Data):
        error = outcome.error.name if isinstance(outcome, ReadFailed) else "no data"
        raise RowRefused(ErrorCode.UNKNOWN_SERVER_ERROR, why=f"reading {path[:MAX_PATH_SHOWN]}: {error}")
    try:
        return znodes.decode_config(path, outcome.data)
    except znodes.MalformedZnode as problem:
        raise RowRefused(ErrorCode.UNKNOWN_SERVER_ERROR, why=str(problem)) from problem


def to_write(
    request: AlterRequest, resources: Iterable[AlterableResource], outcomes: Iterable[ReadOutcome], by: Alterer
) -> AlterationStep:
    """Check the configurations as they will be. With `validate_only` nothing is left to write."""
    rows = _Rows()
    for resource, outcome in zip(resources, outcomes, strict=True):
        path = path_of(resource.type, resource.name)
        try:
            config = _altered(request, resource, stored_config(path, outcome), by)
            _check_right(by.sender, resource)
            writes = _writes(resource, path, config, outcome)
            check_size(writes)
        except RowRefused as problem:
            rows.refused(resource, problem)
            continue
        if request.validate_only:
            rows.done(resource)
        else:
            rows.left(resource, writes)
    return rows.step()


def _writes(
    resource: AlterableResource, path: str, config: Mapping[str, str], before: ReadOutcome
) -> tuple[Operation, ...]:
    version = before.stat.version if isinstance(before, Data) else None
    exists = (Check(paths.topic(resource.name), ANY_VERSION),) if resource.type == TOPIC_RESOURCE else ()
    return (*config_operations(path, config, version), *exists)


def _altered(
    request: AlterRequest, resource: AlterableResource, stored: Mapping[str, str], by: Alterer
) -> dict[str, str]:
    """Return what the configuration becomes. Raises RowRefused."""
    is_topic, incremental = resource.type == TOPIC_RESOURCE, isinstance(request, IncrementalAlterConfigsRequest)
    if not incremental:
        config = rules.replaced(resource.configs)
    else:
        config = (rules.altered_topic if is_topic else rules.altered_broker)(stored, resource.configs)
    if is_topic:
        rules.check_topic_configs(resource.name, config, by.defaults(), tiered_storage=by.tiered_storage)
    else:
        named = [each.name for each in resource.configs]
        own = by.own_settings if resource.name else _ANYWHERE
        rules.check_broker_configs({name: config[name] for name in named if name in config}, own)
    return config


# --- what was written -------------------------------------------------------------------------------------------------


def after_write(
    resources: Iterable[AlterableResource], outcomes: Iterable[GroupOutcome], *, is_last: bool
) -> AlterationStep:
    """Tell what is written from what others have written meanwhile, which is left. `is_last`: no attempt follows."""
    rows = _Rows()
    for resource, outcome in zip(resources, outcomes, strict=True):
        match outcome:
            case GroupDone():
                rows.done(resource)
            case GroupFailed(index_in_group=0, error=error) if error in _OVERTAKEN and not is_last:
                rows.left(resource)
            case GroupFailed(index_in_group=2, error=ZkError.NO_NODE):
                rows.refused(resource, _no_topic(resource.name))
            case GroupUnknown(reason=reason):
                rows.unknown(resource, reason)
            case GroupFailed(error=error) | FenceFailed(error=error):
                rows.refused(resource, RowRefused(ErrorCode.UNKNOWN_SERVER_ERROR, why=error.name))
    return rows.step()


def all_failed(resources: Iterable[AlterableResource]) -> AlterationStep:
    """Return the step that ends all of them with UNKNOWN_SERVER_ERROR: they could not be read, or not be written."""
    rows = (AlteredResource(ErrorCode.UNKNOWN_SERVER_ERROR, None, *each.resource) for each in resources)
    return AlterationStep(tuple(rows))


def response_of(request: AlterRequest, rows: Iterable[AlteredResource]) -> AlterConfigsResponse:
    """Return the response with the rows in the order of the request."""
    by_resource = {(row.type, row.name): row for row in rows}
    return AlterConfigsResponse(tuple(by_resource[each.resource] for each in request.resources))
