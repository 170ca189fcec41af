"""Brokers that keep their session and do not answer, controllers that are asked to stop, and what may come of both.

A topic's znodes may go while a broker's cache still shows it: when that broker has had the tombstone for as long as the
limit says, and has it still before everything that comes later. Within one controller's term no broker is told of the
next topic of a name while its cache shows the one before. A controller that is asked to stop leaves no cache that shows
what it has removed, as long as it has time to wait, and no second request has it give control up at once. This is
judged when it decides to remove `/controller`, and when the outcome of a write ends its term. An unknown outcome ends
its session (decision 0008), so it cannot wait: then it says which topics these caches show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lethe.broker.core.metadata_cache import MetadataCache
from lethe.controller.core.context import Role
from lethe.controller.core.events import Event, ResignationRequested, ZnodesWritten
from lethe.protocol.kafka.control import Addressed, ControlResponse, UpdateMetadataRequest, UpdateMetadataResponse
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import LEADER_DURING_DELETE
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Delete, Operation
from lethe.protocol.zookeeper.packing import GroupUnknown
from tests.simulation.ensemble import Writer
from tests.simulation.ledger import Incarnation
from tests.simulation.shared_contents import SharedContents
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.agents import AgentProcess
    from tests.simulation.cluster import Cluster
    from tests.simulation.controllers import ControllerProcess


def is_shown(cache: MetadataCache, incarnation: Incarnation) -> bool:
    """The cache shows a partition of that incarnation under its id. Partitions that it has never had are planted ghosts
    (`ghosts`): no tombstone of the topic names them, and convergence demands that they are cured."""
    name, topic_id = incarnation.name, incarnation.topic_id
    return (
        topic_id is not None
        and cache.topic_ids.get(name) == topic_id
        and any(number in incarnation.assignments for number in cache.topics.get(name, ()))
    )


def why_not_shown(cluster: Cluster, writer: Writer, agent: AgentProcess, incarnation: Incarnation) -> str | None:
    """Why the znodes may not go while that agent's cache shows the topic; None where they may."""
    process = next(each for each in cluster.controllers if each.name == writer.name)
    channel = process.channels.get(agent.id)
    first_ms = None if channel is None else channel.first_told_ms(incarnation)
    if channel is None or first_ms is None:
        return "it was not told"
    if cluster.world.now_ms - first_ms < cluster.mix.tombstone_timeout_ms or not cluster.mix.tombstone_timeout_ms:
        return "the limit has not passed"
    if channel.holds_tombstone_of(incarnation) or _is_asked_again(process, agent, incarnation):
        return None
    return "the tombstone is not on its way"


def _is_asked_again(process: ControllerProcess, agent: AgentProcess, incarnation: Incarnation) -> bool:
    """The tombstone was on its way when the removal was written, and the agent has refused it since: the controller
    knows that it owes another."""
    deletion = process.context.cluster.deletions.get(incarnation.name)
    was_asked = agent.id in process.asked_at_removal.get(incarnation.name, ())
    return was_asked and deletion is not None and agent.id in deletion.owing_tombstone


# --- what a broker does -------------------------------------------------------------------------------------------


class WatchedCache(MetadataCache):
    """A cache that is looked at before it changes, and shares its contents with others."""

    judge: Callable[[MetadataCache, UpdateMetadataRequest], None]
    shared: SharedContents

    def apply(self, request: UpdateMetadataRequest) -> tuple[str, ...]:
        self.judge(self, request)
        return self.shared.apply(self, request)

    def forget_topics(self) -> tuple[str, ...]:
        topics, brokers, controller_id = tuple(self.topics), self.brokers, self.controller_id
        self.shared.clear(self)
        self.brokers, self.controller_id = brokers, controller_id
        return topics


def watched_cache(cluster: Cluster, agent: AgentProcess) -> WatchedCache:
    """An empty cache of that agent."""

    def judge(cache: MetadataCache, request: UpdateMetadataRequest) -> None:
        cluster.groups.told(agent, request)
        for topic in request.topics:
            shown = cache.topic_ids.get(topic.topic)
            before = None if shown is None else cluster.ledger.by_id.get(shown)
            if before is None or topic.topic_id in (None, shown) or before.removed_in != request.controller_epoch:
                continue
            if not is_shown(cache, before):
                continue
            if any(row.leader != LEADER_DURING_DELETE for row in topic.partitions):
                raise Violation("S1", f"{agent.name} is told of the next {topic.topic} while it still shows {before}")

    cache = WatchedCache()
    cache.judge, cache.shared = judge, cluster.shared
    cluster.shared.clear(cache)
    return cache


def refuses(agent: AgentProcess, addressed: Addressed) -> ControlResponse | None:
    """What a broker answers that cannot let go of topics for now; None where it can. News of living topics it takes in:
    no controller says these twice."""
    if not agent.p_refuses:
        return None
    request = addressed.request
    rows = request.topics if isinstance(request, UpdateMetadataRequest) else ()
    only_tombstones = rows and all(row.leader == LEADER_DURING_DELETE for topic in rows for row in topic.partitions)
    if not only_tombstones or not agent.chance(agent.p_refuses):
        return None
    return UpdateMetadataResponse(ErrorCode.UNKNOWN_SERVER_ERROR)


# --- the ends of a term -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Request:
    """When a controller was asked to stop, and how long it may wait."""

    at_ms: int
    patience_ms: int


def term_may_change(controller: ControllerProcess, cluster: Cluster) -> Callable[[Event], None]:
    """To be called before a step; what it returns, after it, with the event."""
    context = controller.context
    was_leading, epoch = context.is_leading, context.cluster.epoch

    def after(event: Event) -> None:
        if not was_leading and controller.context.is_leading:
            _memory_is_new(controller, cluster)
        asked = controller.asked_to_stop
        if asked is not None and isinstance(event, ResignationRequested) and not event.patience_ms:
            # A second request, by an operator: control is given up at once, whatever the first one allowed.
            asked = controller.asked_to_stop = replace(asked, patience_ms=0)
        if not was_leading or controller.context.is_leading or asked is None or not isinstance(event, ZnodesWritten):
            return
        if event.controller_moved or controller.context.role is not Role.RETIRED:
            return
        if any(isinstance(outcome, GroupUnknown) for outcome in event.outcomes):
            _what_is_left_is_said(controller, cluster, epoch)
        elif _may_wait(controller, cluster):
            _nothing_is_left(controller, cluster, epoch)

    return after


def control_may_go(controller: ControllerProcess, cluster: Cluster, operations: Iterable[Operation]) -> None:
    """Judge a decision to remove `/controller`, whatever becomes of the write."""
    context = controller.context
    is_given_up = any(isinstance(each, Delete) and each.path == paths.controller() for each in operations)
    is_in_charge = context.is_leading and context.cluster.epoch_version == cluster.ensemble.epoch_version
    if is_given_up and is_in_charge and _may_wait(controller, cluster):
        _nothing_is_left(controller, cluster, context.cluster.epoch)


def _may_wait(controller: ControllerProcess, cluster: Cluster) -> bool:
    """It was asked to stop, and its time is not over."""
    asked = controller.asked_to_stop
    return asked is not None and cluster.world.now_ms < asked.at_ms + asked.patience_ms


def _memory_is_new(controller: ControllerProcess, cluster: Cluster) -> None:
    """A controller that resigned after a foreign write of the epoch, and still holds `/controller`, leads again under
    the same epoch, without its memory of who owes what."""
    for incarnation in cluster.ledger.by_id.values():
        if incarnation.removed_in == controller.context.cluster.epoch:
            incarnation.removed_in = None


def _nothing_is_left(controller: ControllerProcess, cluster: Cluster, epoch: int) -> None:
    """Who could have waited leaves no cache that shows what it has removed."""
    for agent, incarnation in _still_shown(cluster, epoch):
        raise Violation(
            "leaving",
            f"{controller.name} was asked to stop and did not wait: {agent.name} shows {incarnation}"
            f" ({incarnation.name})",
        )


def _what_is_left_is_said(controller: ControllerProcess, cluster: Cluster, epoch: int) -> None:
    """Who could not wait names every topic that it has removed and that a cache shows; one whose removal was the write
    with the unknown outcome is still marked in its memory."""
    left = controller.context.unconfirmed_deletions
    for agent, incarnation in _still_shown(cluster, epoch):
        if not any(incarnation.name in said.get(agent.id, ()) for said in left):
            raise Violation(
                "leaving", f"{controller.name} has stopped and does not say: {agent.name} shows {incarnation}"
            )


def _still_shown(cluster: Cluster, epoch: int) -> Iterator[tuple[AgentProcess, Incarnation]]:
    """Agents with topics that were removed in this epoch and that their caches show."""
    for agent in cluster.agents.values():
        if not cluster.was_told(agent):
            continue
        for topic_id in agent.state.cache.topic_ids.values():
            incarnation = cluster.ledger.by_id.get(topic_id)
            if incarnation is not None and incarnation.removed_in == epoch and is_shown(agent.state.cache, incarnation):
                yield agent, incarnation


def ask_to_stop(cluster: Cluster, patience_ms: int) -> None:
    """SIGTERM for whoever leads; the process is started again later."""
    for controller in cluster.controllers:
        if controller.alive and controller.context.is_leading and controller.asked_to_stop is None:
            cluster.world.note(controller.name, "is asked to stop")
            controller.asked_to_stop = Request(cluster.world.now_ms, patience_ms)
            controller.post(ResignationRequested("SIGTERM", for_good=True, patience_ms=patience_ms))
            run = controller.run
            cluster.world.after(patience_ms + 1_000, lambda c=controller, r=run: _end(cluster, c, r))  # type: ignore[misc]


def _end(cluster: Cluster, controller: ControllerProcess, run: int) -> None:
    if controller.alive and controller.run == run:
        cluster.restart_later(controller)


def all_is_settled(contexts: Iterable[ControllerProcess]) -> None:
    """With every broker up and answering nobody owes anything."""
    for controller in contexts:
        for broker, owing_broker in controller.context.cluster.owed.items():
            raise Violation(
                "L1", f"broker {broker} still owes {controller.name} tombstones of {list(owing_broker.topics)}"
            )
