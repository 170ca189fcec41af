"""What goes wrong by itself: machines, sessions, connections, disks. Each fault is one deed on a random victim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lethe.admin.partition_names import INT32_MAX
from lethe.admin.topic_plans import deletion_operation
from lethe.protocol.kafka.control import (
    Addressed,
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaTopic,
    UpdateMetadataRequest,
)
from lethe.protocol.vocabulary import (
    EPOCH_DURING_DELETE,
    NO_EPOCH,
    BrokerId,
    ControllerEpoch,
    TopicId,
    TopicPartition,
)
from tests.simulation import silences
from tests.simulation.disk import Directory
from tests.simulation.leaving import DEPARTURE_MS, Departure

if TYPE_CHECKING:
    from tests.simulation.agents import AgentProcess
    from tests.simulation.cluster import Cluster
    from tests.simulation.controllers import ControllerProcess


class Faults:
    """Each method is one fault."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._world = cluster.world

    def strike(self, fault: str) -> None:
        """Have it happen."""
        getattr(self, fault)()

    # --- controllers -----------------------------------------------------------------------------------------------

    def crash_controller(self) -> None:
        """kill -9, and started again after a while."""
        victim = self._controller()
        if victim is not None:
            self._cluster.restart_later(victim)

    def pause_controller(self) -> None:
        """The process stands still; what it has sent is on its way all the same."""
        victim = self._controller()
        if victim is not None:
            victim.pause(self._world.between(50, 2 * self._cluster.mix.session_timeout_ms))

    def expire_controller(self) -> None:
        """Its session is gone, and it does not know."""
        victim = self._controller()
        if victim is not None and victim.client is not None:
            self._world.note(victim.name, "loses its session")
            victim.client.lose(self._world.between(0, self._cluster.mix.session_timeout_ms))

    def disconnect_controller(self) -> None:
        """Its connection to ZooKeeper breaks, for a short or a long time."""
        victim = self._controller()
        if victim is not None and victim.client is not None:
            victim.client.disconnect(self._away_ms())

    # --- agents ----------------------------------------------------------------------------------------------------

    def crash_agent(self) -> None:
        """kill -9, and started again after a while."""
        victim = self._agent()
        if victim is not None:
            self._cluster.restart_later(victim)

    def stop_agent(self) -> None:
        """Stopped as it should be, and started again after a while; often another one dies while it is on its way."""
        victim = self._agent()
        if victim is None:
            return
        Departure(self._cluster, victim).start()
        others = [agent for agent in self._cluster.agents.values() if agent.alive and agent is not victim]
        if others and self._world.chance(0.5):
            other = others[self._world.between(0, len(others) - 1)]
            self._world.after(self._world.between(1, DEPARTURE_MS), lambda: self._die(other))

    def _die(self, agent: AgentProcess) -> None:
        if agent.alive:
            self._cluster.restart_later(agent)

    def bounce_agent(self) -> None:
        """Stopped and started so quickly that nobody sees it gone."""
        victim = self._agent()
        if victim is not None:
            victim.crash(session_expires_after_ms=0)
            self._cluster.restart_later(victim, after_ms=1)

    def expire_agent(self) -> None:
        """Its session is gone; it serves on, and registers again when it learns of it."""
        victim = self._agent()
        if victim is not None and victim.client is not None:
            self._world.note(victim.name, "loses its session")
            victim.client.lose(self._world.between(0, 3_000))

    def disconnect_agent(self) -> None:
        """Its connection to ZooKeeper breaks, for a short or a long time."""
        victim = self._agent()
        if victim is not None and victim.client is not None:
            victim.client.disconnect(self._away_ms())

    def cut_link(self) -> None:
        """A controller and a broker cannot reach each other for a while."""
        links = self._cluster.links
        if links:
            link = links[self._world.between(0, len(links) - 1)]
            link.is_cut = True
            self._world.after(self._world.between(100, 4_000), lambda: setattr(link, "is_cut", False))

    def forge_epoch(self) -> None:
        """Somebody who is no controller sends an order with the highest epoch that there is."""
        victim = self._agent()
        if victim is None or not victim.is_listening:
            return
        foreign_member, epoch = BrokerId(self._world.between(1, 3)), ControllerEpoch(INT32_MAX)
        name, partition = f"t{self._world.between(0, self._cluster.mix.names - 1)}", self._world.between(0, 2)
        rows = (StopReplicaPartition(partition, EPOCH_DURING_DELETE, True),)
        order: StopReplicaRequest | UpdateMetadataRequest
        if self._world.chance(0.5):
            order = StopReplicaRequest(foreign_member, epoch, (StopReplicaTopic(name, rows),))
        else:
            order = UpdateMetadataRequest(foreign_member, epoch, (), ())
        self._world.note(victim.name, f"gets a forged {type(order).__name__}")
        victim.receive(Addressed(order, NO_EPOCH), lambda _: None)

    def hush_agent(self) -> None:
        """It keeps its session, and answers nothing for a while."""
        victim = self._agent()
        if victim is not None:
            self._world.note(victim.name, "answers nothing")
            victim.is_silent = True
            self._world.after(self._world.between(500, 6_000), lambda: setattr(victim, "is_silent", False))

    def sulk_agent(self) -> None:
        """It answers tombstones with errors for a while."""
        victim = self._agent()
        if victim is not None:
            self._world.note(victim.name, "answers with errors")
            victim.p_refuses = 0.6
            self._world.after(self._world.between(500, 6_000), lambda: setattr(victim, "p_refuses", 0.0))

    def stop_controller(self) -> None:
        """SIGTERM for the one that leads."""
        silences.ask_to_stop(self._cluster, self._world.between(0, 4_000))

    # --- disks -----------------------------------------------------------------------------------------------------

    def break_log_dir(self) -> None:
        """A log directory fails; the agent finds out at its next operation there, or is told at once."""
        victim = self._agent()
        if victim is None:
            return
        disk = victim.disk
        whole = [log_dir for log_dir in disk.log_dirs if log_dir not in disk.broken]
        if len(whole) > 1 or (whole and self._world.chance(0.1)):
            log_dir = whole[self._world.between(0, len(whole) - 1)]
            self._world.note(victim.name, f"{log_dir} breaks")
            disk.broken[log_dir] = "Input/output error"
            if self._world.chance(0.5):
                victim.log_dir_failed(log_dir, "Input/output error")

    def return_without_disk(self) -> None:
        """A broker dies and returns without one of several log directories; one with a replica of a topic that is to be
        deleted. The process that returns does not know what lies there."""
        held = [
            (agent, log_dir)
            for agent in self._cluster.agents.values()
            if agent.alive and not agent.disk.broken and len(agent.disk.log_dirs) > 1
            for log_dir, name, each in agent.disk.directories()
            if each.topic_partition.topic in self._cluster.ledger.marked and name == str(each.topic_partition)
        ]
        if not held:
            return
        victim, log_dir = held[self._world.between(0, len(held) - 1)]
        self._world.note(victim.name, f"returns without {log_dir}")
        victim.disk.broken[log_dir] = "Input/output error"
        victim.crash(session_expires_after_ms=0)
        self._cluster.restart_later(victim, after_ms=self._world.between(1, 500))

    def mend_log_dir(self) -> None:
        """All log directories of a broker are repaired, and the agent is restarted, as it has to be."""
        for agent in self._cluster.agents.values():
            if agent.disk.broken:
                self.mend(agent)
                return

    def mend(self, agent: AgentProcess) -> None:
        """Repair this one."""
        self._world.note(agent.name, "is repaired")
        agent.disk.repair()
        self._cluster.restart_later(agent, after_ms=self._world.between(1, 500))

    def foreign_directory(self) -> None:
        """Somebody copies a directory of unknown origin to where a topic's replica would be, or beside it."""
        name = f"t{self._world.between(0, self._cluster.mix.names - 1)}"
        self._appears(TopicPartition(name, self._world.between(0, 2)), None)

    def old_directory(self) -> None:
        """A backup is restored: a replica of a topic that is no more, perhaps beside one of the topic made anew."""
        gone = [each for each in self._cluster.ledger.all if each.removed_by is not None and each.topic_id is not None]
        if gone:
            incarnation = gone[self._world.between(0, len(gone) - 1)]
            self._appears(TopicPartition(incarnation.name, self._world.between(0, 2)), incarnation.topic_id)

    def _appears(self, topic_partition: TopicPartition, topic_id: TopicId | None) -> None:
        victim = self._owner(topic_partition) or self._agent()
        if victim is None:
            return
        log_dirs = list(victim.disk.log_dirs)
        log_dir = log_dirs[self._world.between(0, len(log_dirs) - 1)]
        if str(topic_partition) not in victim.disk.log_dirs[log_dir]:
            self._world.note(victim.name, f"{log_dir}/{topic_partition} appears, of {topic_id}")
            directory = Directory(topic_partition, topic_id, topic_id, foreign=True)
            victim.crash(session_expires_after_ms=0)
            victim.disk.log_dirs[log_dir][str(topic_partition)] = directory
            self._cluster.restart_later(victim)
            if self._world.chance(0.5):
                self._world.after(self._world.between(1, 6_000), lambda: self._delete(topic_partition.topic))

    def _delete(self, name: str) -> None:
        """Somebody wants the topic gone, and all of it: what was put there must not be taken for it."""
        ledger = self._cluster.ledger
        if name in ledger.living and name not in ledger.marked:
            self._cluster.ensemble.operate(deletion_operation(name))

    def _owner(self, topic_partition: TopicPartition) -> AgentProcess | None:
        """Mostly one that has a replica of the partition already, in another log directory perhaps."""
        owners = [a for a in self._cluster.agents.values() if a.alive and a.disk.replica(topic_partition) is not None]
        return owners[self._world.between(0, len(owners) - 1)] if owners and self._world.chance(0.7) else None

    # --- victims ---------------------------------------------------------------------------------------------------

    def _controller(self) -> ControllerProcess | None:
        """Mostly one that leads."""
        controllers = [c for c in self._cluster.controllers if c.alive]
        leading = [c for c in controllers if c.context.is_leading]
        chosen = leading if leading and self._world.chance(0.8) else controllers
        return chosen[self._world.between(0, len(chosen) - 1)] if chosen else None

    def _agent(self) -> AgentProcess | None:
        agents = [agent for agent in self._cluster.agents.values() if agent.alive]
        return agents[self._world.between(0, len(agents) - 1)] if agents else None

    def _away_ms(self) -> int:
        timeout_ms = self._cluster.mix.session_timeout_ms
        return self._world.between(1, timeout_ms // 2) if self._world.chance(0.6) else 2 * timeout_ms
