"""What must be true in the end, when all faults are over and nothing is left to happen: L1 to L5, and a clean house."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from lethe.controller.core.context import Role
from lethe.controller.core.waiting import waits
from lethe.protocol.causes import CauseKind
from lethe.protocol.kafka.directory_names import DirectoryKind
from lethe.protocol.vocabulary import GROUP_METADATA_TOPIC, LEADER_NONE, BrokerId, TopicPartition
from lethe.protocol.zookeeper import paths
from tests.simulation import debts, forgetting, silences, trash_beliefs
from tests.simulation.disk import Directory, kind_of
from tests.simulation.ledger import Incarnation
from tests.simulation.world import Violation, is_controller

if TYPE_CHECKING:
    from tests.simulation.agents import AgentProcess
    from tests.simulation.cluster import Cluster
    from tests.simulation.controllers import ControllerProcess


def everything(cluster: Cluster, removed_by_hand: Container[str]) -> None:
    """All promises, with everybody up."""
    active_controller(cluster)
    l1_deletions_are_done(cluster)
    l1_wishes_are_fulfilled(cluster)
    l1_everybody_is_led(cluster)
    l5_nothing_else_was_deleted(cluster)
    no_orphans(cluster)
    nothing_is_on_a_controller(cluster)
    silences.all_is_settled(cluster.controllers)
    debts.all_are_settled(cluster)
    forgetting.all_is_answered(cluster)
    trash_beliefs.all_is_settled(cluster)
    for controller in cluster.controllers:
        controller.desk.nobody_waits()
    agreed: dict[int, None] = {}
    for agent in cluster.agents.values():
        # Agents that were told the same share the contents of their caches: those are looked at once.
        if id(agent.state.cache.topics) not in agreed:
            l2_topics_agree(cluster, agent, removed_by_hand)
            agreed[id(agent.state.cache.topics)] = None
        l2_brokers_agree(cluster, agent)
        disk_is_clean(cluster, agent)


def nothing_is_on_a_controller(cluster: Cluster) -> None:
    """Whatever brokers have placed there has been moved, or goes with its topic; unless every broker has a replica
    already."""
    for incarnation in cluster.ledger.living.values():
        for partition, assignment in incarnation.assignments.items():
            has_room = any(broker not in assignment.replicas for broker in cluster.agents)
            placed = incarnation.readable and has_room and any(map(is_controller, assignment.replicas))
            if placed and not _is_held_up(cluster, incarnation, partition):
                raise Violation("advertised", f"{incarnation}: {partition} is still placed on {assignment.replicas}")


def active_controller(cluster: Cluster) -> ControllerProcess:
    """Exactly one leads, and it is the one that ZooKeeper names."""
    active = [c for c in cluster.controllers if c.context.role is Role.ACTIVE]
    if len(active) != 1:
        roles = [c.context.role.value for c in cluster.controllers]
        raise Violation("L4", f"{len(active)} controllers are active: {roles}")
    return active[0]


def all_but_those_of(cluster: Cluster, away: BrokerId) -> None:
    """L3 and L1 with one broker away: only its topics wait, and they say that they wait for it."""
    context = active_controller(cluster).context
    forgetting.all_is_answered(cluster)
    for name in cluster.ledger.marked:
        incarnation = cluster.ledger.living.get(name)
        if incarnation is None:
            raise Violation("L1", f"the marker of {name} is left, and there is no such topic")
        if away not in incarnation.brokers:
            raise Violation("L3", f"{incarnation} is not deleted though it has no replica on broker {away}")
        causes = waits(context, name)
        if not causes:
            raise Violation("L1", f"{incarnation} waits, and nobody knows for what")
        for cause in causes:
            is_made_up = (cause.waiting_for, cause.broker) == (CauseKind.CANNOT_BE_OWED, away)
            if not is_made_up and debts.is_ordered(cluster, name):
                raise Violation("L3", f"{incarnation} was not to wait for broker {away}, and it waits: {cause}")
            if not is_made_up and (cause.waiting_for, cause.broker) != (CauseKind.BROKER_TO_RETURN, away):
                raise Violation("L1", f"{incarnation} waits for {cause}, and not for broker {away} alone")


def all_but_those_of_silent(cluster: Cluster, silent: BrokerId, away: BrokerId | None) -> None:
    """L3 with one broker registered that answers nothing: topics without a replica there, or on the one that is away,
    are gone. A broker that refuses the controller's epoch is another matter: where most do not, a person restarts it.
    And what groups have committed may be at the silent broker: a topic waits for that on its way into the trash.
    """
    excused = [CauseKind.BROKER_REFUSES_EPOCH]
    if GROUP_METADATA_TOPIC in cluster.ledger.living:
        excused.append(CauseKind.TRASH)
    for name in cluster.ledger.marked:
        incarnation = cluster.ledger.living.get(name)
        if incarnation is not None and not {silent, away} & {*incarnation.brokers}:
            causes = waits(active_controller(cluster).context, name)
            if any(cause.waiting_for in excused for cause in causes):
                continue
            raise Violation("L3", f"{incarnation} has no replica on the silent broker {silent}, and waits: {causes}")


def everything_marked_is_kept(cluster: Cluster) -> None:
    """While deletions are paused no topic goes, everybody can say why, and those that were not begun are in service."""
    context = active_controller(cluster).context
    for name in cluster.ledger.marked:
        incarnation = cluster.ledger.living.get(name)
        if incarnation is None:
            raise Violation("pause", f"the marker of {name} is left, and there is no such topic")
        if not waits(context, name):
            raise Violation("pause", f"{incarnation} waits, and nobody knows for what")
        for agent in cluster.agents.values():
            led = any(partition not in incarnation.touched for partition in incarnation.states)
            if (
                name in context.cluster.marks
                and led
                and cluster.was_told(agent)
                and name not in agent.state.cache.topics
            ):
                raise Violation("pause", f"{incarnation} is held back, and the cache of {agent.name} has lost it")


def l1_deletions_are_done(cluster: Cluster) -> None:
    """Every deletion that was asked for and not taken back is done."""
    for name in cluster.ledger.marked:
        raise Violation("L1", f"{cluster.ledger.living.get(name, name)} is still marked for deletion")
    context = active_controller(cluster).context
    for name in context.cluster.deletions:
        raise Violation("L1", f"{name} is still queued for deletion: {waits(context, name)}")


def l1_wishes_are_fulfilled(cluster: Cluster) -> None:
    """Every partition that was to be moved has been, unless it was overridden or its topic goes; nothing is moving.

    Brokers that live on while a topic is removed by hand and made anew keep the earlier incarnation, as Kafka's do, and
    obey nothing that is said of the new one: what needs them waits until they are started again.
    """
    model, wishes = cluster.ensemble.model, cluster.ledger.wishes
    waiting = [tp for tp, wish in wishes.open.items() if _is_held_up(cluster, wish.incarnation, wish.partition)]

    def held(asked: TopicPartition) -> bool:
        """What was asked of an earlier incarnation is asked of the living one too, although nobody wished it."""
        living = cluster.ledger.living.get(asked.topic)
        return living is not None and _is_held_up(cluster, living, asked.partition)

    for path in (paths.REASSIGN_PARTITIONS, paths.PREFERRED_REPLICA_ELECTION):
        node = model.node(path)
        if node is None or (
            path == paths.REASSIGN_PARTITIONS and all(tp in waiting or held(tp) for tp in wishes.asked_for)
        ):
            continue
        raise Violation("L1", f"{path} is left, and says {node.data!r}")
    for topic_partition, wish in wishes.open.items():
        if wish.can_be_fulfilled and not wish.is_fulfilled and topic_partition not in waiting:
            assignment = wish.incarnation.assignments[wish.partition]
            raise Violation(
                "L1", f"{wish.incarnation}: {wish.partition} was to have {wish.target}, it has {assignment}"
            )
    for incarnation in cluster.ledger.living.values():
        for partition, assignment in incarnation.assignments.items():
            if assignment.is_being_reassigned and not _is_held_up(cluster, incarnation, partition):
                raise Violation("L1", f"{incarnation}: {partition} is still being reassigned: {assignment}")


def _is_held_up(cluster: Cluster, incarnation: Incarnation, partition: int) -> bool:
    """A broker that is to lead or to follow hosts an earlier incarnation of the name, or somebody has removed the state
    by hand, which only the next controller makes anew."""
    if partition in incarnation.maimed:
        return True
    hosted = (
        cluster.agents[BrokerId(broker)].state.replicas.get(TopicPartition(incarnation.name, partition))
        for broker in incarnation.replicas(partition)
        if not is_controller(broker)
    )
    return any(replica is not None and replica.topic_id != incarnation.topic_id for replica in hosted)


def l1_everybody_is_led(cluster: Cluster) -> None:
    """Every partition has a state; who has somebody alive that may lead has a leader; all in sync are assigned."""
    active = active_controller(cluster)
    for incarnation in cluster.ledger.living.values():
        unclean = cluster.allows_unclean(active, incarnation.name)
        for partition, assignment in incarnation.assignments.items():
            state = incarnation.states.get(partition)
            if partition in incarnation.touched:
                continue
            if state is None:
                raise Violation("L1", f"{incarnation}: {partition} never came into service")
            able = assignment.replicas if unclean else state.isr
            if state.leader == LEADER_NONE and any(_hosts(cluster, incarnation, partition, b) for b in able):
                raise Violation("L1", f"{incarnation}: nobody leads {partition}, and some of {able} live and may")
            if any(broker not in assignment.replicas for broker in state.isr):
                raise Violation("S6", f"{incarnation}: {partition} has {assignment}, in sync are {state.isr}")


def _hosts(cluster: Cluster, incarnation: Incarnation, partition: int, broker: int) -> bool:
    disk = cluster.agents[BrokerId(broker)].disk
    return disk.replica(TopicPartition(incarnation.name, partition)) is not None


def l2_topics_agree(cluster: Cluster, agent: AgentProcess, removed_by_hand: Container[str]) -> None:
    """An agent's metadata cache says of topics what ZooKeeper says."""
    cache = agent.state.cache
    living = cluster.ledger.living
    # Somebody has removed all its states by hand: nobody misses them before the next election.
    maimed = {name for name, each in living.items() if each.maimed and not each.states}
    shown = {name for name in cache.topics if name in living or name not in removed_by_hand} - maimed
    led = {name: each for name, each in living.items() if each.states and each.readable}
    if shown != led.keys():
        raise Violation("L2", f"the cache of {agent.name} shows {sorted(shown)}, ZooKeeper has {sorted(led)}")
    for name, incarnation in led.items():
        if cache.topic_ids.get(name) != incarnation.topic_id:
            raise Violation("L2", f"{agent.name} knows {name} under {cache.topic_ids.get(name)}, not as {incarnation}")
        _partitions_agree(agent, incarnation)


def l2_brokers_agree(cluster: Cluster, agent: AgentProcess) -> None:
    """An agent's metadata cache says of brokers and controller what ZooKeeper says."""
    cache = agent.state.cache
    registered = cluster.registered()
    if {broker for broker in cache.brokers if not is_controller(broker)} != registered.keys():
        raise Violation(
            "L2", f"{agent.name} knows brokers {sorted(cache.brokers)}, registered are {sorted(registered)}"
        )
    active = active_controller(cluster)
    if cache.controller_id != active.id:
        raise Violation("L2", f"{agent.name} takes {cache.controller_id} for the controller, it is {active.id}")


def _partitions_agree(agent: AgentProcess, incarnation: Incarnation) -> None:
    rows = agent.state.cache.topics[incarnation.name]
    # A state znode that somebody removed by hand is missed by nobody until the next election.
    shown = {number for number in rows if number in incarnation.states or number not in incarnation.touched}
    if shown != incarnation.states.keys():
        raise Violation("L2", f"{agent.name} knows partitions {sorted(rows)} of {incarnation}")
    for number, state in incarnation.states.items():
        row = rows[number]
        if number in incarnation.touched:
            continue
        if (row.leader, row.leader_epoch, row.isr) != (state.leader, state.leader_epoch, state.isr):
            raise Violation("L2", f"{agent.name} knows {incarnation.name}-{number} as {row}, ZooKeeper has {state}")


def l5_nothing_else_was_deleted(cluster: Cluster) -> None:
    """Whoever was not to be deleted is there: znodes, and the bytes of every replica in sync."""
    for incarnation in cluster.ledger.all:
        if incarnation.asked:
            continue
        if incarnation.removed_by not in (None, "operator"):
            raise Violation("L5", f"{incarnation} is gone, and nobody asked for that")
        if incarnation.removed_by is None:
            _bytes_are_there(cluster, incarnation)


def _bytes_are_there(cluster: Cluster, incarnation: Incarnation) -> None:
    for number, state in incarnation.states.items():
        for broker in state.isr if number not in incarnation.touched else ():
            disk = cluster.agents[BrokerId(broker)].disk
            name = f"{incarnation.name}-{number}"
            if not any(name in names for names in disk.log_dirs.values()):
                raise Violation(
                    "L5", f"{name} of {incarnation} is not on the disk of broker {broker}, which is in sync"
                )


def no_orphans(cluster: Cluster) -> None:
    """Nothing is left in ZooKeeper of topics that are gone."""
    model = cluster.ensemble.model
    topics = model.children(paths.BROKER_TOPICS)
    for name in model.children("/config/topics"):
        if name not in topics:
            raise Violation("orphan", f"/config/topics/{name} is left of a topic that is gone")
    for name in model.children(paths.DELETE_TOPICS):
        raise Violation("orphan", f"{paths.DELETE_TOPICS}/{name} is left")


def disk_is_clean(cluster: Cluster, agent: AgentProcess) -> None:
    """On disk there are the replicas of living topics, and what was quarantined or put there by somebody else."""
    for log_dir, name, directory in agent.disk.directories():
        problem = _leftover(cluster, agent, log_dir, name, directory)
        if problem is not None:
            raise Violation("leftover", f"{agent.name} has {log_dir}/{name}: {problem}")


def _leftover(cluster: Cluster, agent: AgentProcess, log_dir: str, name: str, directory: Directory) -> str | None:
    if directory.foreign:
        return None
    incarnation = None if directory.bytes_of is None else cluster.ledger.by_id.get(directory.bytes_of)
    if incarnation is None:
        return "nobody knows whose bytes it holds"
    partition = directory.topic_partition.partition
    is_stray = (partition, agent.id) in incarnation.strays or (partition, agent.id, log_dir) in incarnation.copies
    if incarnation.removed_by == "operator" or is_stray:
        return None
    if agent.id in incarnation.lost and incarnation.removed_by is not None:
        return None
    kind = kind_of(name).kind
    if kind is DirectoryKind.DELETED:
        return "it was to be removed"
    if kind is DirectoryKind.STRAY:
        may_be = incarnation.removed_by is not None or partition in incarnation.maimed
        return None if may_be else f"it was set aside, and {incarnation} lives"
    if incarnation.removed_by is not None:
        return f"{incarnation} is gone"
    if agent.id not in incarnation.replicas(partition):
        return f"it is no replica of {incarnation}"
    return None
