"""The trash: what must be true of topics that are deleted with a grace period, judged by what really is.

    a topic goes into the trash   by its marker's order; brokers have noticed that its retention is off; the entry has
                                  its id, assignment and states, and what groups had committed before
    it is in the trash            no other topic of its name comes into service; its directories stay
    it comes back                 by request, or to be deleted when its time is over or by request of its id; with the
                                  same id and assignment, above every leader epoch that it had, in sync only where its
                                  directories are; to be served, only if brokers have noticed that its retention is off
    its entry goes                when its offsets are committed and its settings are what they were
    in the end                    nothing is left of it, and no request waits

Retention is modelled by the moment at which each broker takes in the settings: less than `trash_freeze_ms` after the
notification. A log that leaves service before that would lose records. So would one that is served again after its
settings have changed without a notification: a broker that was started meanwhile has read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

from lethe.controller.core.effects import Send
from lethe.protocol.kafka.control import StopReplicaRequest
from lethe.protocol.vocabulary import EPOCH_DURING_DELETE, LEADER_NONE, BrokerId, LeaderAndIsr, ReplicaAssignment
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Delete, Operation, SetData
from lethe.protocol.zookeeper.znodes import RequestedAction, SavedPartition, TrashEntry, TrashPhase
from tests.simulation import graces
from tests.simulation.config_book import FROZEN
from tests.simulation.disk import Disk
from tests.simulation.ensemble import Writer
from tests.simulation.ledger import Incarnation
from tests.simulation.mix import Mix
from tests.simulation.trash_book import entry_named
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.controllers import ControllerProcess

P_TRASH: Final = 0.25
P_GROUPS: Final = 0.7
P_PROTECTED: Final = 0.3
DEEDS: Final = {"mark_for_trash": 16, "undelete": 2, "purge": 4, "squat": 3, "lose": 3, "tidy": 4, "plan": 8}
GROUP_DEEDS: Final = {"commit": 12, "join": 4}
FREEZE_MS: Final = (200, 1_000, 3_000)


def drawn(seed: int, mix: Mix) -> Mix:
    """The mix with a trash, in some seeds. A chance of its own: other seeds have none of it.

    What has to wait in the trash, or before it, is tried again for ever. So nothing rests while a pause lasts, while
    topics may not be deleted, or while the only broker with some partition is away."""
    random = Random(f"trash {seed}")
    if random.random() >= P_TRASH:
        return mix
    groups = GROUP_DEEDS if random.random() < P_GROUPS else {}
    protecting = {"protect": 2} if random.random() < P_PROTECTED else {}
    return replace(
        mix,
        trash_freeze_ms=random.choice(FREEZE_MS),
        theme_weights={**mix.theme_weights, **DEEDS, **groups, **protecting},
        theme_every_ms=random.choice(((30, 300), (50, 600))),
        operator_weights={**mix.operator_weights, "create": 16, "mark": 3},
        stays_paused=False,
        delete_topic_enable=True,
        one_broker_stays_away=False,
    )


# --- retention ----------------------------------------------------------------------------------------------------


class Retention:
    """When each broker takes in that a topic's settings have changed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._random = Random(f"retention {cluster.world.seed}")
        self._noticed: dict[str, dict[BrokerId, int]] = {}
        """By topic: who was registered when retention was switched off or on, and when it has taken that in."""
        self._frozen: dict[str, None] = {}
        """Topics whose retention was off at their last notification, and has been off since."""

    def book(self, operation: Operation) -> None:
        """Every registered broker hears of a notification; one that starts reads the settings without it."""
        changed = paths.child_of(paths.config_topics(), operation.path)
        if changed is not None and not FROZEN.items() <= _settings(self._cluster, changed).items():
            self._frozen.pop(changed, None)
        if not isinstance(operation, Create) or not operation.path.startswith(f"{paths.CONFIG_CHANGES}/"):
            return
        kind, _, name = znodes.decode_config_change(operation.path, operation.data).entity_path.partition("/")
        if kind != "topics":
            return
        now_ms, latest_ms = self._cluster.world.now_ms, self._cluster.mix.trash_freeze_ms - 1
        noticed = {broker: now_ms + self._random.randint(0, latest_ms) for broker in self._cluster.registered()}
        is_frozen = FROZEN.items() <= _settings(self._cluster, name).items()
        if not (is_frozen and name in self._frozen):
            # Otherwise something else has changed.
            self._noticed[name] = noticed
        self._frozen.pop(name, None)
        if is_frozen:
            self._frozen[name] = None

    def problem(self, incarnation: Incarnation) -> str | None:
        """Why brokers may remove records of it when they serve it, or while it is in the trash."""
        unaware = [broker for broker in self._unaware(incarnation.name) if broker in incarnation.brokers]
        is_off = incarnation.name in self._frozen
        if is_off and not unaware:
            return None
        return f"brokers {unaware} have not noticed that its retention is off" if is_off else "its retention is on"

    def _unaware(self, name: str) -> list[BrokerId]:
        """Registered brokers whose logs are still subject to what the settings said before."""
        registered, now_ms = self._cluster.registered(), self._cluster.world.now_ms
        return [
            broker for broker, at_ms in self._noticed.get(name, {}).items() if broker in registered and at_ms > now_ms
        ]


# --- writes -------------------------------------------------------------------------------------------------------


def is_going_in(operations: Sequence[Operation], name: str) -> bool:
    """The write that removes this topic's znode puts it into the trash."""
    entry = _entry_written(operations, name)
    return entry is not None and entry.phase is TrashPhase.TRASHED


def writes_are_allowed(cluster: Cluster, writer: Writer, operations: Sequence[Operation]) -> None:
    """Judged at the moment at which a controller's write takes effect, before it is booked."""
    book = cluster.ledger.trash
    _demand(writer, graces.why_not_frozen(cluster, operations))
    for operation in operations:
        name = paths.topic_of(operation.path)
        if name is not None and isinstance(operation, Create):
            _demand(writer, _return_problem(cluster, operations, name, operation))
        elif name is not None and isinstance(operation, Delete) and is_going_in(operations, name):
            _demand(writer, _way_in_problem(cluster, operations, cluster.ledger.living[name]))
        elif (state_of := paths.state_of(operation.path)) is not None and isinstance(operation, Create):
            living = cluster.ledger.living.get(state_of.topic)
            if living is not None and book.reserves(living):
                _demand(writer, f"brings {living} into service, and another {living.name} is in the trash")
        elif (name := entry_named(operation.path)) is not None and isinstance(operation, Delete):
            _demand(writer, _end_problem(cluster, operations, name))


def _demand(writer: Writer, problem: str | None) -> None:
    if problem is not None:
        raise Violation("trash", f"{writer.name} {problem}")


def _way_in_problem(cluster: Cluster, operations: Sequence[Operation], incarnation: Incarnation) -> str | None:
    """Why the topic may not go into the trash like this."""
    entry = _entry_written(operations, incarnation.name)
    assert entry is not None
    if not cluster.ledger.marks(incarnation):
        return f"puts {incarnation} into the trash, and it is not marked"
    if entry.topic_id != incarnation.topic_id:
        return f"puts {incarnation} into the trash under the id {entry.topic_id}"
    if (problem := cluster.retention.problem(incarnation)) is not None:
        return f"takes {incarnation} out of service, and {problem}"
    for number, saved in entry.partitions.items():
        state = incarnation.states.get(number)
        if number not in incarnation.foreign and not _is_saved(saved, state, incarnation.assignments.get(number)):
            return f"keeps of {incarnation}-{number} {saved}, ZooKeeper has {state}"
    if entry.partitions.keys() != incarnation.assignments.keys():
        return f"keeps partitions {sorted(entry.partitions)} of {incarnation}"
    return _offsets_problem(cluster, operations, incarnation)


def _is_saved(saved: SavedPartition, state: LeaderAndIsr | None, assignment: ReplicaAssignment | None) -> bool:
    return (
        state is not None
        and assignment == ReplicaAssignment(saved.replicas)
        and SavedPartition.of(saved.replicas, state) == replace(saved, recovery_state=state.recovery_state)
    )


def _offsets_problem(cluster: Cluster, operations: Sequence[Operation], incarnation: Incarnation) -> str | None:
    """What was committed before retention was switched off is saved, or something newer."""
    name = incarnation.name
    found = _offsets_written(operations, name)
    since_ms = cluster.ledger.trash.entries[name].since_ms
    for group, offsets in cluster.groups.committed.get(name, {}).items():
        for number, offset in offsets.items():
            if offset.at_ms < since_ms and found.get(group, {}).get(number) != offset.offset:
                return f"forgets that group {group} has committed {offset.offset} for {incarnation}-{number}"
    cluster.ledger.trash.offsets[incarnation.number] = found
    return None


def _return_problem(cluster: Cluster, operations: Sequence[Operation], name: str, create: Create) -> str | None:
    """Why the topic may not be created again like this. One that is not in the trash is judged in `client_book`."""
    book = cluster.ledger.trash
    entry, incarnation = book.entries.get(name), book.kept.get(name)
    if entry is None and incarnation is None:
        return None
    if entry is None or incarnation is None:
        return f"creates {name}, which is not in the trash"
    znode = znodes.decode_topic(name, create.data)
    if znode.topic_id != incarnation.topic_id or dict(znode.assignments) != incarnation.assignments:
        return f"brings {incarnation} back as {znode}"
    is_deleted = any(each.path == paths.delete_topic(name) for each in operations)
    if not is_deleted and (problem := cluster.retention.problem(incarnation)) is not None:
        return f"brings {incarnation} back, and {problem}"
    states = _states_written(operations, name)
    if states.keys() != entry.partitions.keys():
        return f"brings {incarnation} back with states of {sorted(states)}"
    for number, (state, version) in states.items():
        if not is_deleted and version < entry.partitions[number].version:
            return (
                f"brings {incarnation}-{number} back with a state of version {version}: brokers have seen a later one"
            )
        disks = {} if is_deleted else _disks_of_the_living(cluster, state.isr)
        problem = _state_problem(incarnation, number, entry.partitions[number], state, disks)
        if problem is not None:
            return f"brings {incarnation}-{number} back with {state}: {problem}"
    return _order_problem(cluster, operations, incarnation, entry, is_deleted=is_deleted)


def _disks_of_the_living(cluster: Cluster, brokers: Sequence[int]) -> dict[int, Disk]:
    """Return disks of which brokers have told: one that died since may lose directories before ZooKeeper notices."""
    agents = {broker: cluster.agents[BrokerId(broker)] for broker in brokers}
    return {broker: agent.disk for broker, agent in agents.items() if agent.alive}


def _state_problem(
    incarnation: Incarnation, number: int, saved: SavedPartition, state: LeaderAndIsr, disks: dict[int, Disk]
) -> str | None:
    if state.leader_epoch <= saved.leader_epoch:
        return f"its leader epoch was {saved.leader_epoch}"
    if not state.isr or any(broker not in saved.isr for broker in state.isr):
        return f"in sync were {saved.isr}"
    if state.leader != LEADER_NONE and state.leader not in state.isr:
        return "the leader is not in the ISR"
    for broker, disk in disks.items() if state.leader != LEADER_NONE and number not in incarnation.maimed else ():
        if not is_on(disk, incarnation, number):
            return f"broker {broker} has no such directory"
    return None


def is_on(disk: Disk, incarnation: Incarnation, number: int) -> bool:
    """The disk has a directory under this partition's name. It may be one of an earlier topic, where the broker owes
    that or somebody has put it there: DescribeLogDirs does not tell, and the broker then refuses to serve it."""
    name = f"{incarnation.name}-{number}"
    return any(name in names for names in disk.log_dirs.values())


def _order_problem(
    cluster: Cluster, operations: Sequence[Operation], incarnation: Incarnation, entry: TrashEntry, *, is_deleted: bool
) -> str | None:
    """Who wants it: a request in this write, or its time is over."""
    name = incarnation.name
    request = (
        cluster.ledger.trash.requests.get(name)
        if any(each.path == paths.request(name) for each in operations)
        else None
    )
    if not is_deleted:
        is_wanted = request is not None and request.action is RequestedAction.UNDELETE
        return None if is_wanted else f"brings {incarnation} back, and nobody wants it"
    if request is None:
        is_over = cluster.world.now_ms >= entry.until_ms
        return None if is_over else f"deletes {incarnation} from the trash before its time"
    if request.action is RequestedAction.PURGE and request.topic_id == incarnation.topic_id:
        return None
    return f"deletes {incarnation} from the trash, and the request is {request}"


def _end_problem(cluster: Cluster, operations: Sequence[Operation], name: str) -> str | None:
    """Why the entry may not go yet."""
    book = cluster.ledger.trash
    entry, living = book.entries[name], cluster.ledger.living.get(name)
    if name in book.kept:
        return _deletion_problem(cluster, operations, book.kept[name])
    if living is None or living.topic_id != entry.topic_id or entry.phase is TrashPhase.FREEZING:
        return None
    if not living.condemned and (lost := list(missing_offsets(cluster, living))):
        return f"removes the entry of {living}, and these offsets are not committed: {lost}"
    settings, configs = _settings(cluster, name), cluster.ledger.configs
    if configs.has_its_own(name, settings):
        return None
    return f"removes the entry of {living}, and its settings are {settings}, not {configs.own(name)}"


def _deletion_problem(cluster: Cluster, operations: Sequence[Operation], incarnation: Incarnation) -> str | None:
    """Why a topic may not leave the trash like this, other than into service. Its deletion may be called off before it
    begins: then it has its settings, and gave its offsets up."""
    name = incarnation.name
    created = {each.path for each in operations if isinstance(each, Create)}
    if not {paths.topic(name), paths.delete_topic(name)} <= created:
        return f"removes the entry of {incarnation}, which is in the trash"
    cluster.ledger.trash.offsets.pop(incarnation.number, None)
    settings = _settings(cluster, name)
    configs = cluster.ledger.configs
    if configs.has_its_own(name, settings):
        return None
    return f"marks {incarnation}, and its settings are {settings}, not {configs.own(name)}"


def missing_offsets(cluster: Cluster, incarnation: Incarnation) -> Iterator[str]:
    """What was saved of this topic's offsets, and no group has now; earlier topics of its name had their own."""
    for group, offsets in cluster.ledger.trash.offsets.get(incarnation.number, {}).items():
        known = cluster.groups.committed.get(incarnation.name, {}).get(group, {})
        yield from (f"{group} {number}: {offset}" for number, offset in offsets.items() if number not in known)


def deletions_ordered(cluster: Cluster, controller: ControllerProcess, send: Send) -> None:
    """Book which replicas a broker is asked to delete with their topic. A reassignment's order to delete replicas has
    the partitions' leader epochs instead: it is about a topic that lives, and goes on whether that is marked or not."""
    if not isinstance(send.request, StopReplicaRequest):
        return
    memory = controller.context.cluster
    is_active = memory.epoch_version == cluster.ensemble.epoch_version
    for topic in send.request.topics:
        known = memory.topics.get(topic.topic) if memory.is_queued(topic.topic) else None
        incarnation = None if known is None else cluster.ledger.by_zxid.get((known.created_zxid, topic.topic))
        if incarnation is None:
            continue
        for row in topic.partitions:
            if row.delete and row.leader_epoch == EPOCH_DURING_DELETE:
                incarnation.ordered[row.partition, int(send.broker)] = incarnation.marker if is_active else 0


def s4_nothing_of_it_is_gone(writer: Writer, incarnation: Incarnation) -> None:
    """A marked topic stays by request only while no broker was asked to delete a replica for this marker, and while
    every replica in sync is there: what a reassignment removes has left the ISR before. A topic that has had no marker
    of its own stays: the one of its name is for an earlier topic."""
    if not incarnation.marker:
        return
    ordered = [replica for replica, marker in incarnation.ordered.items() if marker == incarnation.marker]
    if ordered or incarnation.deleted_under == incarnation.marker:
        gone = [*incarnation.deleted, *ordered]
        raise Violation("S4", f"{writer.name} lets {incarnation} stay, and replicas of it are deleted: {gone}")
    if incarnation.deleted_under:
        # Somebody removed an earlier marker by hand while its deletion was under way: no later controller can know.
        return
    for number, state in incarnation.states.items():
        without = [broker for broker in state.isr if (number, broker) in incarnation.deleted]
        if without:
            raise Violation("S4", f"{writer.name} lets {incarnation} stay, and {without} in sync have deleted {number}")


# --- what was written ---------------------------------------------------------------------------------------------


def _entry_written(operations: Sequence[Operation], name: str) -> TrashEntry | None:
    path = paths.trashed(name)
    found = [each.data for each in operations if isinstance(each, Create | SetData) and each.path == path]
    return znodes.decode_trash(name, found[-1]) if found else None


def _states_written(operations: Sequence[Operation], name: str) -> dict[int, tuple[LeaderAndIsr, int]]:
    """The states that are created, as they are written last, and their data versions then."""
    written: dict[int, list[bytes | None]] = {}
    for operation in operations:
        state_of = paths.state_of(operation.path)
        if state_of is not None and state_of.topic == name and isinstance(operation, Create | SetData):
            written.setdefault(state_of.partition, []).append(operation.data)
    decoded = {n: (znodes.decode_state(name, n, data[-1], 0), len(data) - 1) for n, data in written.items()}
    return {n: (state, version) for n, (state, version) in decoded.items() if state is not None}


def _offsets_written(operations: Sequence[Operation], name: str) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for operation in operations:
        if operation.path.startswith(f"{paths.trashed(name)}/") and isinstance(operation, Create):
            for group, offsets in znodes.decode_offsets(operation.path, operation.data).items():
                found.setdefault(group, {}).update({number: each.offset for number, each in offsets.items()})
    return found


def _settings(cluster: Cluster, name: str) -> dict[str, str]:
    node = cluster.ensemble.model.node(paths.config_topic(name))
    return {} if node is None else znodes.decode_config(paths.config_topic(name), node.data)
