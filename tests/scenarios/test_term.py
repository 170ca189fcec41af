"""Control that is won, lost, refused or in doubt, at every write that the controller makes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lethe.controller.core import controller, events
from lethe.controller.core.context import Role
from lethe.controller.core.effects import ReadZnodes, StandAgain, WriteZnodes
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.control import UpdateMetadataResponse
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, SetData
from tests.fakes.one_controller import ENTROPY, Loss, OneController
from tests.scenarios.plot import cluster, is_gone, led, refusals, role, text, with_topic

ANOTHER = znodes.encode_controller(znodes.ControllerZnode(BrokerId(7), 0))
TAMPERED = znodes.encode_controller_epoch(40)


# --- a life with a write of every kind ----------------------------------------------------------------------------


def live(world: OneController) -> None:
    """Elected, topics created, a leader dies, topics deleted, one of them half gone: every kind of write occurs."""
    world.start_broker(1)
    world.start_broker(2)
    world.write(Create(paths.isr_change_notification("1"), b"{}"))
    world.mark("ghost")
    world.elect()
    for name in ("orders", "half", "kept"):
        world.create_topic(name, (1, 2), (2, 1))
    world.run()
    world.stop_broker(1)
    world.run()
    world.start_broker(1)
    world.run()
    world.mark("orders")
    world.run()
    if world.exists(paths.partition_state("half", 0)):
        world.write(Delete(paths.partition_state("half", 0)))
    world.mark("half")
    world.run()


def count_writes() -> int:
    world = OneController()
    seen: list[WriteZnodes] = []
    world.meanwhile = lambda effect: seen.append(effect) if isinstance(effect, WriteZnodes) else None
    live(world)
    return len(seen)


WRITES = count_writes()


def at_write(number: int, act: Callable[[], None]) -> Callable[[ReadZnodes | WriteZnodes], None]:
    seen: list[WriteZnodes] = []

    def hook(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes):
            seen.append(effect)
            if len(seen) == number:
                act()

    return hook


def all_done(world: OneController) -> None:
    """What was asked for in `live` has come true, and nothing else."""
    assert role(world) is Role.ACTIVE
    assert is_gone(world, "orders")
    assert is_gone(world, "half")
    assert not world.exists(paths.delete_topic("ghost"))
    for partition in (0, 1):
        found = led(world, "kept", partition)
        assert found is not None
        assert found[0] in (1, 2)


def test_a_life_has_writes_of_every_kind() -> None:
    world = OneController()
    live(world)
    all_done(world)
    story = world.take_story()
    for kind in (
        "create /controller_epoch",
        "create /controller ",
        "set /brokers/topics/orders at",
        "partitions/0/state:",
    ):
        assert kind in story
    for kind in ("delete /isr_change", "delete /admin/delete_topics/ghost", "state at version 0: leader 2"):
        assert kind in story
    assert WRITES >= 10


@pytest.mark.parametrize("number", range(1, WRITES + 1))
def test_another_controller_elected_just_before_a_write_makes_it_fail_and_us_resign(number: int) -> None:
    world = OneController()
    before: list[tuple[str, ...]] = []
    writes: list[WriteZnodes] = []
    usurping = at_write(number, lambda: usurp())

    def watch(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes):
            writes.append(effect)
        usurping(effect)

    def usurp() -> None:
        if world.exists(paths.controller()):
            world.write(Delete(paths.controller()))
        if not world.exists(paths.controller_epoch()):
            world.write(Create(paths.controller_epoch(), TAMPERED))
        session = world.zookeeper.open_session()
        world.zookeeper.multi(session, [Create(paths.controller(), ANOTHER, ephemeral=True)])
        world.write(SetData(paths.controller_epoch(), TAMPERED, ANY_VERSION))
        before.append(world.zookeeper.paths())

    world.meanwhile = watch
    live(world)
    assert before
    assert role(world) is Role.STANDING_BY
    assert world.context.active_controller == 7
    assert world.renewals == []
    made = set(world.zookeeper.paths()) - set(before[0])
    assert {path for path in made if "/partitions" in path} == set(), "nothing is written after control was lost"
    if number > 2:
        resigned = [f.data["reason"] for f in world.recorded(EventRecordType.ELECTION) if f.data["what"] == "resigned"]
        # The watch on /controller comes before the end of a write in the background.
        in_background = writes[number - 1].in_background
        fenced = "a write was refused because /controller_epoch has changed"
        assert resigned == ["controller 7 holds /controller" if in_background else fenced]


@pytest.mark.parametrize("number", range(3, WRITES + 1))
def test_epoch_changed_by_hand_while_the_controller_is_ours_ends_the_tenure_all_the_same(number: int) -> None:
    """Kafka goes on as a controller none of whose writes succeeds."""
    world = OneController()
    world.meanwhile = at_write(
        number, lambda: void(world.write(SetData(paths.controller_epoch(), TAMPERED, ANY_VERSION)))
    )
    live(world)
    world.advance(60_000)
    all_done(world)
    assert world.context.cluster.epoch == 40


def void(_: object) -> None:
    """For what is done for its effect."""


@pytest.mark.parametrize("loss", list(Loss), ids=lambda loss: loss.value)
@pytest.mark.parametrize("number", range(1, WRITES + 1))
def test_reply_lost_at_any_write_everything_asked_for_comes_true_all_the_same(number: int, loss: Loss) -> None:
    world = OneController()
    seen: list[WriteZnodes] = []

    def lose(effect: WriteZnodes) -> Loss | None:
        seen.append(effect)
        return loss if len(seen) == number else None

    world.losing = lose
    live(world)
    for _ in range(3):
        world.advance(60_000)
    all_done(world)
    election = number <= 2 and loss is Loss.APPLIED
    assert len(world.renewals) <= 1
    assert election or number == 2 or world.renewals == ["the outcome of a write is not known: the connection was lost"]


@pytest.mark.parametrize("loss", [None, *Loss], ids=["crash before it", "crash after it, not applied", "and applied"])
@pytest.mark.parametrize("number", range(1, WRITES + 1))
def test_process_dies_at_any_write_and_the_next_one_finishes(number: int, loss: Loss | None) -> None:
    world = OneController()
    dead: list[int] = []

    class CrashError(Exception):
        pass

    def die() -> None:
        if loss is not Loss.APPLIED:
            raise CrashError

    applied: list[WriteZnodes] = []

    def die_after(effect: WriteZnodes) -> Loss | None:
        applied.append(effect)
        return None

    world.meanwhile = at_write(number, die) if loss is not Loss.APPLIED else at_write(number + 1, raising(CrashError))
    world.losing = die_after
    try:
        live(world)
    except CrashError:
        dead.append(number)
    world.meanwhile = lambda _: None
    world.crash()
    for name in ("orders", "half", "kept"):
        if not world.exists(paths.topic(name)) and name not in finished(world):
            world.create_topic(name, (1, 2), (2, 1))
    for broker in (1, 2):
        if broker not in world.sessions:
            world.start_broker(broker)
    world.elect()
    for name in ("orders", "half"):
        if world.exists(paths.topic(name)) and not world.exists(paths.delete_topic(name)):
            world.mark(name)
    world.run()
    assert dead or (loss is Loss.APPLIED and number == WRITES)
    all_done(world)


def finished(world: OneController) -> list[str]:
    """Topics whose deletion was done before."""
    done = [f.subject for f in world.recorded(EventRecordType.DELETION_PHASE) if f.data["phase"] == "acknowledged"]
    return [subject.removeprefix("topic/") for subject in done]


def raising(error: type[Exception]) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


# --- winning ------------------------------------------------------------------------------------------------------


def test_reply_to_the_election_lost_but_applied_is_found_out_by_looking() -> None:
    world = OneController()
    world.start_broker(1)
    lost: list[WriteZnodes] = []

    def lose(effect: WriteZnodes) -> Loss | None:
        if effect.groups[0][0].path == paths.controller() and not lost:
            lost.append(effect)
            return Loss.APPLIED
        return None

    world.losing = lose
    world.elect()
    assert role(world) is Role.ACTIVE
    assert world.context.cluster.epoch == 1
    assert world.renewals == []


def test_somebody_else_is_quicker_and_we_stand_by_until_they_are_gone() -> None:
    world = OneController()
    rival = world.zookeeper.open_session()
    world.zookeeper.multi(rival, [Create(paths.controller(), ANOTHER, ephemeral=True)])
    world.elect()
    assert role(world) is Role.STANDING_BY
    assert world.context.active_controller == 7
    world.zookeeper.close_session(rival)
    world.run()
    assert role(world) is Role.ACTIVE


def test_epoch_and_its_version_go_up_in_step_from_tenure_to_tenure() -> None:
    world = cluster(1)
    for term in (1, 2, 3):
        assert (world.context.cluster.epoch, world.context.cluster.epoch_version) == (term, term)
        world.crash()
        world.elect()


def test_session_lost_forgets_the_cluster_and_the_next_session_loads_it_anew() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.zookeeper.close_session(world.session)
    world.feed(events.SessionLost("expired"))
    world.run()
    assert role(world) is Role.NO_SESSION
    assert not world.context.cluster.topics
    assert not world.channels
    world.elect()
    assert role(world) is Role.ACTIVE
    assert led(world, "orders") == (1, 0, (1, 2))


def test_watch_of_a_lost_session_is_nobodys() -> None:
    world = OneController()
    for event in (events.ControllerChanged(), events.ControllerDeleted(), events.TopicsChanged()):
        assert controller.step(world.context, event, 0) == []
    assert not world.context.awaiting_result
    world.elect()
    assert role(world) is Role.ACTIVE


def test_resigning_on_request_lets_another_one_be_elected_before_standing_again() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.feed(events.ResignationRequested("asked to"))
    world.run()
    assert not world.exists(paths.controller())
    assert role(world) is Role.BACKING_OFF
    rival = world.zookeeper.open_session()
    world.zookeeper.multi(rival, [Create(paths.controller(), ANOTHER, ephemeral=True)])
    world.advance(500)
    assert role(world) is Role.STANDING_BY
    assert world.context.active_controller == 7


def test_resigning_on_request_with_nobody_else_there_leads_again_after_the_wait() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.feed(events.ResignationRequested("asked to"))
    world.run()
    world.advance(499)
    assert role(world) is Role.BACKING_OFF
    world.advance(1)
    assert role(world) is Role.ACTIVE


def test_controller_removed_by_hand_lets_another_one_be_elected_before_we_stand_again() -> None:
    """The old trick to move the controller, and what `lethe controller-resign` does, moves it."""
    world = with_topic(cluster(), "orders", (1, 2))
    world.write(Delete(paths.controller()))
    world.run()
    assert role(world) is Role.BACKING_OFF
    assert not world.exists(paths.controller())
    world.advance(500)
    assert role(world) is Role.ACTIVE


# --- refusing -----------------------------------------------------------------------------------------------------


def test_cluster_in_migration_to_kraft_is_refused_with_the_reason_until_it_is_over() -> None:
    world = OneController()
    world.write(Create(paths.migration(), b"{}"))
    world.elect()
    assert role(world) is Role.REFUSED
    assert world.context.refusal == "/migration exists: this cluster is being migrated to KRaft, or was"
    assert not world.exists(paths.controller())
    world.advance(30_000)
    assert role(world) is Role.REFUSED
    assert len(refusals(world, "cluster")) == 1
    world.write(Delete(paths.migration()))
    world.advance(30_000)
    assert role(world) is Role.ACTIVE


def test_an_empty_migration_znode_is_no_migration() -> None:
    """Kafka's zookeeper-security-migration makes it since 3.8, on every cluster that it secures."""
    world = OneController()
    world.write(Create(paths.migration(), None))
    world.elect()
    assert role(world) is Role.ACTIVE


def test_persistent_controller_znode_is_a_kraft_controllers_and_stays() -> None:
    world = OneController()
    world.write(Create(paths.controller(), ANOTHER))
    world.elect()
    assert role(world) is Role.REFUSED
    assert world.context.refusal == "/controller is persistent and names 7: a KRaft controller holds this cluster"
    world.advance(30_000)
    assert world.exists(paths.controller())


def test_kraft_controller_that_takes_over_makes_us_resign_and_refuse() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.write(Delete(paths.controller()), Create(paths.controller(), ANOTHER))
    world.run()
    assert role(world) is Role.REFUSED
    assert not world.context.cluster.topics


def test_last_epoch_there_is_is_refused_and_never_overwritten() -> None:
    world = OneController()
    world.write(Create(paths.controller_epoch(), b"2147483647"))
    world.elect()
    assert role(world) is Role.REFUSED
    assert world.context.refusal == "/controller_epoch holds 2147483647, after which there is no epoch"
    assert not world.exists(paths.controller())
    found = world.read(paths.controller_epoch())
    assert found is not None
    assert found.data == b"2147483647"


def test_unreadable_epoch_is_refused_and_never_overwritten() -> None:
    world = OneController()
    world.write(Create(paths.controller_epoch(), b"seven"))
    world.elect()
    assert role(world) is Role.REFUSED
    found = world.read(paths.controller_epoch())
    assert found is not None
    assert found.data == b"seven"
    world.write(SetData(paths.controller_epoch(), b"7", ANY_VERSION))
    world.advance(30_000)
    assert role(world) is Role.ACTIVE
    assert world.context.cluster.epoch == 8


def test_epoch_made_unreadable_while_we_lead_does_not_leave_us_holding_the_cluster() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.write(SetData(paths.controller_epoch(), b"seven", ANY_VERSION))
    world.create_topic("next", (1, 2))
    world.run()
    assert not world.exists(paths.controller())
    world.advance(30_000)
    assert role(world) is Role.REFUSED


def test_malformed_controller_znode_of_another_session_is_respected() -> None:
    world = OneController()
    rival = world.zookeeper.open_session()
    world.zookeeper.multi(rival, [Create(paths.controller(), b"?", ephemeral=True)])
    world.elect()
    assert role(world) is Role.STANDING_BY
    assert world.exists(paths.controller())


# --- doubting -----------------------------------------------------------------------------------------------------


def test_waits_before_standing_again_grow_with_each_fault_and_start_anew_after_a_settled_tenure() -> None:
    world = OneController()
    world.start_broker(1)
    world.create_topic("orders", (1,))
    world.losing = lambda effect: Loss.NOT_APPLIED if effect.fence else None
    world.elect()
    waited = []
    for _ in range(9):
        assert role(world) is Role.BACKING_OFF
        waited.append(world.context.timers[StandAgain()] - world.now_ms)
        world.advance(waited[-1])
    assert waited == [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]
    world.losing = lambda _: None
    world.advance(30_000)
    assert role(world) is Role.ACTIVE
    world.advance(60_000)
    world.losing = lambda _: Loss.NOT_APPLIED
    world.create_topic("next", (1,))
    world.run()
    assert world.context.timers[StandAgain()] - world.now_ms == 500


def test_session_lost_while_backing_off_does_not_shorten_the_wait() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    controller.after_fault(world.context, "for the test", world.now_ms)
    world.feed(events.SessionLost("closed"))
    world.feed(events.SessionEstablished(world.zookeeper.open_session(), ENTROPY))
    world.session = world.zookeeper.sessions[-1]
    world.run()
    assert role(world) is Role.BACKING_OFF
    world.zookeeper.close_session(world.zookeeper.sessions[-2])
    world.advance(499)
    assert role(world) is Role.BACKING_OFF
    world.advance(1)
    assert role(world) is Role.ACTIVE


def test_broker_that_has_heard_of_a_later_controller_makes_us_look() -> None:
    world = with_topic(cluster(1), "orders", (1,))
    rival = world.zookeeper.open_session()
    world.write(Delete(paths.controller()))
    world.zookeeper.multi(rival, [Create(paths.controller(), ANOTHER, ephemeral=True)])
    world.zookeeper.take_fired()  # the watch is late; the broker's answer is quicker
    world.answer = lambda send: events.UpdateMetadataResponseReceived(
        *send[:3], UpdateMetadataResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
    )
    world.start_broker(2)
    world.run()
    assert role(world) is Role.STANDING_BY
    assert world.context.active_controller == 7
    assert not world.channels


def test_stale_controller_epoch_in_an_answer_while_the_controller_is_ours_changes_nothing() -> None:
    world = cluster(1)
    world.answer = lambda send: events.UpdateMetadataResponseReceived(
        *send[:3], UpdateMetadataResponse(ErrorCode.STALE_CONTROLLER_EPOCH)
    )
    world.start_broker(2)
    world.run()
    assert role(world) is Role.ACTIVE


def test_result_that_belongs_to_a_tenure_before_is_dropped() -> None:
    world = cluster(1)
    stale = events.ZnodesWritten(world.context.last_effect_id, (), controller_moved=True)
    assert controller.step(world.context, stale, world.now_ms) == []
    assert role(world) is Role.ACTIVE


def test_event_while_a_result_is_outstanding_is_a_fault_of_the_caller() -> None:
    world = OneController()
    controller.step(world.context, events.SessionEstablished(1, ENTROPY), 0)
    with pytest.raises(RuntimeError, match="TopicsChanged came while"):
        controller.step(world.context, events.TopicsChanged(), 0)


def test_golden_story_of_losing_control_in_the_middle_of_a_creation() -> None:
    world = cluster(1, 2)
    session = world.zookeeper.open_session()

    def usurp() -> None:
        world.write(Delete(paths.controller()), SetData(paths.controller_epoch(), TAMPERED, ANY_VERSION))
        world.zookeeper.multi(session, [Create(paths.controller(), ANOTHER, ephemeral=True)])

    world.meanwhile = at_write(3, usurp)
    world.create_topic("orders", (1, 2))
    world.run()
    assert world.take_story() == text("""
        * TopicsChanged
        zk set /brokers/topics/orders at version 0
        zk create /brokers/topics/orders/partitions
        zk create /brokers/topics/orders/partitions/0
        zk create /brokers/topics/orders/partitions/0/state: leader 1 epoch 0 isr 1,2
        * ControllerDeleted
    """)
    assert not world.exists(paths.partition_state("orders", 0))
    assert not world.channels
