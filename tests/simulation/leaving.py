"""An agent that is stopped in order: it asks its controller to take over what it leads, a few times, and goes.

As the runtime does it: the request goes to the controller that the metadata cache names; where the cache names none, or
none that could be asked, the agent goes at once. It goes in the end, whatever it is answered; its session ends with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    ControllerResponse,
    RemainingPartition,
)
from lethe.protocol.vocabulary import BrokerId
from tests.simulation.world import is_controller

if TYPE_CHECKING:
    from tests.simulation.agents import AgentProcess
    from tests.simulation.cluster import Cluster
    from tests.simulation.controllers import ControllerProcess

TRIES = 3
BACK_OFF_MS = 500
DEPARTURE_MS = TRIES * BACK_OFF_MS
"""About as long as one is on its way that is not let go."""


class Departure:
    """One agent on its way out; nothing comes of it where the process dies before."""

    def __init__(self, cluster: Cluster, agent: AgentProcess) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._agent = agent
        self._run_of = agent.state
        self._tries_left = TRIES

    def start(self) -> None:
        """Ask, or go."""
        if not self._is_there:
            return
        number = self._agent.state.cache.controller_id
        controller = next((c for c in self._cluster.controllers if c.id == number), None)
        if controller is None or not self._cluster.mix.asks_controller or not self._tries_left:
            self._go()
            return
        self._tries_left -= 1
        request = ControlledShutdownRequest(self._agent.id, self._agent.state.broker_epoch)
        told: list[None] = []

        def answered(response: ControllerResponse | None) -> None:
            if not told:
                told.append(None)
                self._answered(response)

        self._world.note(self._agent.name, f"asks {number} to let it go")
        controller.desk.ask(request, answered)
        self._world.after(self._cluster.mix.request_timeout_ms, lambda: answered(None))

    def _answered(self, response: ControllerResponse | None) -> None:
        if not self._is_there:
            return
        match response:
            case ControlledShutdownResponse(error=ErrorCode.NONE, remaining=()):
                self._go()
            case _:
                self._world.after(BACK_OFF_MS, self.start)

    @property
    def _is_there(self) -> bool:
        return self._agent.alive and self._agent.state is self._run_of

    def _go(self) -> None:
        self._agent.stop()
        self._cluster.restart_later(self._agent)


def untrue(
    cluster: Cluster, controller: ControllerProcess, broker: BrokerId, response: ControlledShutdownResponse
) -> Iterator[str]:
    """Who is let go leads nothing that another one could serve, and is in no ISR with others: unless the answer says
    so, the topic is being deleted, or somebody else has become controller or written the state."""
    context = controller.context
    if response.error != ErrorCode.NONE or context.cluster.epoch_version != cluster.ensemble.epoch_version:
        return
    for name, incarnation in cluster.ledger.living.items():
        if name not in context.cluster.topics or context.cluster.is_queued(name) or not incarnation.readable:
            continue
        for partition, state in incarnation.states.items():
            assignment = incarnation.assignments.get(partition)
            staying = () if assignment is None else [each for each in assignment.target if not is_controller(each)]
            if len(staying) < 2 or partition in incarnation.touched:
                # Who is the only one to stay has nobody to hand over to, also while others are still on their way out.
                # A controller among the replicas serves nothing.
                continue
            if state.leader == broker and RemainingPartition(name, partition) not in response.remaining:
                yield f"broker {broker} may go, and it leads {name}-{partition}"
            if state.leader != broker and broker in state.isr and len(state.isr) > 1:
                yield f"broker {broker} may go, and it is in sync for {name}-{partition}: {state}"
