"""AlterConfigs and IncrementalAlterConfigs that name the controller: read, written and answered step by step.

`config_alteration` has the rules, which agents share. The write is fenced, as every one of the controller.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from lethe.controller.core import requests
from lethe.controller.core.context import Context
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_settings import AlterRequestedConfigs, ConfigsToAlterRead, RequestedConfigsWritten
from lethe.protocol.config_alteration import (
    MAX_ATTEMPTS,
    AlterationStep,
    Alterer,
    AlterRequest,
    after_write,
    path_of,
    response_of,
    to_read,
    to_write,
)
from lethe.protocol.kafka.admin_configs import AlteredResource
from lethe.protocol.kafka.topic_defaults import topic_defaults
from lethe.protocol.own_settings import OF_CONTROLLERS
from lethe.protocol.zookeeper.operations import GetData, ReadOutcome
from lethe.protocol.zookeeper.packing import GroupDone, GroupOutcome

_WHAT: Final = "altering the configuration that a client requested"


def begin(step: StepContext, task: AlterRequestedConfigs) -> None:
    """Check what can be checked at once; read the configurations that are to change."""
    request = _request(step.context, task.key)
    found = to_read(request, request.resources if task.left is None else task.left, _alterer(step.context, task.key))
    rows = (*task.rows, *_noted(step, found))
    if found.left:
        reads = (GetData(path_of(each.type, each.name)) for each in found.left)
        step.read(reads, ConfigsToAlterRead(task, rows, found.left))
    else:
        _end(step, task.key, rows)


def on_configs_to_alter_read(step: StepContext, then: ConfigsToAlterRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Check the configurations as they will be, and write those that pass."""
    key = then.task.key
    found = to_write(_request(step.context, key), then.resources, outcomes, _alterer(step.context, key))
    rows = (*then.rows, *_noted(step, found))
    if found.groups:
        step.write(found.groups, RequestedConfigsWritten(then.task, rows, found.left))
    else:
        _end(step, key, rows)


def on_requested_configs_written(
    step: StepContext, then: RequestedConfigsWritten, outcomes: Sequence[GroupOutcome]
) -> None:
    """Answer; read the configurations again that others have written."""
    task = then.task
    found = after_write(then.resources, outcomes, is_last=task.attempts >= MAX_ATTEMPTS)
    rows = (*then.rows, *_noted(step, found))
    if found.left:
        step.do(AlterRequestedConfigs(task.key, found.left, rows, task.attempts + 1))
    else:
        # A write that was applied has checked the fence.
        _end(step, task.key, rows, checked=any(isinstance(outcome, GroupDone) for outcome in outcomes))


def _alterer(context: Context, key: int) -> Alterer:
    # While a topic is being deleted, what is read may be its settings, and what is written those of the next one.
    named = (each.name for each in _request(context, key).resources)
    return Alterer(
        context.config.controller_id,
        OF_CONTROLLERS,
        {name: None for name in named if context.cluster.is_shown(name)},
        lambda: topic_defaults(context.broker_settings),
        context.config.new_topics.tiered_storage,
        requests.sender_of(context, key),
    )


def _noted(step: StepContext, found: AlterationStep) -> tuple[AlteredResource, ...]:
    """Return the rows, and record why some of them failed."""
    for resource, why in (*found.faults, *found.unknown):
        step.refuse("cluster", _WHAT, f"{resource.resource}: {why}")
    return found.rows


def _end(step: StepContext, key: int, rows: Sequence[AlteredResource], *, checked: bool = False) -> None:
    response = response_of(_request(step.context, key), rows)
    (step.reply if checked else partial(requests.answer, step))(key, response)


def _request(context: Context, key: int) -> AlterRequest:
    request = context.cluster.unanswered[key].request
    if not isinstance(request, AlterRequest):
        raise TypeError(f"request {key} alters no configuration: {request}")
    return request
