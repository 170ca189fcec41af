"""What an agent concludes from the znodes that it has read, as `broker.runtime.sessions` does."""

from __future__ import annotations

from lethe.broker.core.inputs import (
    ControllerEpochReceived,
    ControllerEpochUnavailable,
    TopicAbsence,
    TopicIdAnswer,
    TopicIdUnavailable,
)
from lethe.broker.runtime.sessions import controller_of_epoch
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


def controller_epoch_answer(epoch: ReadOutcome, controller: ReadOutcome) -> ControllerEpochReceived:
    if not isinstance(epoch, Data):
        return ControllerEpochReceived(ControllerEpochUnavailable("it cannot be read"))
    try:
        return ControllerEpochReceived(
            znodes.decode_controller_epoch(epoch.data), controller_of_epoch(epoch, controller)
        )
    except znodes.MalformedZnode as error:
        return ControllerEpochReceived(ControllerEpochUnavailable(str(error)))
