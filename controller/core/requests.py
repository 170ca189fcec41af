"""Requests of brokers and clients: stored until they are answered, and answered exactly once.

    this controller                          answer
    ---------------------------------------  ---------------------------------------------------------------------
    does not lead                            an error that makes the sender look for the controller, at once
    leads, and the request needs a write     after the write, which checks the fence
    leads, and the request needs no write    after a write of the fence alone (`answer`)
    resigns before it has answered           the same error; Kafka's controller lets some requests time out

After the election of another controller this one still counts itself as active, until its watch fires. A leader relies
on the answer, so no answer is given before the fence was checked.
"""

from __future__ import annotations

from typing import TypeVar, assert_never

from lethe.controller.core.cluster_state import PendingRequest
from lethe.controller.core.context import Context
from lethe.controller.core.effects import Reply
from lethe.controller.core.events import BrokerRequested, ClientRequested
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_clients import (
    AddRequestedPartitions,
    AlterReassignments,
    CreateRequestedTopics,
    DeleteRequestedTopics,
    ElectAsRequested,
    ListReassignments,
    ReadMutationQuota,
)
from lethe.controller.core.tasks_requests import (
    AllocateProducerIds,
    AlterPartitions,
    AnswerAsController,
    ControlProven,
    ControlShutdown,
)
from lethe.controller.core.tasks_settings import (
    AlterRequestedConfigs,
    AlterRequestedUsers,
    DescribeRequestedConfigs,
    DescribeRequestedUsers,
    SettingTask,
    UpdateRequestedFeatures,
)
from lethe.protocol.kafka.admin import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from lethe.protocol.kafka.admin_cluster import (
    AlterUserScramCredentialsRequest,
    ClusterRequest,
    DescribeUserScramCredentialsRequest,
    UpdateFeaturesRequest,
)
from lethe.protocol.kafka.admin_configs import (
    AlterConfigsRequest,
    ConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from lethe.protocol.kafka.admin_partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    ControlledShutdownRequest,
    ControllerRequest,
    ControllerResponse,
    error_response,
    request_name,
)
from lethe.protocol.security.authorizer import Sender
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Check
from lethe.protocol.zookeeper.packing import GroupDone, GroupOutcome, write_failure_words

R = TypeVar("R", bound=ControllerRequest)


def received(step: StepContext, event: BrokerRequested | ClientRequested) -> None:
    """Handle the request, or answer at once that this controller does not lead."""
    context = step.context
    if not context.is_leading:
        step.emit(Reply(event.key, refused(event.request)))
        return
    whose = (event.sender, event.client_id, event.frame_bytes) if isinstance(event, ClientRequested) else ()
    context.cluster.unanswered[event.key] = PendingRequest(event.request, event.version, *whose)
    match event.request:
        case ControlledShutdownRequest():
            step.do(ControlShutdown(event.key))
        case AlterPartitionRequest():
            step.do(AlterPartitions(event.key))
        case AllocateProducerIdsRequest():
            step.do(AllocateProducerIds(event.key))
        case CreateTopicsRequest():
            step.do(ReadMutationQuota(CreateRequestedTopics(event.key)))
        case DeleteTopicsRequest():
            step.do(ReadMutationQuota(DeleteRequestedTopics(event.key)))
        case CreatePartitionsRequest():
            step.do(ReadMutationQuota(AddRequestedPartitions(event.key)))
        case ElectLeadersRequest():
            step.do(ElectAsRequested(event.key))
        case AlterPartitionReassignmentsRequest():
            step.do(AlterReassignments(event.key))
        case ListPartitionReassignmentsRequest():
            step.do(ListReassignments(event.key))
        case _:
            step.do(_about_settings(event.key, event.request))


def _about_settings(key: int, request: ConfigsRequest | ClusterRequest) -> SettingTask:
    match request:
        case AlterConfigsRequest() | IncrementalAlterConfigsRequest():
            return AlterRequestedConfigs(key)
        case DescribeConfigsRequest():
            return DescribeRequestedConfigs(key)
        case AlterUserScramCredentialsRequest():
            return AlterRequestedUsers(key)
        case DescribeUserScramCredentialsRequest():
            return DescribeRequestedUsers(key)
        case UpdateFeaturesRequest():
            return UpdateRequestedFeatures(key)
        case _:
            assert_never(request)


def asked(context: Context, key: int, kind: type[R]) -> R:
    """Return the request with this key. Raises TypeError if it is not of this kind."""
    request = context.cluster.unanswered[key].request
    if not isinstance(request, kind):
        raise TypeError(f"request {key} is no {kind.__name__}: {request}")
    return request


def sender_of(context: Context, key: int) -> Sender:
    """Return the client that sent the request with this key. Raises TypeError if a broker sent it."""
    sender = context.cluster.unanswered[key].sender
    if sender is None:
        raise TypeError(f"request {key} has no client")
    return sender


def answer(step: StepContext, key: int, response: ControllerResponse) -> None:
    """Answer a request without a write of its own, after a check of the fence."""
    step.do(AnswerAsController(key, response))


def prove(step: StepContext, task: AnswerAsController) -> None:
    """Check the fence in a write. Its only group repeats the check, since a multi needs a group."""
    check = Check(paths.controller_epoch(), step.context.cluster.epoch_version)
    step.write([(check,)], ControlProven(task.key, task.response))


def on_control_proven(step: StepContext, then: ControlProven, outcome: GroupOutcome) -> None:
    """Answer if the fence held. After another error, make the broker look for its controller."""
    if isinstance(outcome, GroupDone):
        step.reply(then.key, then.response)
        return
    request = step.context.cluster.unanswered[then.key].request
    why = f"checking {paths.controller_epoch()} failed with {write_failure_words(outcome)}"
    step.refuse("controller", f"answering {request_name(request)}", why)
    step.reply(then.key, refused(request))


def refused(request: ControllerRequest) -> ControllerResponse:
    """Return the answer of a process that is not the controller, with the error that makes a broker of any version, or
    a client, look for the controller again."""
    is_shutdown = isinstance(request, ControlledShutdownRequest)
    return error_response(request, ErrorCode.STALE_CONTROLLER_EPOCH if is_shutdown else ErrorCode.NOT_CONTROLLER)


def refuse_all(step: StepContext) -> None:
    """Answer all pending requests with `refused`, because the term ends."""
    for key, asked in list(step.context.cluster.unanswered.items()):
        step.reply(key, refused(asked.request))
