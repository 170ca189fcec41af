"""An agent under random requests, crashes and failing directories: bytes stay with their incarnation, none is lost."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.broker.core.agent import step
from lethe.broker.core.effects import CreateReplica, FillReplica, ProposeIsr, QuarantineDirectory, RenameForDeletion
from lethe.broker.core.inputs import (
    BrokerRegistered,
    ControlReceived,
    IsrOutcome,
    IsrProposed,
    IsrVerdict,
    TopicAbsence,
    TopicIdAnswer,
)
from lethe.broker.core.replica import ReplicaState
from lethe.broker.core.state import AgentState
from lethe.protocol.journal_schema import schema_problems
from lethe.protocol.kafka.control import Addressed, ControlRequest
from lethe.protocol.kafka.directory_names import parse_directory_name
from lethe.protocol.vocabulary import BrokerEpoch, TopicId
from tests.unit.broker.core.driver import (
    EPOCH,
    ME,
    A,
    B,
    Driver,
    Entry,
    FakeDisk,
    X,
    Y,
    become,
    live,
    metadata,
    stop,
    tombstone,
)

TOPICS = st.sampled_from(["t", "u"])
IDS = st.sampled_from([X, Y, None])
PARTITIONS = st.sampled_from([(0,), (1,), (0, 1), (0, 0)])
ISRS = st.sampled_from([(ME,), (ME, 2), (2,)])

REQUESTS = st.one_of(
    st.builds(
        become,
        TOPICS,
        IDS,
        partitions=PARTITIONS,
        leader=st.sampled_from([ME, 2, -1]),
        leader_epoch=st.integers(0, 3),
        isr=ISRS,
        replicas=st.sampled_from([(ME,), (ME, 2), (2, 3)]),
        is_new=st.booleans(),
        controller_epoch=st.integers(4, 6),
    ),
    st.builds(
        metadata,
        TOPICS,
        IDS,
        partitions=PARTITIONS,
        brokers=st.sampled_from([(), live(ME), live(ME, 2)]),
        offline=st.sampled_from([(), (2,)]),
    ),
    st.builds(tombstone, TOPICS, IDS, partitions=PARTITIONS),
    st.builds(
        stop,
        TOPICS,
        partitions=PARTITIONS,
        leader_epoch=st.integers(-2, 3),
        delete=st.booleans(),
        controller_epoch=st.integers(4, 6),
    ),
)
ACTIONS = st.lists(
    st.one_of(REQUESTS, st.sampled_from(["crash", "fail A", "time", "a second", "register", *IsrVerdict])),
    min_size=1,
    max_size=25,
)
FOUND = st.dictionaries(
    st.sampled_from(["t-0", "t-1", "u-0", "photos", "t-0." + "a" * 32 + "-delete", "t-1." + "b" * 32 + "-stray"]),
    st.builds(Entry, IDS, st.integers(1, 9), st.integers(0, 3), st.booleans()),
    max_size=4,
)
ANSWERS = st.dictionaries(TOPICS, st.sampled_from([X, Y, TopicAbsence.NO_ID, TopicAbsence.NO_TOPIC]), max_size=2)


Action = str | IsrVerdict | ControlRequest


class World:
    """An agent that crashes and comes back on the same disk."""

    def __init__(self, found: dict[str, Entry], answers: dict[str, TopicId | TopicAbsence]) -> None:
        self.disk = FakeDisk({A: dict(found), B: {}})
        self.answers = answers
        self.runs = 0
        self.driver = self._start()

    def _start(self) -> Driver:
        self.runs += 1
        self.disk.failures.clear()
        topic_ids: dict[str, TopicIdAnswer] = {**self.answers}
        return Driver(self.disk, topic_ids=topic_ids, seed=f"run-{self.runs}", epoch=BrokerEpoch(EPOCH + self.runs))

    def do(self, action: Action) -> None:
        if isinstance(action, IsrVerdict):
            changes = self.driver.state.proposed
            if changes:
                found = tuple(IsrOutcome(action, change.isr, change.partition_epoch + 1) for change in changes)
                self.driver.feed(IsrProposed(found))
        elif action == "crash":
            self.driver = self._start()
        elif action == "fail A":
            self.disk.failures[A] = "input/output error"
        elif action == "time":
            self.driver.advance(10**9)
        elif action == "a second":
            self.driver.advance(1_000)
        elif action == "register":
            self.driver.feed(BrokerRegistered(BrokerEpoch(self.driver.state.broker_epoch)))
        elif not self.driver.state.halted and not isinstance(action, str):
            token = self.driver.send_as_elected(action, self.driver.state.broker_epoch)
            assert token in self.driver.replies or self.driver.state.halted


def counts_are_right(state: AgentState) -> None:
    """What is kept beside the table agrees with it."""
    replicas = state.replicas
    by_topic: dict[str, int] = {}
    for topic_partition in replicas:
        by_topic[topic_partition.topic] = by_topic.get(topic_partition.topic, 0) + 1
    assert state.replicas_of_topic == by_topic
    for log_dir in state.log_dirs:
        assert state.replicas_of_log_dir.get(log_dir, 0) == sum(r.log_dir == log_dir for r in replicas.values())
    for kind in ReplicaState:
        assert state.replicas_in_state[kind] == sum(r.state is kind for r in replicas.values())
    online = (r for r in replicas.values() if r.state is not ReplicaState.OFFLINE)
    assert state.hosted_bytes == sum(r.size_bytes for r in online)
    assert state.removal.pending_bytes == sum(p.size_bytes for p in state.removal.pending.values())


def proposals_are_sound(driver: Driver) -> None:
    """One in flight, each partition once in it; each adds the live follower, and names nobody twice."""
    proposals = [effect for effect in driver.effects if isinstance(effect, ProposeIsr)]
    assert not driver.state.proposed or driver.state.proposed == proposals[-1].changes
    for proposal in proposals:
        assert len({change.topic_partition for change in proposal.changes}) == len(proposal.changes)
        assert all(2 in change.isr and len(set(change.isr)) == len(change.isr) for change in proposal.changes)


@given(FOUND, ANSWERS, ACTIONS)
@settings(max_examples=150)
def test_no_incarnation_is_mixed_up_and_nothing_goes_unasked(
    found: dict[str, Entry], answers: dict[str, TopicId | TopicAbsence], actions: Sequence[Action]
) -> None:
    world = World(found, answers)
    kept = {name for name in found if "-delete" not in name}
    for action in actions:
        before = len(world.disk.performed)
        world.do(action)
        for operation in world.disk.performed[before:]:
            if isinstance(operation, RenameForDeletion):
                assert not isinstance(action, str), "only a request deletes"
                assert type(action).__name__ == "StopReplicaRequest"
            elif isinstance(operation, CreateReplica):
                assert type(action).__name__ == "LeaderAndIsrRequest"
            elif isinstance(operation, FillReplica):
                assert world.driver.state.replicas[operation.topic_partition].leader >= 0, "somebody leads it"
        state = world.driver.state
        if state.halted:
            world.do("crash")
            state = world.driver.state
        counts_are_right(state)
        for topic_partition, replica in state.replicas.items():
            if replica.state is ReplicaState.HOSTED and replica.log_dir is not None:
                entry = world.disk.log_dirs[replica.log_dir][str(topic_partition)]
                assert entry.topic_id == replica.topic_id, "what is served has the id that it is served under"
        proposals_are_sound(world.driver)
        for effect in world.driver.effects:
            record = getattr(effect, "record", None)
            assert record is None or schema_problems(record) == ()
    names = {name for entries in world.disk.log_dirs.values() for name in entries}
    renamed = {
        str(o.topic_partition) for o in world.disk.performed if isinstance(o, RenameForDeletion | QuarantineDirectory)
    }
    assert kept <= names | renamed, "what was there is there, or was asked for or set aside"
    strays = {o.new_name for o in world.disk.performed if isinstance(o, QuarantineDirectory)}
    assert strays <= names, "what was set aside is never removed"


@given(st.lists(REQUESTS, min_size=1, max_size=8), st.integers(0, 30))
def test_a_crash_after_any_operation_leaves_a_disk_that_can_go_on(requests: list[ControlRequest], cut: int) -> None:
    """Operations are cut off after `cut`; the next run reads the disk and takes the same requests again."""
    disk = FakeDisk()
    first = Driver(disk)

    class Cut(Exception):
        pass

    def die(_: int) -> None:
        if len(disk.performed) >= cut:
            raise Cut

    first.before_disk = die
    try:
        for request in requests:
            first.send_as_elected(request)
    except Cut:
        pass
    second = Driver(disk, seed="run-2")
    for request in requests:
        token = second.send_as_elected(request)
        assert token in second.replies
    second.advance(10**9)
    counts_are_right(second.state)
    for entries in disk.log_dirs.values():
        for name in entries:
            assert parse_directory_name(name).kind.value in ("replica", "stray")


@given(st.lists(REQUESTS, min_size=1, max_size=6))
def test_the_same_inputs_give_the_same_effects_and_a_copy_goes_its_own_way(requests: list[ControlRequest]) -> None:
    one, two = Driver(), Driver()
    for request in requests:
        one.send_as_elected(request)
        two.send_as_elected(request)
    assert one.effects == two.effects
    assert one.state == two.state
    copy = one.state.copy()
    step(copy, ControlReceived(10_000, Addressed(become("other", X, is_new=True, controller_epoch=7), EPOCH)), 0)
    assert one.state == two.state
    assert copy != one.state
