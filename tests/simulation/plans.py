"""People who delete by a plan: they look, think, look again, and have all topics of the plan marked, or none.

The commands' own code does it, over a session that takes its time: other things happen between its questions.
What it may mark is judged by the incarnations that lived when the plan was made.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Sequence
from random import Random
from typing import TYPE_CHECKING, NamedTuple, cast

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin import deletion_plan, deletion_plan_look
from lethe.admin.deletion_plan import PlannedPartition, PlannedTopic, TopicDeletionPlan
from lethe.admin.outcomes import Outcome
from lethe.admin.refusal import Refusal
from lethe.protocol.vocabulary import topic_id_to_text
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, MultiDone, MultiOutcome, Operation, Read, ReadOutcome
from lethe.protocol.zookeeper.znodes import DeletionOrders, decode_deletion_marker
from tests.simulation.ensemble import Writer
from tests.simulation.ledger import Incarnation
from tests.simulation.trash_people import may_be_deleted
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

THINKING_MS = (0, 1_500)
STEP_MS = (0, 1_200)


class _Wait:
    """Something else may happen here."""

    def __await__(self) -> Generator[None]:
        yield


class _Marked(NamedTuple):
    """A marker that was created: which incarnation lived then, which one the marker names, and whether the znode that
    it names was there: what was in the trash in between has another one."""

    living: Incarnation | None
    named: Incarnation | None
    has_same_znode: bool


class SlowSession:
    """What a command needs of a session; each question takes effect after a while."""

    def __init__(self, cluster: Cluster) -> None:
        self._ensemble = cluster.ensemble
        self._session = cluster.ensemble.model.open_session()
        self.marked: dict[str, _Marked] = {}
        self.ledger = cluster.ledger

    async def read(self, reads: Sequence[Read]) -> list[ReadOutcome]:
        await _Wait()
        return [self._ensemble.model.read(self._session, each) for each in reads]

    async def multi(self, operations: Sequence[Operation]) -> MultiOutcome:
        await _Wait()
        outcome = self._ensemble.apply(self._session, Writer("planner"), operations)
        for operation in operations if isinstance(outcome, MultiDone) else ():
            name = paths.deleted_topic_of(operation.path)
            if name is not None and isinstance(operation, Create):
                living = self.ledger.living.get(name)
                czxid = decode_deletion_marker(operation.data).topic_czxid
                named = living if czxid is None else self.ledger.by_zxid.get((czxid, name))
                node = self._ensemble.model.node(paths.topic(name))
                self.marked[name] = _Marked(living, named, czxid is None or (node is not None and node.czxid == czxid))
        return outcome

    async def ensure_path(self, path: str) -> None:
        await _Wait()
        if self._ensemble.model.node(path) is None:
            self._ensemble.operate(Create(path, None))

    def close(self) -> None:
        self._ensemble.model.close_session(self._session)


class Planners:
    """What they do."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._random = Random(f"plans {cluster.world.seed}")

    def plan(self) -> None:
        """Plan the deletion of some topics, and carry it out after a while."""
        living = self._cluster.ledger.living
        names = [name for name in living if may_be_deleted(self._cluster.ledger, name)]
        chosen = sorted(self._random.sample(names, min(len(names), self._random.randint(1, 2))))
        if not chosen:
            return
        plan, meant = self._look(chosen), {name: living[name] for name in chosen}
        grace_ms = self._random.choice((None, None, 2_000))
        self._world.after(
            self._random.randint(*THINKING_MS), lambda: self._carry_out(plan, meant, DeletionOrders(grace_ms=grace_ms))
        )

    def _carry_out(self, plan: TopicDeletionPlan, meant: dict[str, Incarnation], orders: DeletionOrders) -> None:
        if self._cluster.mix.operator_weights:
            session = SlowSession(self._cluster)
            self._go_on(self._command(session, plan, orders), lambda outcomes: _judge(session, meant, outcomes))

    async def _command(
        self, session: SlowSession, plan: TopicDeletionPlan, orders: DeletionOrders
    ) -> list[Outcome] | None:
        """As `lethe topics delete --plan`; None where it refuses."""
        now = self._look([topic.topic for topic in plan.topics])
        try:
            deletion_plan.demand_unchanged(plan, now, allow_writes=True, accept_unseen=False)
            return await deletion_plan_look.mark_as_planned(cast(ZooKeeperSession, session), plan, orders)
        except Refusal:
            return None

    def _go_on(
        self,
        command: Coroutine[None, None, list[Outcome] | None],
        then: Callable[[list[Outcome] | None], None],
    ) -> None:
        if not self._cluster.mix.operator_weights:
            # From now on nobody does anything.
            command.close()
            return
        try:
            command.send(None)
        except StopIteration as end:
            then(end.value)
        else:
            self._world.after(self._random.randint(*STEP_MS), lambda: self._go_on(command, then))

    def _look(self, names: Sequence[str]) -> TopicDeletionPlan:
        topics = tuple(topic for name in names if (topic := self._planned(name)) is not None)
        return TopicDeletionPlan(None, 0, tuple(sorted(self._cluster.registered())), topics, (), (), ())

    def _planned(self, name: str) -> PlannedTopic | None:
        incarnation = self._cluster.ledger.living.get(name)
        node = self._cluster.ensemble.model.node(paths.topic(name))
        if incarnation is None or node is None or not incarnation.readable:
            return None
        topic_id = None if incarnation.topic_id is None else topic_id_to_text(incarnation.topic_id)
        partitions = (
            PlannedPartition(number, tuple(map(int, each.replicas)), None, None)
            for number, each in incarnation.assignments.items()
        )
        blockers = ("is marked for deletion",) if name in self._cluster.ledger.marked else ()
        return PlannedTopic(name, topic_id, node.czxid, tuple(partitions), None, None, (), blockers, ())


def _judge(session: SlowSession, meant: dict[str, Incarnation], outcomes: list[Outcome] | None) -> None:
    """All that the plan means is marked, and nothing else; or nothing.

    A topic may have been created again, or come back from the trash, between the last look and the marks. Then the
    marker names the znode that is meant, and the command says so, if the other one is still there."""
    session.close()
    problems = {each.name: each.problem for each in outcomes or ()}
    for name, (living, named, has_same_znode) in session.marked.items():
        if named is not meant[name]:
            raise Violation("plan", f"{named or name} was marked by a plan that means {meant[name]}")
        is_other = living is not meant[name] or not has_same_znode
        if is_other and session.ledger.living.get(name) is living and problems[name] is None:
            raise Violation("plan", f"{living} has the marker of {meant[name]}, and the command does not say so")
        if is_other:
            problems[name] = None
    is_done = outcomes is not None and not any(problems.values())
    if session.marked.keys() != (meant.keys() if is_done else set()):
        raise Violation("plan", f"{sorted(session.marked)} were marked by a plan of {sorted(meant)}: {outcomes}")
