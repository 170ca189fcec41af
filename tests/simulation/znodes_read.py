"""What an agent concludes from the znodes that it has read, as `broker.runtime.sessions` does."""

from __future__ import annotations

from lethe.broker.core.inputs import (
    ControllerEpochAnswer,
    ControllerEpochUnavailable,
    TopicAbsence,
    TopicIdAnswer,
    TopicIdUnavailable,
)
from lethe.protocol.zookeeper import znodes
from lethe.protocol.zookeeper.operations import Data, ReadOutcome


def topic_id_answer(topic: str, outcome: ReadOutcome) -> TopicIdAnswer:
    if not isinstance(outcome, Data):
        return TopicAbsence.NO_TOPIC
    try:
        topic_id = znodes.decode_topic(topic, outcome.data).topic_id
    except znodes.MalformedZnode as error:
        return TopicIdUnavailable(str(error))
    return TopicAbsence.NO_ID if topic_id is None else topic_id


def controller_epoch_answer(outcome: ReadOutcome) -> ControllerEpochAnswer:
    if not isinstance(outcome, Data):
        return ControllerEpochUnavailable("it cannot be read")
    try:
        return znodes.decode_controller_epoch(outcome.data)
    except znodes.MalformedZnode as error:
        return ControllerEpochUnavailable(str(error))
