"""AlterConfigs and IncrementalAlterConfigs that name the controller: checked, written, and notified to brokers.

    the row                                             error
    --------------------------------------------------  -------------------------------------------------------------
    fails a check                                       `config_rules`
    its znode cannot be read or understood              UNKNOWN_SERVER_ERROR, and nothing is written over it
    its znode has changed since it was read             it is read again, and checked anew; after some attempts
                                                        UNKNOWN_SERVER_ERROR
    its topic's znode is gone meanwhile                 UNKNOWN_TOPIC_OR_PARTITION
    is written                                          none

The configuration and its notification are one multi, where Kafka writes one after the other. Kafka overwrites in any
version; this controller does not, so that of two clients neither undoes what the other has set. Like a broker, the
controller alters its own configuration, that of all brokers, and those of topics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from lethe.controller.core import config_rules, requests
from lethe.controller.core.context import Context
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_settings import AlterRequestedConfigs, ConfigsToAlterRead, RequestedConfigsWritten
from lethe.controller.core.topic_creation_rules import RowRefused, check_size
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
from lethe.protocol.kafka.topic_defaults import topic_defaults
from lethe.protocol.security.acls import Operation as AclOperation
from lethe.protocol.security.authorizer import Sender
from lethe.protocol.security.rights import config_action, error_of
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.config_writes import config_operations
from lethe.protocol.zookeeper.operations import (
    ANY_VERSION,
    Check,
    Data,
    GetData,
    Operation,
    ReadFailed,
    ReadOutcome,
    ZkError,
    is_absent,
)
from lethe.protocol.zookeeper.packing import GroupDone, GroupFailed, GroupOutcome

MAX_ATTEMPTS: Final = 5
MAX_PATH_SHOWN: Final = 300
"""Letters of a path or name in event records: a client chooses the names of users."""
_WHAT: Final = "altering the configuration that a client requested"
_OVERTAKEN: Final = (ZkError.BAD_VERSION, ZkError.NO_NODE, ZkError.NODE_EXISTS)
AlterRequest = AlterConfigsRequest | IncrementalAlterConfigsRequest


def begin(step: StepContext, task: AlterRequestedConfigs) -> None:
    """Check what can be checked at once; read the configurations that are to change."""
    request = _request(step.context, task.key)
    rows, left = list(task.rows), []
    named = Counter(each.resource for each in request.resources)
    for resource in request.resources if task.left is None else task.left:
        try:
            if _is_to_be_read(step.context, task.key, resource, named[resource.resource]):
                left.append(resource)
            else:
                rows.append(AlteredResource(ErrorCode.NONE, None, *resource.resource))
        except RowRefused as problem:
            rows.append(_refused(step, resource, problem))
    if left:
        reads = (GetData(path_of(each.type, each.name)) for each in left)
        step.read(reads, ConfigsToAlterRead(task, tuple(rows), tuple(left)))
    else:
        _end(step, task.key, rows)


def path_of(resource_type: int, name: str) -> str:
    """Return where the configuration of a topic, a broker or, without a name, of all brokers is."""
    if resource_type == TOPIC_RESOURCE:
        return paths.config_topic(name)
    return paths.config_broker(int(name)) if name else paths.config_broker_default()


def _is_to_be_read(context: Context, key: int, resource: AlterableResource, times: int) -> bool:
    """Return whether the resource has a configuration to change. Raises RowRefused."""
    request, sender = _request(context, key), requests.sender_of(context, key)
    config_rules.check_form(resource, times)
    config_rules.check_type(resource, incremental=isinstance(request, IncrementalAlterConfigsRequest))
    if resource.type == BROKER_RESOURCE:
        if resource.name:
            config_rules.check_broker(resource.name, context.config.controller_id)
        return True
    _check_right(sender, resource)
    if resource.type == TOPIC_RESOURCE:
        _check_topic(context, resource.name)
        return True
    if resource.type == BROKER_LOGGER_RESOURCE:
        config_rules.check_broker(resource.name, context.config.controller_id)
        config_rules.refuse_log_levels(resource)
        return False
    raise config_rules.unsupported(resource)


def _check_right(sender: Sender, resource: AlterableResource) -> None:
    action = config_action(AclOperation.ALTER_CONFIGS, *resource.resource)
    if action is not None and not sender.allows(action):
        raise RowRefused(error_of(action))


def _check_topic(context: Context, name: str) -> None:
    if not name:
        raise RowRefused(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    if name not in context.cluster.topics:
        raise _no_topic(name)


def _no_topic(name: str) -> RowRefused:
    return RowRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def on_configs_to_alter_read(step: StepContext, then: ConfigsToAlterRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Check the configurations as they will be, and write those that pass."""
    task, rows = then.task, list(then.rows)
    request, sender = _request(step.context, task.key), requests.sender_of(step.context, task.key)
    writing: list[AlterableResource] = []
    groups: list[tuple[Operation, ...]] = []
    for resource, outcome in zip(then.resources, outcomes, strict=True):
        path = path_of(resource.type, resource.name)
        try:
            config = _altered(step.context, request, resource, stored_config(path, outcome))
            _check_right(sender, resource)
            writes = _writes(resource, path, config, outcome)
            check_size(writes)
        except RowRefused as problem:
            rows.append(_refused(step, resource, problem))
            continue
        if request.validate_only:
            rows.append(AlteredResource(ErrorCode.NONE, None, *resource.resource))
            continue
        writing.append(resource)
        groups.append(writes)
    if groups:
        step.write(groups, RequestedConfigsWritten(task, tuple(rows), tuple(writing)))
    else:
        _end(step, task.key, rows)


def _writes(
    resource: AlterableResource, path: str, config: Mapping[str, str], before: ReadOutcome
) -> tuple[Operation, ...]:
    version = before.stat.version if isinstance(before, Data) else None
    exists = (Check(paths.topic(resource.name), ANY_VERSION),) if resource.type == TOPIC_RESOURCE else ()
    return (*config_operations(path, config, version), *exists)


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


def _altered(
    context: Context, request: AlterRequest, resource: AlterableResource, stored: Mapping[str, str]
) -> dict[str, str]:
    """Return what the configuration becomes. Raises RowRefused."""
    is_topic, incremental = resource.type == TOPIC_RESOURCE, isinstance(request, IncrementalAlterConfigsRequest)
    if not incremental:
        config = config_rules.replaced(resource.configs)
    else:
        config = (config_rules.altered_topic if is_topic else config_rules.altered_broker)(stored, resource.configs)
    if is_topic:
        tiered = context.config.new_topics.tiered_storage
        defaults = topic_defaults(context.broker_settings)
        config_rules.check_topic_configs(resource.name, config, defaults, tiered_storage=tiered)
    else:
        named = [each.name for each in resource.configs]
        config_rules.check_broker_configs({name: config[name] for name in named if name in config})
    return config


def on_requested_configs_written(
    step: StepContext, then: RequestedConfigsWritten, outcomes: Sequence[GroupOutcome]
) -> None:
    """Answer; read the configurations again that others have written."""
    task, rows = then.task, list(then.rows)
    again: list[AlterableResource] = []
    for resource, outcome in zip(then.resources, outcomes, strict=True):
        match outcome:
            case GroupDone():
                rows.append(AlteredResource(ErrorCode.NONE, None, *resource.resource))
            case GroupFailed(index_in_group=0, error=error) if error in _OVERTAKEN and task.attempts < MAX_ATTEMPTS:
                again.append(resource)
            case GroupFailed(index_in_group=2, error=ZkError.NO_NODE):
                rows.append(_refused(step, resource, _no_topic(resource.name)))
            case _:
                unexpected = RowRefused(ErrorCode.UNKNOWN_SERVER_ERROR, why=str(outcome))
                rows.append(_refused(step, resource, unexpected))
    if again:
        step.do(AlterRequestedConfigs(task.key, tuple(again), tuple(rows), task.attempts + 1))
    else:
        # A write that was applied has checked the fence.
        _end(step, task.key, rows, checked=any(isinstance(outcome, GroupDone) for outcome in outcomes))


def _end(step: StepContext, key: int, rows: Sequence[AlteredResource], *, checked: bool = False) -> None:
    by_resource = {(row.type, row.name): row for row in rows}
    resources = _request(step.context, key).resources
    response = AlterConfigsResponse(tuple(by_resource[each.resource] for each in resources))
    (step.reply if checked else partial(requests.answer, step))(key, response)


def _request(context: Context, key: int) -> AlterRequest:
    request = context.cluster.unanswered[key].request
    if not isinstance(request, AlterRequest):
        raise TypeError(f"request {key} alters no configuration: {request}")
    return request


def _refused(step: StepContext, resource: AlterableResource, problem: RowRefused) -> AlteredResource:
    if problem.error is ErrorCode.UNKNOWN_SERVER_ERROR:
        step.refuse("cluster", _WHAT, f"{resource.resource}: {problem}")
    return AlteredResource(problem.error, problem.message, *resource.resource)
