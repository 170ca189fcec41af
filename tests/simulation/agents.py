"""A broker agent: the pure core, its disk, its registration, and every way of failing in between.

It registers before it listens, as Kafka's brokers do. It can die between any two effects and in the middle of a list of
disk operations; the disk stays as it is then. It can lose its session and go on serving, and it registers again under a
new epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from lethe.broker.core import agent
from lethe.broker.core.effects import (
    AskControllerEpoch,
    AskTopicIds,
    CreateReplica,
    DirectoryRef,
    DiskOperation,
    Effect,
    Halt,
    NotifyLogDirFailure,
    PerformDisk,
    ProposeIsr,
    Record,
    Refuse,
    RemoveDirectories,
    Reply,
    SetTimer,
    SettleDebts,
)
from lethe.broker.core.inputs import (
    BrokerRegistered,
    ControllerEpochReceived,
    ControllerEpochUnavailable,
    ControlReceived,
    DirectoriesRemoved,
    DiskOutcome,
    DiskPerformed,
    Input,
    IsrOutcome,
    IsrProposed,
    LogDirFailed,
    TimerFired,
    TopicIdAnswer,
    TopicIdsReceived,
    TopicIdUnavailable,
)
from lethe.broker.core.isr_update_paths import alter_partition_request, judge_answer, unanswered
from lethe.broker.core.queries import answer_describe_log_dirs
from lethe.broker.core.state import AgentState, Settings
from lethe.protocol.kafka.control import Addressed, ControlResponse
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import DescribeLogDirsRequest, DescribeLogDirsResponse
from lethe.protocol.kafka.to_controller import AlterPartitionResponse, ControllerResponse
from lethe.protocol.vocabulary import Broker, BrokerEpoch, BrokerId, Endpoint
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Data, GetData, MultiDone, MultiFailed, MultiOutcome, ReadOutcome
from tests.simulation import debts, departures, describe, invariants, silences
from tests.simulation.disk import Disk, LogDir
from tests.simulation.ensemble import Client, Writer
from tests.simulation.invariants import Promise
from tests.simulation.isr_changes import IsrProposal
from tests.simulation.missed import MissedDeletions
from tests.simulation.world import Scheduled
from tests.simulation.znodes_read import controller_epoch_answer, topic_id_answer

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

Answer = Callable[[ControlResponse | None], None]


REFUSED_LOOKS: Final = (
    DescribeLogDirsResponse(()),
    DescribeLogDirsResponse((), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    None,
)
"""No right to ask, before Kafka 2.7 and since; and a connection that is closed instead."""


class AgentProcess:
    """One broker's machine: its disk, and the process on it, which may be up or down."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.id = BrokerId(number)
        self.name = f"agent {number}"
        self.alive = False
        self.is_listening = False
        self.is_silent = False
        """It keeps its session, and what it is sent is lost."""
        self.p_refuses = 0.0
        """How often it answers tombstones with an error, and does not take them in."""
        self.client: Client | None = None
        self.disk = Disk({f"/{number}{letter}": LogDir() for letter in "abc"[: cluster.mix.log_dirs]})
        self.promise = Promise()
        """What it must not go back behind: the epochs that it has seen."""
        self._cluster = cluster
        self._world = cluster.world
        self._run = 0
        self.state = self._fresh_state()
        self._tokens: dict[int, Answer] = {}
        self._last_token = 0
        self._timer: Scheduled | None = None
        self._missed: MissedDeletions | None = None

    def _fresh_state(self) -> AgentState:
        state = AgentState(Settings(self.id, self._cluster.mix.delete_delay_ms, f"{self.id}/{self._run}"))
        state.cache = silences.watched_cache(self._cluster, self)
        return state

    @property
    def run(self) -> int:
        """Which run of the process it is."""
        return self._run

    def chance(self, probability: float) -> bool:
        return self._world.chance(probability)

    # --- the process -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start it; nothing where it is up."""
        if self.alive:
            return
        self._world.note(self.name, "starts")
        self.alive = True
        self._run += 1
        self.promise = Promise()
        self.state = self._fresh_state()
        self._missed = MissedDeletions(self) if debts.agents_pay(self._world.seed) else None
        self.feed(self.disk.inventory())
        if self.alive:
            self._open_session()

    def crash(self, *, session_expires_after_ms: int) -> None:
        """Memory is lost, the disk is kept."""
        client = self._end("crashes")
        if client is not None:
            client.abandon(session_expires_after_ms)

    def stop(self) -> None:
        """As it should be: the session is closed too."""
        client = self._end("stops")
        if client is not None:
            client.close()

    def _end(self, how: str) -> Client | None:
        if not self.alive:
            return None
        self._world.note(self.name, how)
        departures.orders_lost(self._cluster, self.id)
        self.alive = self.is_listening = False
        self._run += 1
        self._tokens.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        client, self.client = self.client, None
        return client

    # --- registration ----------------------------------------------------------------------------------------------

    def _open_session(self) -> None:
        run = self._run
        self._world.after(self._world.between(*self._cluster.mix.zookeeper_ms), lambda: self._connect(run))

    def _connect(self, run: int) -> None:
        if run == self._run and self.client is None:
            client = self.client = self._cluster.ensemble.connect(self.name, lambda _: None, self._lost)
            if self._missed is None:
                self._register(client)
            else:
                self._missed.catch_up(client, lambda: self._register(client) if client is self.client else None)

    def _register(self, client: Client) -> None:
        endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 9092 + self.id)
        znode = Broker(self.id, BrokerEpoch(-1), (endpoint,))
        data = znodes.encode_broker(znode, timestamp_ms=self._world.now_ms)
        operation = Create(paths.broker_id(self.id), data, ephemeral=True)
        client.multi((operation,), Writer(self.name), lambda outcome: self._registered(client, outcome))

    def _registered(self, client: Client, outcome: MultiOutcome) -> None:
        if client is not self.client:
            return
        match outcome:
            case MultiDone(zxid=zxid):
                self._is_registered(BrokerEpoch(zxid))
            case MultiFailed():
                # The session of the run before has not expired yet.
                self._world.after(100, lambda: self._register(client) if client is self.client else None)
            case _:
                client.read((GetData(paths.broker_id(self.id)),), lambda found: self._looked_up(client, found))

    def _looked_up(self, client: Client, outcomes: tuple[ReadOutcome, ...]) -> None:
        if client is not self.client:
            return
        found = outcomes[0]
        if isinstance(found, Data) and found.stat.ephemeral_owner == client.session:
            self._is_registered(BrokerEpoch(found.stat.czxid))
        else:
            self._register(client)

    def _is_registered(self, epoch: BrokerEpoch) -> None:
        self._world.note(self.name, f"is registered under epoch {epoch}")
        self.promise.broker_epoch = epoch
        self.feed(BrokerRegistered(epoch))
        run = self._run
        self._world.after(self._world.between(0, 50), lambda: self._listen(run))

    def _listen(self, run: int) -> None:
        if run == self._run:
            self.is_listening = True

    def _lost(self, why: str) -> None:
        self._world.note(self.name, f"learns that its session is lost: {why}")
        self.client = None
        self._open_session()

    # --- requests --------------------------------------------------------------------------------------------------

    def receive(self, addressed: Addressed, answer: Answer) -> None:
        """A control request has arrived; `answer` is called with None where the connection is closed instead."""
        self._last_token += 1
        token = self._last_token
        promise = self.promise
        stale = promise.why_stale(addressed)

        def judged(response: ControlResponse | None) -> None:
            if response is not None:
                if why := stale or promise.why_deposed(addressed):
                    invariants.s5_stale_order_is_refused(self.name, why, addressed, response)
                promise.note(addressed, response)
            answer(response)

        self._tokens[token] = judged
        self.feed(ControlReceived(token, addressed))

    def describe_log_dirs(self, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse | None:
        """What the process says of its log directories; None where it closes the connection instead. Now and then it
        refuses, or answers an error."""
        if self._world.chance(self._cluster.mix.p_look_refused):
            return REFUSED_LOOKS[self._world.between(0, len(REFUSED_LOOKS) - 1)]
        return answer_describe_log_dirs(self.state, request, {})

    def log_dir_failed(self, log_dir: str, error: str) -> None:
        """The log directory is found broken outside of any operation."""
        if self.alive:
            self.feed(LogDirFailed(log_dir, error))

    def feed(self, happened: Input) -> None:
        """One step of the core, and what comes of it."""
        effects = agent.step(self.state, happened, self._world.now_ms)
        self._world.note(self.name, f"{type(happened).__name__}: {len(effects)} effects")
        crash_at = -1
        if self._world.chance(self._cluster.mix.p_agent_crash):
            crash_at = self._world.between(0, len(effects))
        for index, effect in enumerate(effects):
            if index == crash_at or not self.alive:
                break
            self._perform(effect)
        if self.alive:
            invariants.s3_hosted_bytes_are_its_own(self)
        if crash_at >= 0:
            self._cluster.restart_later(self)

    # --- effects ---------------------------------------------------------------------------------------------------

    def _perform(self, effect: Effect) -> None:
        mix, run = self._cluster.mix, self._run
        delay_ms = self._world.between(*mix.disk_ms)
        match effect:
            case Reply(token, response):
                self._world.note(self.name, lambda: f"answers {describe.response(response)}")
                departures.answered(self._cluster, self.id, response)
                self._tokens.pop(token)(response)
            case Refuse(token):
                self._tokens.pop(token)(None)
            case PerformDisk(operations):
                self._world.after(delay_ms, lambda: self._on_disk(operations, run))
            case RemoveDirectories(directories):
                self._world.after(delay_ms, lambda: self._remove(directories, run))
            case AskTopicIds(topics):
                self._ask(topics, run)
            case AskControllerEpoch():
                self._ask_controller_epoch(run)
            case ProposeIsr():
                self._propose(effect, run)
            case SettleDebts(settled):
                assert self._missed is not None
                self._missed.note_settled(settled)
            case SetTimer(at_ms):
                self._set_timer(at_ms, run)
            case NotifyLogDirFailure():
                if self.client is not None:
                    path = paths.log_dir_event_notification()
                    data = znodes.encode_log_dir_event(self.id)
                    self.client.multi((Create(path, data, sequential=True),), Writer(self.name), lambda _: None)
            case Halt():
                self._cluster.restart_later(self)
            case Record(record) if "several directories" in str(record.data.get("why")):
                self._world.after(self._world.between(1_000, 5_000), lambda: self._mend_duplicates(run))
            case Record():
                pass

    def _mend_duplicates(self, run: int) -> None:
        """Somebody has read what the agent says of directories that nobody can tell from each other."""
        if run == self._run:
            self._world.note(self.name, "has directories moved away that it cannot tell from each other")
            self._cluster.restart_later(self)
            self.disk.repair()

    def _on_disk(self, operations: tuple[DiskOperation, ...], run: int) -> None:
        if run != self._run:
            return
        world, mix = self._world, self._cluster.mix
        crash_at = world.between(0, len(operations)) if world.chance(mix.p_agent_crash) else -1
        outcomes: list[DiskOutcome] = []
        for index, operation in enumerate(operations):
            if index == crash_at:
                break
            invariants.disk_operation_is_allowed(self._cluster, self, operation)
            outcome = self.disk.perform(operation, refuse=world.chance(mix.p_disk_refusal))
            world.note(self.name, partial(_performed, operation, outcome))
            outcomes.append(outcome)
            if isinstance(operation, CreateReplica) and outcome.error is None:
                departures.made(self._cluster, self, operation)
        if crash_at >= 0:
            self._cluster.restart_later(self)
        else:
            self.feed(DiskPerformed(tuple(outcomes)))

    def _remove(self, directories: tuple[DirectoryRef, ...], run: int) -> None:
        if run != self._run:
            return
        outcomes = []
        for ref in directories:
            invariants.removal_is_allowed(self._cluster, self, ref)
            outcomes.append(self.disk.remove(ref))
            self._world.note(self.name, f"removes {ref}: {outcomes[-1].error}")
        self.feed(DirectoriesRemoved(tuple(outcomes)))

    def _ask(self, topics: tuple[str, ...], run: int) -> None:
        def then(outcomes: tuple[ReadOutcome, ...]) -> None:
            self._answer_ids(tuple(topic_id_answer(t, o) for t, o in zip(topics, outcomes, strict=True)), run)

        def otherwise(why: str) -> None:
            self._answer_ids(tuple(TopicIdUnavailable(why) for _ in topics), run)

        self._read(tuple(GetData(paths.topic(topic)) for topic in topics), then, otherwise)

    def _ask_controller_epoch(self, run: int) -> None:
        def answered(answer: ControllerEpochReceived) -> None:
            if run == self._run:
                if not isinstance(answer.answer, ControllerEpochUnavailable):
                    self.promise.named_epoch = max(self.promise.named_epoch, answer.answer)
                self.feed(answer)

        self._read(
            (GetData(paths.controller_epoch()), GetData(paths.controller())),
            lambda outcomes: answered(controller_epoch_answer(*outcomes)),
            lambda why: answered(ControllerEpochReceived(ControllerEpochUnavailable(why))),
        )

    def _read(
        self,
        reads: tuple[GetData, ...],
        then: Callable[[tuple[ReadOutcome, ...]], None],
        otherwise: Callable[[str], None],
    ) -> None:
        """Ask ZooKeeper; one of the two is called, once."""
        client = self.client
        if client is None or not client.connected:
            self._world.after(1, lambda: otherwise("no connection to ZooKeeper"))
            return
        answered: list[None] = []

        def done(outcomes: tuple[ReadOutcome, ...]) -> None:
            if not answered:
                answered.append(None)
                then(outcomes)

        def give_up() -> None:
            if not answered:
                answered.append(None)
                otherwise("no answer in time")

        client.read(reads, done)
        self._world.after(self._cluster.mix.session_timeout_ms, give_up)

    def _propose(self, proposal: ProposeIsr, run: int) -> None:
        """Through the controller or ZooKeeper; nobody hears of a proposal whose session is lost on the way."""
        told: list[None] = []

        def then(outcomes: tuple[IsrOutcome, ...]) -> None:
            if not told and run == self._run:
                told.append(None)
                self._world.note(self.name, f"proposed {describe.isr(proposal.changes, outcomes)}")
                self.feed(IsrProposed(outcomes))

        if self._cluster.mix.asks_controller:
            self._ask_controller(proposal, then)
            return
        client = self.client
        if client is None or not client.connected:
            nobody = unanswered(proposal.changes, "no connection to ZooKeeper")
            self._world.after(1, lambda: then(nobody))
            return
        on_its_way = IsrProposal(client, self.id, self.name, proposal, then)
        on_its_way.start()
        self._world.after(self._cluster.mix.session_timeout_ms, lambda: then(on_its_way.give_up()))

    def _ask_controller(self, proposal: ProposeIsr, then: Callable[[tuple[IsrOutcome, ...]], None]) -> None:
        def answered(response: ControllerResponse) -> None:
            assert isinstance(response, AlterPartitionResponse)
            then(judge_answer(proposal.changes, self.id, response))

        silence = unanswered(proposal.changes, "no answer in time")
        self._world.after(self._cluster.mix.request_timeout_ms, lambda: then(silence))
        controller = next((c for c in self._cluster.controllers if c.id == self.state.cache.controller_id), None)
        if controller is not None:
            request = alter_partition_request(proposal.changes, self.id, proposal.broker_epoch)
            controller.desk.ask(request, answered)

    def _answer_ids(self, answers: tuple[TopicIdAnswer, ...], run: int) -> None:
        if run == self._run:
            self.feed(TopicIdsReceived(answers))

    def _set_timer(self, at_ms: int, run: int) -> None:
        if self._timer is not None:
            self._timer.cancel()

        def fire() -> None:
            if run == self._run:
                self.feed(TimerFired())

        self._timer = self._world.after(max(0, at_ms - self._world.now_ms), fire)


def _performed(operation: DiskOperation, outcome: DiskOutcome) -> str:
    return f"{describe.on_disk(operation)}: {outcome.error}"
