"""The script: all steps, in the order in which each side is asked. What takes a broker away comes last."""

from __future__ import annotations

from typing import Final

from tests.judge import steps_clients, steps_configs, steps_partitions, steps_topics
from tests.judge.step import Step

STEPS: Final[tuple[Step, ...]] = (
    *steps_topics.STEPS,
    *steps_partitions.REASSIGN,
    *steps_partitions.ELECT,
    *steps_clients.STEPS,
    *steps_configs.STEPS,
    *steps_partitions.IN_FLIGHT_STEPS,
    *steps_partitions.BROKER_AWAY,
    *steps_topics.INTERNAL,
)
