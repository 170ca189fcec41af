"""Everything that takes part in one run, and how to find it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from lethe.controller.core.config import DEFAULT_PARTITIONS_PER_SLICE, Takeover
from lethe.protocol.kafka.parts import DEFAULT_MAX_BYTES
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Delete, GetData, Operation, SetData
from tests.simulation import (
    alterers,
    belief,
    clients,
    conduct,
    debts,
    departures,
    forgetting,
    graces,
    invariants,
    trash,
)
from tests.simulation.agents import AgentProcess
from tests.simulation.authority import Authority
from tests.simulation.controllers import ControllerProcess
from tests.simulation.ensemble import Ensemble, Writer
from tests.simulation.groups import Groups
from tests.simulation.ledger import Ledger, lasting
from tests.simulation.mix import DEFAULT_TOMBSTONE_TIMEOUT_MS, Mix, draw, without_faults
from tests.simulation.network import Link
from tests.simulation.settings import OF_ALL, Announcements, Knowledge, Said, says
from tests.simulation.shared_contents import SharedContents
from tests.simulation.trash import Retention
from tests.simulation.world import World, agent_ids, is_controller

P_INSISTS = 0.2
P_ADVERTISED = 0.2
P_SILENCES = 0.4
P_PARTS = 0.25
P_SLICES = 0.5
P_LIST_PAUSES = 0.25
P_PROTECTED = 0.25
P_PACED = 0.25


def _limit(random: Random) -> int:
    """How long topics wait for silent brokers, where brokers fall silent at all."""
    return random.choice((200, 1_000, 4_000)) if random.random() < P_SILENCES else DEFAULT_TOMBSTONE_TIMEOUT_MS


def _max_request_bytes(random: Random) -> int:
    """With the small ones most requests go in parts, of one partition or of a few."""
    return random.choice((1, 400, 700)) if random.random() < P_PARTS else DEFAULT_MAX_BYTES


def _partitions_per_slice(random: Random) -> int:
    """With the small ones each topic, or two, is a slice."""
    return random.choice((1, 3)) if random.random() < P_SLICES else DEFAULT_PARTITIONS_PER_SLICE


def _list_pause_us(random: Random) -> int:
    """For a topic as much as for thousands in a large cluster."""
    return random.choice((20_000, 300_000)) if random.random() < P_LIST_PAUSES else 0


class Cluster:
    """The world, ZooKeeper, controllers, agents, and the ledger of what really happened."""

    def __init__(self, world: World, mix: Mix | None = None) -> None:
        self.world = world
        # A chance of its own, so that the other seeds run as they did before there was such a thing.
        insists = Random(f"insists {world.seed}").random() < P_INSISTS
        advertised = Random(f"resident {world.seed}").random() < P_ADVERTISED
        limit_ms = _limit(Random(f"silences {world.seed}"))
        self.mix: Mix = mix or replace(
            draw(world.random),
            insists=insists,
            advertised=advertised,
            tombstone_timeout_ms=limit_ms,
            max_request_bytes=_max_request_bytes(Random(f"parts {world.seed}")),
            partitions_per_slice=_partitions_per_slice(Random(f"slices {world.seed}")),
            list_pause_us=_list_pause_us(Random(f"lists {world.seed}")),
        )
        for deed, odds in (("protect", P_PROTECTED), ("pace", P_PACED)):
            if mix is None and Random(f"{deed} {world.seed}").random() < odds:
                self.mix = replace(self.mix, theme_weights={**self.mix.theme_weights, deed: 3})
        if mix is None:
            offline_replicas, deeds = debts.drawn(world.seed)
            weights = {**self.mix.theme_weights, **deeds, **forgetting.drawn(world.seed), **clients.drawn(world.seed)}
            weights |= alterers.drawn(world.seed)
            self.mix = replace(self.mix, offline_replicas=offline_replicas, theme_weights=weights)
            self.mix = graces.drawn(world.seed, trash.drawn(world.seed, self.mix))
        self.ledger = Ledger()
        self.announcements = Announcements()
        self.forgetting = forgetting.ForgetBook(self)
        self.groups = Groups(self)
        self.retention = Retention(self)
        self.shared = SharedContents()
        self.ensemble = Ensemble(world, self.mix)
        self.ensemble.observer = self
        self.controllers = [ControllerProcess(self, number) for number in range(self.mix.controllers)]
        self.agents = {BrokerId(number): AgentProcess(self, number) for number in agent_ids(self.mix.agents)}
        self.authority = Authority(self)
        self.kept_away: dict[BrokerId, None] = {}
        """Brokers that nobody starts for now."""
        self._links: dict[tuple[BrokerId, BrokerId], Link] = {}
        world.after_event = self.judge

    # --- who is where ----------------------------------------------------------------------------------------------

    def link(self, controller: BrokerId, broker: BrokerId) -> Link:
        """The network between the two."""
        link = self._links.get((controller, broker))
        if link is None:
            link = self._links[controller, broker] = Link(self)
        return link

    @property
    def links(self) -> list[Link]:
        return list(self._links.values())

    def registered(self) -> dict[BrokerId, int]:
        """Broker to epoch, as registered in ZooKeeper."""
        model = self.ensemble.model
        found: dict[BrokerId, int] = {}
        for name in model.children(paths.BROKER_IDS):
            broker, node = paths.broker_named(name), model.node(f"{paths.BROKER_IDS}/{name}")
            if broker is not None and node is not None and not is_controller(broker):
                found[broker] = node.czxid
        return found

    @property
    def controller_epoch(self) -> int:
        """As ZooKeeper says."""
        node = self.ensemble.model.node(paths.CONTROLLER_EPOCH)
        return 0 if node is None else int(znodes.decode_controller_epoch(node.data))

    @property
    def is_paused(self) -> bool:
        """No deletion is to go on."""
        return self.ensemble.model.node(paths.DELETIONS_PAUSED) is not None

    def was_told(self, agent: AgentProcess, registered: Mapping[BrokerId, int] | None = None) -> bool:
        """Up, registered, and told of the cluster under the epoch of that registration."""
        found = self.registered() if registered is None else registered
        return agent.alive and found.get(agent.id) == agent.state.cache_epoch

    def says(self, controller: ControllerProcess) -> Said | None:
        """What the configuration says now to this controller, if that was announced."""
        mine = paths.config_broker(controller.id)
        if self.announcements.owed.keys() & {OF_ALL, mine.removeprefix("/config/")}:
            return None
        return self.written_for(controller)

    def written_for(self, controller: ControllerProcess) -> Said:
        """What the configuration says now to this controller, announced or not."""
        look = self.ensemble.look
        return says(look(paths.config_broker_default()), look(paths.config_broker(controller.id)))

    def allows_unclean(self, controller: ControllerProcess, name: str) -> bool:
        """A leader of this topic may lack records, as all that is written says now."""
        config = paths.config_topic(name)
        return (
            Knowledge(controller.started_with, said=self.written_for(controller))
            .having_read(controller.id, 0, (GetData(config),), (self.ensemble.look(config),))
            .allows_unclean(name)
        )

    # --- judging ---------------------------------------------------------------------------------------------------

    def applied(self, writer: Writer, operations: Sequence[Operation], epoch_version_before: int) -> None:
        """A write took effect: judge it, and book it."""
        operations = lasting(operations)
        invariants.writes_are_allowed(self, writer, operations, epoch_version_before)
        if any(isinstance(each, Create) and each.path == paths.controller() for each in operations):
            self.authority.election_is_allowed(writer.name)
            departures.orders_lost(self)
        for operation in operations:
            if isinstance(operation, Delete) and (name := paths.topic_of(operation.path)) is not None:
                self.ledger.living[name].removed_in = self.controller_epoch if writer.is_controller else None
            self.ledger.book(writer.name, operation, self.ensemble.model.zxid, by_controller=writer.is_controller)
            self.forgetting.book(operation)
            self.announcements.book(operation)
            conduct.marker_written(self, writer, operation)
            self.retention.book(operation)
            if isinstance(operation, SetData) and (name := paths.topic_of(operation.path)) is not None:
                departures.after_write(self, writer, self.ledger.living[name])
        self.ledger.configs.book(writer.name, operations, by_controller=writer.is_controller)
        invariants.s4_markers_outlive_their_topics(self, writer, operations)
        if writer.is_controller:
            self.ledger.book_cancellations(operations)

    def judge(self) -> None:
        """After every event."""
        for controller in self.controllers:
            if not controller.is_idle:
                continue
            controller.desk.nobody_is_forgotten()
            if controller.may_look_at_all("S8"):
                belief.s8_memory_equals_znodes(self, controller)

    # --- down and up again -----------------------------------------------------------------------------------------

    def restart_later(self, process: ControllerProcess | AgentProcess, after_ms: int | None = None) -> None:
        """The process dies now and is started again after a while."""
        world = self.world
        if isinstance(process, ControllerProcess):
            process.crash()
        else:
            timeout_ms = self.mix.session_timeout_ms
            at_once = world.chance(0.3)
            process.crash(session_expires_after_ms=0 if at_once else world.between(0, timeout_ms))
        wait_ms = world.between(10, 4_000) if after_ms is None else after_ms

        def start() -> None:
            if process.id not in self.kept_away:
                process.start()

        world.after(wait_ms, start)

    def end_faults(self) -> None:
        """From now on nothing goes wrong by chance, and whatever is cut is joined again."""
        self.mix = self.ensemble.mix = without_faults(self.mix)
        for controller in self.controllers:
            controller.context.config = replace(controller.context.config, takeover=Takeover.NEVER)
        for link in self._links.values():
            link.is_cut = False
        for agent in self.agents.values():
            agent.is_silent, agent.p_refuses = False, 0.0
