"""What must hold after every event, each rule a function that raises Violation with a sentence.

They are judged by what really is on the disks, in the caches and in ZooKeeper, never by what a controller believes:
what it believes is judged in `belief`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lethe.broker.core.effects import (
    CreateReplica,
    DirectoryRef,
    DiskOperation,
    FillReplica,
    QuarantineDirectory,
    RenameForDeletion,
)
from lethe.broker.core.replica import ReplicaState
from lethe.protocol.kafka.control import Addressed, ControlResponse
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import LEADER_NONE, NO_EPOCH, LeaderAndIsr, ReplicaAssignment
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Check, Create, Delete, Operation, SetData
from tests.simulation import client_book, config_book, debts, departures, forgetting, silences, trash
from tests.simulation.disk import Directory, kind_of
from tests.simulation.ensemble import Writer
from tests.simulation.ledger import Incarnation
from tests.simulation.world import Violation, is_controller

if TYPE_CHECKING:
    from tests.simulation.agents import AgentProcess
    from tests.simulation.cluster import Cluster


# --- writes to ZooKeeper ------------------------------------------------------------------------------------------


def writes_are_allowed(
    cluster: Cluster, writer: Writer, operations: Sequence[Operation], epoch_version_before: int
) -> None:
    """Everything that is judged at the moment at which a controller's write takes effect, before it is booked."""
    if not writer.is_controller:
        return
    s5_write_is_current(writer, operations, epoch_version_before)
    trash.writes_are_allowed(cluster, writer, operations)
    forgetting.writes_are_allowed(cluster, writer, operations)
    client_book.writes_are_explained(cluster, writer, operations)
    config_book.writes_are_explained(cluster, writer, operations)
    for operation in operations:
        debts.first_epochs_are_above(cluster, operation)
        state_of = paths.state_of(operation.path)
        if state_of is not None:
            s6_leader_and_isr_is_sound(cluster, writer, operation, *state_of)
        elif (name := paths.topic_of(operation.path)) is not None:
            if isinstance(operation, Delete) and not trash.is_going_in(operations, name):
                s1_deleted_everywhere(cluster, writer, cluster.ledger.living[name])
            elif isinstance(operation, SetData):
                topic_znode_is_kept(cluster, writer, cluster.ledger.living[name], operation.data)


def s1_deleted_everywhere(cluster: Cluster, writer: Writer, incarnation: Incarnation) -> None:
    """A topic's znode goes only after every replica is gone or owed, and every live broker's cache has lost it, or the
    limit has passed for that broker and the tombstone is on its way to it.

    A broker that has registered again and was told nothing since shows what it was told before: the first thing that
    it is told replaces that. Partitions that the topic never had are ghosts, which another one cures.
    """
    if not incarnation.asked:
        raise Violation("S1", f"the znode of {incarnation} is removed, and nobody asked for that")
    registered = cluster.registered()
    for agent in cluster.agents.values():
        for log_dir, names in agent.disk.log_dirs.items():
            for name in () if incarnation.topic_id is None else names.of(incarnation.topic_id):
                partition = names[name].topic_partition.partition
                if debts.is_owed(cluster, agent.id, incarnation, partition):
                    continue
                if is_live(name) and not departures.may_stay(cluster, writer, agent, incarnation, partition, log_dir):
                    raise Violation("S1", f"the znode of {incarnation} goes while {log_dir}/{name} still has its bytes")
        if cluster.was_told(agent, registered) and silences.is_shown(agent.state.cache, incarnation):
            problem = silences.why_not_shown(cluster, writer, agent, incarnation)
            if problem is not None:
                where = f"while the cache of {agent.name} still shows it"
                raise Violation("S1", f"the znode of {incarnation} goes {where}: {problem}")


def _is_evicted(before: ReplicaAssignment, after: ReplicaAssignment) -> bool:
    """Brokers take the places of controllers, at once or by a reassignment; nobody else moves, and none is lost. Where
    the topic is marked meanwhile, the reassignment ends with everybody in the list."""
    if before.is_being_reassigned and frozenset(after.replicas) == frozenset(before.replicas):
        return True
    stay = [broker for broker in before.target if not is_controller(broker)]
    return (
        any(is_controller(broker) for broker in before.replicas)
        and [broker for broker in after.target if broker in stay] == stay
        and len(after.target) == len(set(after.target)) == len(before.target)
    )


def topic_znode_is_kept(cluster: Cluster, writer: Writer, incarnation: Incarnation, data: bytes | None) -> None:
    """What operators wrote into a topic's znode stays there: its id, its partitions, and their replicas unless somebody
    wanted other ones. And no partition loses its last replica in sync."""
    znode = znodes.decode_topic(incarnation.name, data)
    where = f"{writer.name} wrote the znode of {incarnation}"
    if incarnation.topic_id not in (None, znode.topic_id):
        raise Violation("znode", f"{where} with the id {znode.topic_id}, it was {incarnation.topic_id}")
    client_book.growth_is_explained(writer, incarnation, znode.assignments)
    for partition, before in incarnation.assignments.items():
        after = znode.assignments.get(partition)
        if after is None:
            if not incarnation.asked:
                raise Violation("znode", f"{where} without partition {partition}, which somebody has added")
            continue
        if after == before:
            continue
        was_wanted = cluster.ledger.wishes.was_made(incarnation, partition)
        was_wanted = was_wanted or client_book.wants_moved(incarnation, partition)
        if not was_wanted and not _is_evicted(before, after):
            raise Violation("znode", f"{where}: {partition} has {after}, it was {before}, and nobody wanted that")
        if not cluster.ledger.marks(incarnation) and _is_given_up(before, after):
            raise Violation("znode", f"{where}: {partition} has {after}, it was {before}, and nobody has it deleted")
        state = incarnation.states.get(partition)
        if state is not None and not any(broker in after.replicas for broker in state.isr):
            raise Violation("S6", f"{where}: {partition} has {after}, and all in sync are gone, they were {state.isr}")


def _is_given_up(before: ReplicaAssignment, after: ReplicaAssignment) -> bool:
    """Nothing moves any more, and the partition has arrived nowhere."""
    arrived = (frozenset(before.target), frozenset(before.origin))
    return before.is_being_reassigned and not after.is_being_reassigned and frozenset(after.replicas) not in arrived


def s4_markers_outlive_their_topics(cluster: Cluster, writer: Writer, operations: Sequence[Operation]) -> None:
    """A marker goes only when its topic is gone, was never there, is requested back, or may not be deleted as far as
    the writer could know; or when it names an earlier topic than the one that lives. After booking."""
    if writer.knowledge is None:
        return
    for operation in operations:
        if isinstance(operation, Delete) and (name := paths.deleted_topic_of(operation.path)) is not None:
            living = cluster.ledger.living.get(name)
            if living is not None and any(each.path == paths.request(name) for each in operations):
                trash.s4_nothing_of_it_is_gone(writer, living)
            elif living is not None and cluster.ledger.last_named[name] not in (None, living.czxid):
                continue
            elif living is not None and not writer.knowledge.may_refuse(name):
                raise Violation("S4", f"the marker of {living} was removed while its znode is there")


def s5_write_is_current(writer: Writer, operations: Sequence[Operation], epoch_version_before: int) -> None:
    """No write of a controller takes effect after another term has begun. An election begins one, from the very epoch
    that was read; so does control that is taken from who holds it."""
    first = operations[0]
    if isinstance(first, Create) and first.path == paths.CONTROLLER_EPOCH:
        return
    touched = {operation.path for operation in operations}
    if isinstance(first, Delete) and len(operations) == 1 and is_controller(paths.broker_of(first.path) or 0):
        # Who has lost control takes its own registration away.
        return
    if paths.CONTROLLER in touched and touched <= {paths.CONTROLLER, paths.CONTROLLER_EPOCH}:
        checked = [
            operation.version
            for operation in operations
            if operation.path == paths.CONTROLLER_EPOCH and isinstance(operation, Check | SetData)
        ]
        if checked != [epoch_version_before]:
            raise Violation("S5", f"{writer.name} takes or gives control in a tenure that it has not read")
        return
    if writer.epoch_version != epoch_version_before:
        raise Violation(
            "S5",
            f"a write of {writer.name} took effect whose tenure stands on version {writer.epoch_version} of "
            f"/controller_epoch, which has version {epoch_version_before}",
        )


def s6_leader_and_isr_is_sound(
    cluster: Cluster, writer: Writer, operation: Operation, name: str, partition: int
) -> None:
    """ISR within the assignment, leader within the ISR, nobody back in the ISR whom no leader has put there."""
    incarnation = cluster.ledger.living.get(name)
    if incarnation is None or not isinstance(operation, Create | SetData):
        return
    state = znodes.decode_state(name, partition, operation.data, 0)
    if state is None:
        raise Violation("S6", f"{writer.name} wrote an empty state for {name}-{partition}")
    problem = _leader_and_isr_problem(state, incarnation.replicas(partition))
    before = incarnation.states.get(partition)
    as_asked = before is not None and state.leader == before.leader and state.leader_epoch == before.leader_epoch
    if as_asked and (partition, state.leader_epoch, state.isr) in incarnation.proposed:
        before = None
    if problem is None and before is not None:
        unclean = _allows_unclean(writer, name) or client_book.wants_unclean(incarnation, partition)
        problem = _succession_problem(before, state, unclean=unclean)
    if problem is not None:
        raise Violation("S6", f"{writer.name} wrote for {name}-{partition} {state}, before it was {before}: {problem}")


def _allows_unclean(writer: Writer, name: str) -> bool:
    return writer.knowledge is not None and writer.knowledge.allows_unclean(name)


def _leader_and_isr_problem(state: LeaderAndIsr, replicas: tuple[int, ...]) -> str | None:
    if not state.isr:
        return "the ISR is empty"
    if any(broker not in replicas for broker in state.isr):
        return f"the ISR is not within the assignment {replicas}"
    if state.leader != LEADER_NONE and state.leader not in state.isr:
        return "the leader is not in the ISR"
    return None


def _succession_problem(before: LeaderAndIsr, state: LeaderAndIsr, *, unclean: bool) -> str | None:
    if state.leader_epoch <= before.leader_epoch:
        return "the leader epoch does not rise"
    if state.controller_epoch < before.controller_epoch:
        return "the controller epoch falls"
    if not unclean and any(broker not in before.isr for broker in state.isr):
        return "a broker is in sync that was not"
    return None


# --- disks --------------------------------------------------------------------------------------------------------


def is_live(name: str) -> bool:
    """True for the name of a replica's directory, false once it is renamed."""
    return kind_of(name).kind is DirectoryKind.REPLICA


def disk_operation_is_allowed(cluster: Cluster, agent: AgentProcess, operation: DiskOperation) -> None:
    """Judged just before the operation is performed."""
    directory = cluster.agents[agent.id].disk.log_dirs[operation.log_dir].get(str(operation.topic_partition))
    where = f"{agent.name}: {operation.log_dir}/{operation.topic_partition}"
    match operation:
        case RenameForDeletion() if directory is not None:
            s7_unidentified_is_kept(where, directory)
            s2_deletion_was_asked_for(cluster, agent, where, directory)
            _note_deletion(cluster, agent, directory)
        case QuarantineDirectory() if directory is not None:
            s2_living_are_not_set_aside(cluster, where, directory)
        case CreateReplica() | FillReplica() if directory is not None and directory.files:
            raise Violation("S3", f"{where} is to be filled, and it holds something already")
        case CreateReplica(topic_partition=topic_partition, topic_id=topic_id) if topic_id in cluster.ledger.by_id:
            _note_creation(cluster.ledger.by_id[topic_id], (topic_partition.partition, agent.id))
        case _:
            pass


def _note_deletion(cluster: Cluster, agent: AgentProcess, directory: Directory) -> None:
    identity = directory.bytes_of or directory.topic_id
    incarnation = None if identity is None else cluster.ledger.by_id.get(identity)
    if incarnation is not None and incarnation.condemned:
        replica = (directory.topic_partition.partition, int(agent.id))
        incarnation.deleted[replica] = None
        if incarnation.ordered.pop(replica, None) is not None:
            incarnation.deleted_under = incarnation.marker


def _note_creation(incarnation: Incarnation, replica: tuple[int, int]) -> None:
    incarnation.deleted.pop(replica, None)
    if incarnation.ordered.get(replica) != incarnation.marker:
        # What an earlier marker had ordered was never done.
        incarnation.ordered.pop(replica, None)


def removal_is_allowed(cluster: Cluster, agent: AgentProcess, ref: DirectoryRef) -> None:
    """Judged just before a directory is removed for good."""
    directory = agent.disk.log_dirs[ref.log_dir].get(ref.name)
    if directory is None:
        return
    where = f"{agent.name}: {ref.log_dir}/{ref.name}"
    if kind_of(ref.name).kind is not DirectoryKind.DELETED:
        raise Violation("S7", f"{where} is removed, and it was never renamed for deletion")
    s7_unidentified_is_kept(where, directory)
    s2_deletion_was_asked_for(cluster, agent, where, directory)


def s2_deletion_was_asked_for(cluster: Cluster, agent: AgentProcess, where: str, directory: Directory) -> None:
    """A directory is renamed for deletion or removed only for an incarnation whose deletion was asked for, or where a
    reassignment has taken its broker out of the assignment."""
    identity = directory.bytes_of or directory.topic_id
    incarnation = None if identity is None else cluster.ledger.by_id.get(identity)
    if incarnation is not None and (directory.topic_partition.partition, agent.id) in incarnation.released:
        return
    if incarnation is None or not incarnation.asked:
        raise Violation("S2", f"{where} is deleted, it holds bytes of {incarnation}, and nobody asked for that")
    # What a person had marked, and removed by hand, no controller has to have queued.
    if not incarnation.condemned and incarnation.removed_by != "operator":
        raise Violation("S2", f"{where} is deleted, and no controller has queued {incarnation} for deletion")


def s2_living_are_not_set_aside(cluster: Cluster, where: str, directory: Directory) -> None:
    """What belongs to a living incarnation is not taken out of its sight either."""
    incarnation = None if directory.bytes_of is None else cluster.ledger.by_id.get(directory.bytes_of)
    if incarnation is None or directory.topic_partition.partition in incarnation.maimed:
        return
    is_kept = incarnation.in_trash and not incarnation.condemned
    if incarnation.removed_by is None and (is_kept or not incarnation.asked):
        raise Violation("S2", f"{where} is set aside, and {incarnation} lives")


def s3_hosted_bytes_are_its_own(agent: AgentProcess) -> None:
    """What an agent serves lies on its disk and holds bytes of the incarnation under whose id it is served."""
    for topic_partition, replica in agent.state.replicas.items():
        if replica.state is not ReplicaState.HOSTED or replica.log_dir is None:
            continue
        directory = agent.disk.log_dirs[replica.log_dir].get(str(topic_partition))
        if directory is None:
            raise Violation("S3", f"{agent.name} serves {topic_partition}, and {replica.log_dir} has no such directory")
        if directory.bytes_of is not None and directory.bytes_of != replica.topic_id:
            raise Violation(
                "S3",
                f"{agent.name} serves {topic_partition} as {replica.topic_id}, and its bytes are of "
                f"{directory.bytes_of}",
            )


def s7_unidentified_is_kept(where: str, directory: Directory) -> None:
    """A directory that holds something and was never identified is never removed."""
    if directory.topic_id is None and directory.files:
        raise Violation("S7", f"{where} is deleted, and nobody knows whose it is")


# --- orders -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Promise:
    """The epochs that one run of an agent has registered under, obeyed, and been told of by ZooKeeper."""

    broker_epoch: int = NO_EPOCH
    controller_epoch: int = 0
    named_epoch: int = 0

    def why_stale(self, addressed: Addressed) -> str | None:
        """Why the order, which arrives now, is stale; None where it is not."""
        if addressed.request.controller_epoch < self.named_epoch:
            return f"controller epoch {addressed.request.controller_epoch}, ZooKeeper has named {self.named_epoch}"
        if addressed.broker_epoch != NO_EPOCH and addressed.broker_epoch < self.broker_epoch:
            return f"broker epoch {addressed.broker_epoch}, known {self.broker_epoch}"
        return self.why_deposed(addressed)

    def why_deposed(self, addressed: Addressed) -> str | None:
        """Why the order is one of an earlier controller; None where it is not."""
        if addressed.request.controller_epoch < self.controller_epoch:
            return f"controller epoch {addressed.request.controller_epoch}, known {self.controller_epoch}"
        return None

    def note(self, addressed: Addressed, response: ControlResponse) -> None:
        """What was answered without being refused was obeyed."""
        if response.error not in STALE:
            self.controller_epoch = max(self.controller_epoch, addressed.request.controller_epoch)


STALE: Final = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.STALE_CONTROLLER_EPOCH)


def s5_stale_order_is_refused(agent: str, stale: str, addressed: Addressed, response: ControlResponse) -> None:
    """No broker applies an order with a stale controller or broker epoch."""
    if response.error not in STALE:
        raise Violation("S5", f"{agent} obeyed a stale {type(addressed.request).__name__} ({stale})")
