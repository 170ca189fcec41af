"""Bugs in requests that go in parts: what their answers together say, and what they show meanwhile."""

from __future__ import annotations

from contextlib import AbstractContextManager

from lethe.controller.core import power
from lethe.controller.core.step_context import StepContext
from lethe.protocol.kafka import parts
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId
from tests.simulation.planting import method


def last_part_counts() -> AbstractContextManager[object]:
    """The answer to the last part is taken for the answer to all."""
    return method(parts, "merged", lambda responses: responses[-1])


def busy_taken_for_silent() -> AbstractContextManager[object]:
    """A broker counts as silent while its oldest request is not answered, although it answers one after another."""
    note_answer = power.note_answer

    def oldest_only(step: StepContext, broker: BrokerId, broker_epoch: BrokerEpoch, error: int) -> None:
        note_answer(step, broker, broker_epoch, error)
        answers = step.context.cluster.last_answers
        answers[broker] = answers[broker]._replace(at_ms=0)

    return method(power, "note_answer", oldest_only)
