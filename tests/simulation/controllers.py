"""A controller process: the pure core, and around it what the runtime does, with every way of failing in between.

It can die between any two effects, be paused while the world goes on, lose its session and not know it, and lose the
reply to a write. Its memory goes with the process; nothing else of it is worth keeping.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from lethe.controller.core import controller, events
from lethe.controller.core.config import CoreConfig, Takeover
from lethe.controller.core.context import Context
from lethe.controller.core.effects import (
    CloseChannel,
    CommitOffsets,
    DisconnectBrokers,
    Effect,
    HoldRequest,
    OpenChannel,
    ProbeBrokers,
    ReadCache,
    ReadOffsets,
    ReadZnodes,
    Record,
    RenewSession,
    Reply,
    Send,
    SetTimer,
    ShowBrokers,
    Timer,
    WriteZnodes,
)
from lethe.controller.core.events import Event, Queueable
from lethe.protocol.journal import EventRecordType
from lethe.protocol.vocabulary import BrokerId, Endpoint
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Delete, MultiOutcome, Read, ReadOutcome, WatchFired
from lethe.protocol.zookeeper.packing import MultiPlan, PlannedMulti
from tests.simulation import belief, conduct, describe, silences, trash
from tests.simulation.ensemble import Client, Writer
from tests.simulation.ghosts import CacheReading
from tests.simulation.groups import GroupWork
from tests.simulation.network import Channel, Probing
from tests.simulation.requests import Desk
from tests.simulation.settings import Knowledge, Settings
from tests.simulation.world import FIRST_CONTROLLER, Action, Scheduled, Violation

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

ILLEGAL = "the state machine has no such transition"

_MERGED = (
    events.ControllerChanged,
    events.ControllerDeleted,
    events.BrokersChanged,
    events.BrokerModified,
    events.TopicsChanged,
    events.TopicDeletionsRequested,
    events.DeletionMarkerModified,
    events.ForgetsRequested,
    events.DeletionsPauseChanged,
    events.TopicRequestsChanged,
    events.ReassignmentsRequested,
    events.IsrChangesNotified,
    events.LogDirEventsNotified,
    events.PreferredElectionsRequested,
    events.ConfigurationChanged,
    events.TimerFired,
)

PARTITIONS_PER_EVENT = 50
"""So many partitions are looked at as fast as one event happens."""


class ControllerProcess:
    """One controller's machine: the process on it, which may be up, paused or down."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.id = BrokerId(FIRST_CONTROLLER + number)
        self.name = f"controller {self.id}"
        self.alive = False
        self.paused = False
        self.asked_to_stop: silences.Request | None = None
        self.context = self._fresh_context(cluster)
        self.client: Client | None = None
        self.channels: dict[BrokerId, Channel] = {}
        self.desk = Desk(cluster, self)
        self.started_with = Settings(cluster.mix.delete_topic_enable, cluster.mix.unclean)
        self.knowledge = Knowledge(self.started_with)
        self.turns = conduct.Turns()
        self.judged_at: tuple[int, int] = (-1, -1)
        """zxid and step at which memory was last compared with the znodes."""
        self.steps = 0
        self._looked_at: dict[str, int] = {}
        """Rule to the event of the world at which the whole memory was held against it."""
        self._cluster = cluster
        self._world = cluster.world
        self._queue: deque[Queueable] = deque()
        self._timers: dict[Timer, Scheduled] = {}
        self._run = 0
        self._woken = False
        self._held_back: list[Action] = []
        self._reading: dict[int, tuple[Read, ...]] = {}
        self.asked_at_removal: dict[str, tuple[BrokerId, ...]] = {}
        """Agents whose tombstone was on its way when the latest removal of the topic's znodes was decided, by topic."""

    def _fresh_context(self, cluster: Cluster) -> Context:
        mix = cluster.mix
        return Context(
            CoreConfig(
                self.id,
                mix.ibp,
                delete_topic_enable=mix.delete_topic_enable,
                unclean_leader_election_enable=mix.unclean,
                retry_min_ms=100,
                retry_max_ms=2_000,
                stand_back_off_min_ms=100,
                stand_back_off_max_ms=2_000,
                auto_leader_rebalance_enable=False,
                max_operations_per_group=mix.max_operations_per_group,
                partitions_per_slice=mix.partitions_per_slice,
                list_pause_us=mix.list_pause_us,
                tombstone_timeout_ms=mix.tombstone_timeout_ms,
                offline_replicas=mix.offline_replicas,
                trash_freeze_ms=mix.trash_freeze_ms,
                grace=mix.grace,
                endpoints=(Endpoint("PLAINTEXT", "controller", self.id),) if mix.advertised else (),
                takeover=Takeover.ALWAYS if mix.insists else Takeover.NEVER,
                takeover_grace_ms=200,
                takeover_interval_ms=300,
                powerless_after_ms=200,
                silent_after_ms=1_000,
                resign_refused_ms=500,
                resign_silent_ms=5_000,
                preflight_back_off_max_ms=1_000,
            )
        )

    # --- the process -----------------------------------------------------------------------------------------------

    @property
    def run(self) -> int:
        """Which run of the process it is."""
        return self._run

    def unread_metadata_answers(self) -> frozenset[int]:
        """Requests whose UpdateMetadata answers wait to be handled."""
        return frozenset(
            each.request_id for each in self._queue if isinstance(each, events.UpdateMetadataResponseReceived)
        )

    def start(self) -> None:
        """Start it; nothing where it is up."""
        if self.alive:
            return
        self._world.note(self.name, "starts")
        self.alive, self.paused = True, False
        self.asked_to_stop = None
        self._run += 1
        self.context = self._fresh_context(self._cluster)
        self.knowledge = Knowledge(self.started_with)
        self._open_session()

    def crash(self) -> None:
        """Memory is lost; the session expires at once or in its time."""
        if not self.alive:
            return
        self._world.note(self.name, "crashes")
        self.alive, self.paused = False, False
        self._run += 1
        self._drop_everything()
        self._held_back.clear()
        timeout_ms = self._cluster.mix.session_timeout_ms
        if self.client is not None:
            self.client.abandon(0 if self._world.chance(0.2) else self._world.between(0, timeout_ms))
        self.client = None
        self.context = self._fresh_context(self._cluster)

    def pause(self, for_ms: int) -> None:
        """It does nothing for a while; its session may expire meanwhile, which it learns some time after."""
        if not self.alive or self.paused:
            return
        self._world.note(self.name, f"is paused for {for_ms} ms")
        self.paused = True
        client, run = self.client, self._run
        timeout_ms = self._cluster.mix.session_timeout_ms
        if client is not None and for_ms > timeout_ms:
            believing_ms = for_ms - timeout_ms + self._world.between(0, 300)
            self._world.after(timeout_ms, lambda: client.lose(believing_ms))
        self._world.after(for_ms, lambda: self._resume(run))

    def _resume(self, run: int) -> None:
        if run != self._run or not self.paused:
            return
        self._world.note(self.name, "goes on")
        self.paused = False
        held_back, self._held_back = self._held_back, []
        for action in held_back:
            action()
        for channel in self.channels.values():
            channel.next()
        self._wake()

    def when_resumed(self, action: Action) -> None:
        """Do this when the process goes on; a process that dies instead never does it."""
        self._held_back.append(action)

    def _drop_everything(self) -> None:
        self.desk.die()
        self._queue.clear()
        self._reading.clear()
        for scheduled in self._timers.values():
            scheduled.cancel()
        self._timers.clear()
        for channel in self.channels.values():
            channel.close()
        self.channels.clear()

    # --- the session -----------------------------------------------------------------------------------------------

    def _open_session(self) -> None:
        run = self._run
        self._world.after(self._world.between(*self._cluster.mix.zookeeper_ms), lambda: self._connect(run))

    def _connect(self, run: int) -> None:
        if run != self._run:
            return
        if self.paused:
            self.when_resumed(lambda: self._connect(run))
            return
        client = self.client = self._cluster.ensemble.connect(self.name, self._watch, self._lost)
        self.post(events.SessionEstablished(client.session, self._world.random.randbytes(32)))

    def _watch(self, watch: WatchFired) -> None:
        event = events.from_watch(watch)
        if event is not None:
            self.post(event)

    def _lost(self, why: str) -> None:
        if self.paused:
            self.when_resumed(lambda: self._lost(why))
            return
        self._world.note(self.name, f"learns that its session is lost: {why}")
        self.client = None
        dropped, self._queue = self._queue, deque()
        for event in dropped:
            if isinstance(event, events.BrokerRequested | events.ClientRequested):
                self.desk.dropped(event)
        self._step(events.SessionLost(why))
        if self.alive:
            self._open_session()

    def _renew(self, reason: str) -> None:
        client, run = self.client, self._run
        if client is not None:
            client.close()
        self.client = None

        def lost() -> None:
            if run == self._run:
                self._lost(reason)

        self._world.after(0, lost)

    # --- the queue -------------------------------------------------------------------------------------------------

    def post(self, event: Queueable) -> None:
        """Queue an event; a watch or timer that waits already is not queued again."""
        if not self.alive or (isinstance(event, _MERGED) and event in self._queue):
            return
        if isinstance(event, events.TopicsModified):
            waiting = next((e for e in self._queue if isinstance(e, events.TopicsModified)), None)
            if waiting is not None:
                topics = tuple(dict.fromkeys(waiting.topics + event.topics))
                self._queue[self._queue.index(waiting)] = events.TopicsModified(topics)
                return
        self._queue.append(event)
        self._wake()

    @property
    def is_idle(self) -> bool:
        """Up, with a living session, nothing to do and nothing outstanding at ZooKeeper."""
        return (
            self.alive
            and not self.paused
            and not self._queue
            and not self.context.awaiting_result
            and not self.context.cluster.background
            and self.client is not None
            and self.client.is_idle
        )

    def may_look_at_all(self, rule: str) -> bool:
        """In a small cluster always. In a large one the whole memory is looked at so seldom that it costs about as much
        as what happens meanwhile: otherwise a run would be quadratic in the partitions."""
        cluster = self.context.cluster
        known = cluster.partitions_with_leader_and_isr + sum(cluster.doomed_replicas.values())
        wait = known // PARTITIONS_PER_EVENT
        if wait and self._world.events < self._looked_at.get(rule, 0) + wait:
            return False
        self._looked_at[rule] = self._world.events
        return True

    def _wake(self) -> None:
        if self._woken or not self._queue or self.paused or self.context.awaiting_result:
            return
        self._woken = True
        self._world.after(self._world.between(0, 2), self._consume)

    def _consume(self) -> None:
        self._woken = False
        if self.alive and not self.paused and self._queue and not self.context.awaiting_result:
            self._step(self._queue.popleft())

    def _step(self, event: Event) -> None:
        self.steps += 1
        if isinstance(event, events.ZnodesRead):
            self.knowledge = self.knowledge.having_read(
                self.id, self.context.cluster.epoch, self._reading.pop(event.id), event.outcomes
            )
        queued_before = self.context.cluster.deletions.copy()
        change_of_term = silences.term_may_change(self, self._cluster)
        effects = controller.step(self.context, event, self._world.now_ms)
        change_of_term(event)
        self._world.note(self.name, f"{_described(event)}: {len(effects)} effects")
        conduct.queued_is_allowed(self._cluster, self, queued_before)
        self._perform(effects)
        if self.alive:
            if self.may_look_at_all("context"):
                belief.context_is_sound(self)
            self._wake()

    def hear(self, event: events.CacheRead | events.OffsetsRead | events.OffsetsCommitted, run: int) -> None:
        """What a broker was asked over a connection of its own; nobody hears of it in another run of the process."""
        if run != self._run:
            return
        if self.paused:
            self.when_resumed(lambda: self.hear(event, run))
            return
        self.post(event)

    def result(self, event: events.Result, run: int) -> None:
        if run != self._run:
            return
        if self.paused:
            self.when_resumed(lambda: self.result(event, run))
            return
        self._step(event)

    # --- effects ---------------------------------------------------------------------------------------------------

    def _perform(self, effects: list[Effect]) -> None:
        crash_at = -1
        if self._world.chance(self._cluster.mix.p_controller_crash):
            crash_at = self._world.between(0, len(effects))
        for index, effect in enumerate(effects):
            if index == crash_at:
                break
            self._perform_one(effect)
        if crash_at >= 0:
            self._cluster.restart_later(self)

    def _perform_one(self, effect: Effect) -> None:
        conduct.effect_is_allowed(self._cluster, self, effect)
        match effect:
            case Send():
                self._world.note(self.name, lambda: f"to {effect.broker}: {describe.request(effect.request)}")
                channel = self.channels.get(effect.broker)
                if channel is None or channel.effect.broker_epoch != effect.broker_epoch:
                    raise Violation("channel", f"{self.name} has no channel to broker {effect.broker}, and sends to it")
                trash.deletions_ordered(self._cluster, self, effect)
                channel.put(effect)
            case Record(record=record):
                if record.type is EventRecordType.REFUSAL and record.data.get("why") == ILLEGAL:
                    raise Violation("transition", f"{self.name}: {record.subject} may not go {record.data['what']}")
            case ReadZnodes(id=number, reads=reads):
                self._read(number, reads)
            case WriteZnodes():
                self._write(effect)
            case ProbeBrokers():
                Probing(self._cluster, self, effect, self._run).start()
            case OpenChannel(broker=broker):
                self._close(broker)
                self.channels[broker] = Channel(self._cluster, self, effect)
            case CloseChannel(broker=broker):
                self._close(broker)
            case SetTimer(timer=timer, at_ms=at_ms):
                self._set_timer(timer, at_ms)
            case ReadCache():
                CacheReading(self._cluster, self, effect, self._run).start()
            case ReadOffsets() | CommitOffsets():
                GroupWork(self._cluster, self, effect, self._run).start()
            case Reply():
                self.desk.reply(effect)
            case HoldRequest():
                self.desk.hold(effect)
            case DisconnectBrokers() | ShowBrokers():
                pass
            case RenewSession(reason=reason):
                self._renew(reason)

    def _read(self, number: int, reads: tuple[Read, ...]) -> None:
        run = self._run
        self._reading[number] = reads

        def done(outcomes: tuple[ReadOutcome, ...]) -> None:
            self.result(events.ZnodesRead(number, outcomes), run)

        if self.client is not None:
            self.client.read(reads, done)

    def _write(self, effect: WriteZnodes) -> None:
        mix = self._cluster.mix
        plan = MultiPlan(effect.groups, effect.fence, max_operations=mix.max_operations_per_multi)
        self._note_asked(effect)
        deliver = self._posted if effect.in_background else self.result
        _Writing(self, effect.id, plan, mix.multis_in_flight, self._run, deliver).go_on()

    def _note_asked(self, effect: WriteZnodes) -> None:
        """Note, for each topic that the write removes znodes of, which agents have its tombstone on its way. Each write
        counts for itself, also the last one of a topic that does not fit into one."""
        deleted = (op.path for group in effect.groups for op in group if isinstance(op, Delete))
        below = f"{paths.BROKER_TOPICS}/"
        names = dict.fromkeys(path.removeprefix(below).split("/", 1)[0] for path in deleted if path.startswith(below))
        living = self._cluster.ledger.living
        asked: dict[str, list[BrokerId]] = {name: [] for name in names if name in living}
        unread = self.unread_metadata_answers() if asked else ()
        for broker, channel in self.channels.items() if asked else ():
            if held := channel.tombstones_held(unread):
                for name, brokers in asked.items():
                    if any((name, living[name].topic_id) in topics for topics in held):
                        brokers.append(broker)
        self.asked_at_removal.update({name: tuple(brokers) for name, brokers in asked.items()})

    def _posted(self, result: events.ZnodesWritten, run: int) -> None:
        """The end of a write in the background; nobody hears of it in another run of the process."""
        if run == self._run:
            self.post(result)

    def _close(self, broker: BrokerId) -> None:
        channel = self.channels.pop(broker, None)
        if channel is not None:
            channel.close()

    def _set_timer(self, timer: Timer, at_ms: int) -> None:
        before = self._timers.pop(timer, None)
        if before is not None:
            before.cancel()
        run = self._run

        def fire() -> None:
            if run == self._run:
                self._timers.pop(timer, None)
                self.post(events.TimerFired(timer))

        self._timers[timer] = self._world.after(max(0, at_ms - self._world.now_ms), fire)


class _Writing:
    """One WriteZnodes on its way: a few multis in flight, the next ones after them."""

    def __init__(
        self,
        owner: ControllerProcess,
        number: int,
        plan: MultiPlan,
        in_flight: int,
        run: int,
        deliver: Callable[[events.ZnodesWritten, int], None],
    ) -> None:
        self._owner = owner
        self._deliver = deliver
        self._number = number
        self._plan = plan
        self._room = in_flight
        self._run = run
        self._client = owner.client
        self._writer = Writer(owner.name, owner.context.cluster.epoch_version, owner.knowledge)

    def go_on(self) -> None:
        """Send what there is room for."""
        client = self._client
        while client is not None and self._room and (multi := self._plan.next_multi()) is not None:
            self._room -= 1
            client.multi(multi.operations, self._writer, self._settling(multi))

    def _settling(self, multi: PlannedMulti) -> Callable[[MultiOutcome], None]:
        return lambda outcome: self._settle(multi, outcome)

    def _settle(self, multi: PlannedMulti, outcome: MultiOutcome) -> None:
        if self._owner.paused:
            self._owner.when_resumed(lambda: self._settle(multi, outcome))
            return
        plan = self._plan
        self._room += 1
        plan.settle(multi, outcome)
        self.go_on()
        if plan.is_done:
            self._deliver(events.ZnodesWritten(self._number, plan.outcomes, plan.controller_moved), self._run)


def _described(event: Event) -> str:
    match event:
        case (
            events.LeaderAndIsrResponseReceived()
            | events.UpdateMetadataResponseReceived()
            | events.StopReplicaResponseReceived()
            | events.LogDirsDescribed()
        ):
            return f"{type(event).__name__} {event.broker} {event.request_id} {event.response.error}"
        case _:
            return type(event).__name__
