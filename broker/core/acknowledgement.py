"""Acknowledge requests without performing them, to measure a controller with brokers that cost next to nothing.

Every control request that passes the epochs is answered NONE for each partition and recorded; no replica is hosted, no
directory touched, no metadata kept. An agent whose log directories hold replicas refuses to start in this mode: it
would acknowledge deletions that did not happen.
"""

from __future__ import annotations

from lethe.broker.core.effects import Effect, Halt, Reply
from lethe.broker.core.inputs import ControlReceived
from lethe.broker.core.records import record_answers
from lethe.broker.core.state import AgentState
from lethe.protocol.counting import counted
from lethe.protocol.kafka.control import uniform_response
from lethe.protocol.kafka.errors import ErrorCode, error_name


def acknowledge(state: AgentState, received: ControlReceived) -> list[Effect]:
    """Return the successful response to the request, and record it."""
    request = received.addressed.request
    partitions = sum(len(topic.partitions) for topic in request.topics)
    answered = record_answers(state, request, {error_name(ErrorCode.NONE): partitions})
    return [Reply(received.token, uniform_response(request, ErrorCode.NONE)), answered]


def refuse_replicas(state: AgentState) -> list[Effect]:
    """Halt if there are replicas: acknowledging their deletion would be wrong."""
    if not state.settings.acknowledge_only or not state.replicas:
        return []
    state.halted = True
    return [
        Halt(
            f"the log directories hold {counted(len(state.replicas), 'replica')}, and "
            "lethe.acknowledge.only=true would have "
            "their deletion acknowledged and not done; name empty directories in log.dirs, or leave that setting out"
        )
    ]
