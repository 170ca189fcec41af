"""Bugs in what clients are answered: too early, twice, never, or of another topic; and in what is written for them.

See `planted` for what they are for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from lethe.controller.core import (
    client_waits,
    config_requests,
    requests,
    topic_creation_requests,
    topic_deletion_requests,
)
from lethe.controller.core.context import Context
from lethe.controller.core.effects import Reply
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_clients import NewTopicsWritten
from lethe.controller.core.tasks_settings import RequestedConfigsWritten
from lethe.protocol import config_alteration
from lethe.protocol.kafka.admin import DeletableTopic, DeletedTopic
from lethe.protocol.kafka.admin_configs import AlterableResource
from lethe.protocol.kafka.to_controller import ControllerResponse
from lethe.protocol.security.authorizer import Sender
from lethe.protocol.vocabulary import TopicId
from lethe.protocol.zookeeper.operations import ANY_VERSION, Check, Operation, ReadOutcome, SetData
from lethe.protocol.zookeeper.packing import GroupDone, GroupOutcome
from tests.simulation.planting import everywhere, method


def client_answered_before_brokers_show_it() -> AbstractContextManager[object]:
    """A client is told that a topic is there as soon as brokers are sent it."""
    return everywhere(client_waits._is_acknowledged, lambda context, awaited, unanswered: True)


def client_answered_twice() -> AbstractContextManager[object]:
    """A client that waits is answered again when it is answered."""
    reply = StepContext.reply

    def twice(step: StepContext, key: int, response: ControllerResponse) -> None:
        is_awaited = key in step.context.cluster.client_waits
        reply(step, key, response)
        if is_awaited:
            step.emit(Reply(key, response))

    return method(StepContext, "reply", twice)


def client_never_told_of_its_time() -> AbstractContextManager[object]:
    """Nobody is answered when the time of a request is over."""
    return everywhere(client_waits.end_waits, lambda step: None)


def waiting_clients_dropped_with_the_term() -> AbstractContextManager[object]:
    """A controller whose term ends answers only those that do not wait for brokers."""
    refuse_all = requests.refuse_all

    def but_for_waiting(step: StepContext) -> None:
        cluster = step.context.cluster
        for key in cluster.client_waits:
            cluster.unanswered.pop(key, None)
        refuse_all(step)

    return everywhere(refuse_all, but_for_waiting)


def created_although_not_written() -> AbstractContextManager[object]:
    """A topic counts as created whatever became of the write."""
    written = topic_creation_requests.on_new_topics_written

    def all_done(step: StepContext, task: NewTopicsWritten, outcomes: Sequence[GroupOutcome]) -> None:
        written(step, task, tuple(GroupDone(()) for _ in outcomes))

    return everywhere(written, all_done)


def deleted_by_the_id_of_an_earlier_topic() -> AbstractContextManager[object]:
    """Ids are kept when their topics go: one of an earlier topic deletes the one that has the name now."""
    row, known = topic_deletion_requests._row, dict[TopicId, str]()

    def by_any_id(context: Context, asked: DeletableTopic, ids: dict[TopicId, str], sender: Sender) -> DeletedTopic:
        known.update(ids)
        return row(context, asked, known, sender)

    return everywhere(row, by_any_id)


def altered_although_not_written() -> AbstractContextManager[object]:
    """Settings count as altered whatever became of the write."""
    written = config_requests.on_requested_configs_written

    def all_done(step: StepContext, then: RequestedConfigsWritten, outcomes: Sequence[GroupOutcome]) -> None:
        written(step, then, tuple(GroupDone(()) for _ in outcomes))

    return everywhere(written, all_done)


def altered_in_any_version() -> AbstractContextManager[object]:
    """Settings are written over what others have written since they were read, as Kafka does."""
    writes = config_alteration._writes

    def blind(
        resource: AlterableResource, path: str, config: Mapping[str, str], before: ReadOutcome
    ) -> tuple[Operation, ...]:
        made = writes(resource, path, config, before)
        return tuple(each._replace(version=ANY_VERSION) if isinstance(each, SetData) else each for each in made)

    return method(config_alteration, "_writes", blind)


def altered_after_the_topic_is_gone() -> AbstractContextManager[object]:
    """Settings are written whether the topic is still there or not."""
    writes = config_alteration._writes

    def unchecked(
        resource: AlterableResource, path: str, config: Mapping[str, str], before: ReadOutcome
    ) -> tuple[Operation, ...]:
        return tuple(each for each in writes(resource, path, config, before) if not isinstance(each, Check))

    return method(config_alteration, "_writes", unchecked)


ALL = (
    client_answered_before_brokers_show_it,
    client_answered_twice,
    client_never_told_of_its_time,
    waiting_clients_dropped_with_the_term,
    created_although_not_written,
    deleted_by_the_id_of_an_earlier_topic,
    altered_although_not_written,
    altered_in_any_version,
    altered_after_the_topic_is_gone,
)
