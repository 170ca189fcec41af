"""Control that is taken from one of Kafka's controllers, and given up for good."""

from __future__ import annotations

import pytest

from lethe.controller.core import events
from lethe.controller.core.config import Takeover
from lethe.controller.core.context import Role
from lethe.controller.core.effects import ReadZnodes, StandAgain, WriteZnodes
from lethe.controller.core.scope import Scope
from lethe.controller.core.takeover import interval_ms
from lethe.protocol.causes import CauseKind
from lethe.protocol.journal import EventRecordType
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, SetData, ZkError
from tests.fakes.one_controller import CONTROLLER_ID, Loss, OneController
from tests.scenarios.plot import causes, cluster, is_gone, led, refusals, role, text, with_topic

KAFKAS = znodes.encode_controller(znodes.ControllerZnode(BrokerId(7), 0))
LETHES = znodes.encode_controller(znodes.ControllerZnode(BrokerId(7), 0, admin="http://127.0.0.1:1"))


def usurp(world: OneController, data: bytes = KAFKAS) -> int:
    """Another controller is elected, in whatever place it finds; its session."""
    if world.exists(paths.controller()):
        world.write(Delete(paths.controller()))
    found = world.read(paths.controller_epoch())
    epoch = 0 if found is None else znodes.decode_controller_epoch(found.data)
    if found is None:
        world.write(Create(paths.controller_epoch(), znodes.encode_controller_epoch(0)))
    rival = world.zookeeper.open_session()
    world.zookeeper.multi(
        rival,
        [
            Create(paths.controller(), data, ephemeral=True),
            SetData(paths.controller_epoch(), znodes.encode_controller_epoch(epoch + 1), ANY_VERSION),
        ],
    )
    return rival


def rob(world: OneController, *, is_older: bool = False) -> None:
    """Another Lethe takes control from whoever has it, and leaves the epoch for later. Older ones leave version 0."""
    found = world.read(paths.controller())
    assert found is not None
    version = found.stat.version
    world.zookeeper.multi(
        world.zookeeper.open_session(),
        [
            Delete(paths.controller(), version),
            Create(paths.controller(), LETHES, ephemeral=True),
            *(SetData(paths.controller(), LETHES, each) for each in range(0 if is_older else version + 1)),
        ],
    )


def held_by_kafka(takeover: Takeover, data: bytes = KAFKAS) -> OneController:
    """Brokers 1 and 2, and Kafka's controller 7 in control; nobody of ours stands yet."""
    world = OneController(takeover=takeover)
    world.start_broker(1)
    world.start_broker(2)
    usurp(world, data)
    return world


def elections(world: OneController) -> list[tuple[object, object]]:
    """(epoch, whom it was taken from) of each term of ours."""
    records = [record.data for record in world.recorded(EventRecordType.ELECTION) if record.data["what"] == "elected"]
    return [(data["epoch"], data.get("taken_from")) for data in records]


# --- whether ------------------------------------------------------------------------------------------------------


def test_golden_story_of_control_taken_in_one_multi_that_checks_the_tenure() -> None:
    world = held_by_kafka(Takeover.ONCE)
    world.take_story()
    writes: list[WriteZnodes] = []
    world.meanwhile = lambda effect: writes.append(effect) if isinstance(effect, WriteZnodes) else None
    world.elect()
    assert role(world) is Role.ACTIVE
    assert len(writes[0].groups) == 1, "all of it or nothing"
    assert world.take_story() == text("""
        * SessionEstablished
        zk check /controller_epoch at version 1
        zk delete /controller
        zk create /controller (ephemeral)
        zk set /controller at version 0
        zk check /controller at version 1
        zk set /controller_epoch at version 1: 2
        -> 1,2 UpdateMetadata brokers 1,2
        * ControllerDeleted
        <- 1,2 UpdateMetadata ok
    """)
    assert elections(world) == [(2, 7)]
    found = world.read(paths.controller())
    assert found is not None
    assert znodes.decode_controller(found.data).broker_id == CONTROLLER_ID


def test_never_is_the_default_and_waits_until_nobody_holds_control() -> None:
    world = held_by_kafka(Takeover.NEVER)
    world.elect()
    world.advance(10_000_000)
    assert role(world) is Role.STANDING_BY
    assert world.context.active_controller == 7


@pytest.mark.parametrize("takeover", [Takeover.ONCE, Takeover.ALWAYS])
def test_another_lethe_controller_is_never_robbed(takeover: Takeover) -> None:
    world = held_by_kafka(takeover, LETHES)
    world.elect()
    world.advance(10_000_000)
    assert role(world) is Role.STANDING_BY
    assert elections(world) == []


def test_what_holds_controller_and_cannot_be_understood_is_left_alone() -> None:
    world = held_by_kafka(Takeover.ALWAYS, b"?")
    world.elect()
    assert role(world) is Role.STANDING_BY


def test_kraft_controller_and_a_cluster_in_migration_are_refused() -> None:
    world = OneController(takeover=Takeover.ALWAYS)
    world.write(Create(paths.controller(), KAFKAS), Create(paths.controller_epoch(), b"1"))
    world.elect()
    assert role(world) is Role.REFUSED
    migrating = held_by_kafka(Takeover.ALWAYS)
    migrating.write(Create(paths.migration(), b"{}"))
    migrating.elect()
    assert role(migrating) is Role.REFUSED
    assert migrating.exists(paths.controller())
    assert elections(migrating) == []


# --- races --------------------------------------------------------------------------------------------------------


def before_first_write(world: OneController, act: object) -> None:
    seen: list[WriteZnodes] = []

    def hook(effect: ReadZnodes | WriteZnodes) -> None:
        if isinstance(effect, WriteZnodes) and not seen:
            seen.append(effect)
            assert callable(act)
            act()

    world.meanwhile = hook


def lose_first_write(world: OneController, loss: Loss | None) -> None:
    """What becomes of the controller's next write; its reply is lost, unless `loss` is None."""
    lost: list[WriteZnodes] = []

    def lose(effect: WriteZnodes) -> Loss | None:
        lost.append(effect)
        return loss if len(lost) == 1 else None

    world.losing = lose


def test_holder_that_changes_between_look_and_taking_keeps_control_until_it_was_looked_at() -> None:
    """A lost race changes nothing and does not count: with `once` it is tried again, from the next holder."""
    world = held_by_kafka(Takeover.ONCE)
    successor = znodes.encode_controller(znodes.ControllerZnode(BrokerId(8), 0))
    before_first_write(world, lambda: usurp(world, successor))
    world.elect()
    assert role(world) is Role.ACTIVE
    assert elections(world) == [(3, 8)]
    assert world.context.takeover_history.count == 1


def test_holder_that_was_robbed_between_look_and_taking_is_not_robbed_twice() -> None:
    """Two takings under one epoch: the second one would have removed the first one's `/controller`."""
    world = held_by_kafka(Takeover.ALWAYS)
    before_first_write(world, lambda: rob(world))
    world.elect()
    assert role(world) is Role.STANDING_BY
    found = world.read(paths.controller())
    assert found is not None
    assert found.data == LETHES
    assert elections(world) == []


def test_holder_that_goes_between_look_and_taking_leaves_an_election_like_any_other() -> None:
    world = held_by_kafka(Takeover.ONCE)
    before_first_write(world, lambda: world.write(Delete(paths.controller())))
    world.elect()
    assert elections(world) == [(2, None)]
    assert world.context.takeover_history.count == 0


def test_epoch_is_read_before_its_holder_so_that_nobody_unseen_is_robbed() -> None:
    """The other way round, the version of a later term would vouch for the holder of an earlier one."""
    world = held_by_kafka(Takeover.ONCE)
    reads: list[ReadZnodes] = []
    world.meanwhile = lambda effect: reads.append(effect) if isinstance(effect, ReadZnodes) else None
    world.elect()
    looked_at = [read.path for read in reads[0].reads]
    assert looked_at.index(paths.controller_epoch()) < looked_at.index(paths.controller(), 1)


@pytest.mark.parametrize("loss", list(Loss))
def test_taking_whose_reply_was_lost_counts_whatever_became_of_it(loss: Loss) -> None:
    world = held_by_kafka(Takeover.ONCE)
    lose_first_write(world, loss)
    world.elect()
    assert world.context.takeover_history.count == 1
    if loss is Loss.APPLIED:
        assert elections(world) == [(2, 7)]
    else:
        assert role(world) is Role.STANDING_BY
        assert elections(world) == []


def test_taking_that_an_access_list_forbids_is_refused_with_the_reason_until_it_is_allowed() -> None:
    world = held_by_kafka(Takeover.ALWAYS)
    world.read_only[paths.controller()] = ZkError.NO_AUTH
    world.elect()
    assert role(world) is Role.REFUSED
    assert (world.context.refusal or "").startswith("/controller cannot be taken: NO_AUTH, since its access list")
    assert elections(world) == []
    world.advance(30_000)
    assert role(world) is Role.REFUSED
    assert len(refusals(world, "cluster")) == 1
    world.read_only.clear()
    world.advance(60_000)
    assert elections(world) == [(2, 7)]


def test_taking_that_zookeeper_refuses_for_another_reason_backs_off() -> None:
    world = held_by_kafka(Takeover.ALWAYS)
    before_first_write(world, lambda: world.refusals.update({paths.controller(): ZkError.NOT_EMPTY}))
    world.elect()
    assert role(world) is Role.BACKING_OFF
    assert elections(world) == []


# --- the time that is left to who had it ---------------------------------------------------------------------------

GRACE_MS = 5_000


def takeover() -> OneController:
    """`/controller` is ours since a moment, and 7 may not know yet."""
    world = OneController(takeover=Takeover.ONCE, takeover_grace_ms=GRACE_MS)
    world.start_broker(1)
    usurp(world)
    world.elect()
    assert role(world) is Role.TAKING
    world.take_story()
    return world


def epoch_of(world: OneController) -> tuple[int, int]:
    found = world.read(paths.controller_epoch())
    assert found is not None
    return znodes.decode_controller_epoch(found.data), found.stat.version


def test_writes_of_the_former_holder_take_effect_until_the_time_is_over() -> None:
    world = takeover()
    assert epoch_of(world) == (1, 1), "its fence still holds: what it has begun it ends"
    assert world.sent == []
    assert world.recorded(EventRecordType.ELECTION)[-1].data == {"what": "taken", "epoch": 1, "taken_from": 7}
    world.create_topic("orders", (1,))
    world.advance(GRACE_MS - 1)
    assert role(world) is Role.TAKING
    assert not world.context.is_leading
    assert world.take_story() == "", "nothing is written, and nobody asked for anything"
    world.advance(1)
    assert role(world) is Role.ACTIVE
    assert epoch_of(world) == (2, 2)
    assert elections(world) == [(2, 7)]
    assert led(world, "orders") == (1, 0, (1,))


def test_control_that_is_taken_from_us_meanwhile_is_lost_like_any_other() -> None:
    world = takeover()
    usurp(world)
    world.run()
    assert role(world) is Role.STANDING_BY
    world.advance(GRACE_MS)
    assert role(world) is Role.STANDING_BY
    assert epoch_of(world) == (2, 2), "the other one's"
    assert elections(world) == []


@pytest.mark.parametrize("is_older", [False, True])
def test_control_that_is_taken_from_us_before_the_epoch_is_raised_is_noticed_by_the_raise(*, is_older: bool) -> None:
    """Both would have led under one epoch: the raise of one is for the other an epoch with its own `/controller`."""
    world = takeover()
    before_first_write(world, lambda: rob(world, is_older=is_older))
    world.advance(GRACE_MS)
    assert epoch_of(world) == (1, 1)
    assert role(world) is Role.STANDING_BY
    assert elections(world) == []


def test_controller_deleted_meanwhile_is_won_by_whoever_is_quickest() -> None:
    world = takeover()
    world.write(Delete(paths.controller()))
    world.run()
    assert role(world) is Role.ACTIVE
    assert elections(world) == [(2, None)]


def test_giving_up_for_good_meanwhile_removes_controller_and_touches_nobodys() -> None:
    world = takeover()
    world.feed(events.ResignationRequested("interrupted", for_good=True))
    world.run()
    assert role(world) is Role.RETIRED
    assert not world.exists(paths.controller())
    late = takeover()
    before_first_write(late, lambda: usurp(late))
    late.feed(events.ResignationRequested("interrupted", for_good=True))
    late.run()
    assert role(late) is Role.RETIRED
    assert late.exists(paths.controller()), "that is another one's by now"


def test_giving_up_that_is_refused_meanwhile_ends_the_session_and_begins_no_term() -> None:
    """`/controller` would have stayed ours, under the epoch of the former holder."""
    world = takeover()
    world.read_only[paths.controller()] = ZkError.NO_AUTH
    world.feed(events.ResignationRequested("interrupted", for_good=True))
    world.run()
    assert role(world) is Role.RETIRED
    assert world.renewals == ["interrupted"]
    assert not world.exists(paths.controller())
    assert elections(world) == []


def test_session_lost_meanwhile_leaves_nothing() -> None:
    world = takeover()
    world.zookeeper.close_session(world.session)
    world.feed(events.SessionLost("expired"))
    world.run()
    assert role(world) is Role.NO_SESSION
    assert not world.exists(paths.controller())
    usurp(world)
    world.elect()
    world.advance(10_000_000)
    assert role(world) is Role.STANDING_BY
    assert elections(world) == []


@pytest.mark.parametrize("loss", list(Loss))
def test_reply_to_the_raised_epoch_lost_is_found_out_by_looking(loss: Loss) -> None:
    world = takeover()
    lose_first_write(world, loss)
    world.advance(GRACE_MS)
    assert role(world) is Role.ACTIVE
    assert epoch_of(world) == (2, 2)
    assert elections(world) == [(2, 7)]
    assert world.renewals == []


def test_epoch_written_by_hand_meanwhile_is_raised_from_what_it_says_now() -> None:
    world = takeover()
    world.write(SetData(paths.controller_epoch(), b"40", ANY_VERSION))
    world.advance(GRACE_MS)
    assert role(world) is Role.ACTIVE
    assert world.context.cluster.epoch == 41


@pytest.mark.parametrize("loss", [None, Loss.NOT_APPLIED])
def test_epoch_rewritten_just_before_it_is_raised_begins_no_second_term_of_that_epoch(loss: Loss | None) -> None:
    """Brokers would take the orders of the former holder for ours: both would carry epoch 1."""
    world = takeover()
    found = world.read(paths.controller_epoch())
    assert found is not None
    before_first_write(world, lambda: world.write(SetData(paths.controller_epoch(), found.data, ANY_VERSION)))
    lose_first_write(world, loss)
    world.advance(GRACE_MS)
    assert role(world) is Role.ACTIVE
    assert epoch_of(world) == (2, 3)
    assert elections(world) == [(2, 7)]


def test_migration_that_begins_meanwhile_ends_the_taking() -> None:
    world = takeover()
    world.write(Create(paths.migration(), b"{}"))
    world.advance(GRACE_MS)
    assert not world.exists(paths.controller())
    world.advance(60_000)
    assert role(world) is Role.REFUSED


# --- how often ----------------------------------------------------------------------------------------------------


def test_once_is_once_in_the_life_of_a_process() -> None:
    world = held_by_kafka(Takeover.ONCE)
    world.elect()
    usurp(world)
    world.run()
    assert role(world) is Role.STANDING_BY
    world.zookeeper.close_session(world.session)
    world.feed(events.SessionLost("expired"))
    world.elect()
    world.advance(10_000_000)
    assert role(world) is Role.STANDING_BY
    assert elections(world) == [(2, 7)]
    world.write(Delete(paths.controller()))
    world.run()
    assert role(world) is Role.ACTIVE, "what nobody holds may still be won"


def test_always_takes_again_after_intervals_that_double_up_to_the_longest() -> None:
    world = held_by_kafka(Takeover.ALWAYS)
    world.elect()
    waited = []
    for _ in range(9):
        usurp(world)
        world.run()
        assert role(world) is Role.STANDING_BY
        waited.append(world.context.timers[StandAgain()] - world.now_ms)
        world.advance(waited[-1] - 1)
        assert role(world) is Role.STANDING_BY
        world.advance(1)
        assert role(world) is Role.ACTIVE
    minute = 60_000
    assert waited == [m * minute for m in (1, 2, 4, 8, 16, 32, 60, 60, 60)]


def test_two_who_insist_change_hands_ever_more_seldom_and_never_begin_anew() -> None:
    """Counted with the intervals alone: each takes as soon as it may and the other holds."""
    config = held_by_kafka(Takeover.ALWAYS).context.config
    takeover_history: list[int] = []
    last, count, holder, now_ms = [-(10**9)] * 2, [0, 0], 0, 0
    while now_ms < 48 * 3_600_000:
        taker = 1 - holder
        now_ms = max(now_ms, last[taker] + interval_ms(config, count[taker]))
        last[taker], count[taker], holder = now_ms, count[taker] + 1, taker
        takeover_history.append(now_ms)
    in_first_hour = sum(at < 3_600_000 for at in takeover_history)
    later = sum(at >= 3_600_000 for at in takeover_history)
    assert in_first_hour <= 14
    assert later <= 2 * 48


def test_intervals_begin_anew_after_twice_the_longest_one() -> None:
    world = held_by_kafka(Takeover.ALWAYS)
    world.elect()
    for _ in range(3):
        usurp(world)
        world.run()
        world.advance(60_000 * 8)
    assert world.context.takeover_history.count == 4
    world.advance(2 * 3_600_000)
    usurp(world)
    world.run()
    assert role(world) is Role.ACTIVE
    assert world.context.takeover_history.count == 1


# --- giving control up for good -----------------------------------------------------------------------------------


def test_giving_up_for_good_frees_controller_and_nobody_stands_again() -> None:
    world = with_topic(cluster(), "orders", (1, 2))
    world.feed(events.ResignationRequested("rescued", for_good=True))
    world.run()
    assert not world.exists(paths.controller())
    assert role(world) is Role.RETIRED
    world.advance(10_000_000)
    assert not world.exists(paths.controller())
    usurp(world)
    world.run()
    assert world.context.active_controller == 7
    world.zookeeper.close_session(world.session)
    world.feed(events.SessionLost("expired"))
    world.write(Delete(paths.controller()))
    world.elect()
    assert role(world) is Role.RETIRED
    assert not world.exists(paths.controller())


@pytest.mark.parametrize("loss", list(Loss))
def test_giving_up_for_good_with_its_reply_lost_gives_the_session_up(loss: Loss) -> None:
    world = cluster(1)
    world.losing = lambda _: loss
    world.feed(events.ResignationRequested("rescued", for_good=True))
    world.run()
    assert world.renewals == ["the outcome of a write is not known: the connection was lost"]
    assert role(world) is Role.RETIRED
    world.advance(10_000_000)
    assert not world.exists(paths.controller())


def test_giving_up_for_good_while_another_one_holds_control_takes_nothing_later() -> None:
    world = held_by_kafka(Takeover.ALWAYS)
    world.elect()
    usurp(world)
    world.run()
    assert StandAgain() in world.context.timers
    world.feed(events.ResignationRequested("rescued", for_good=True))
    world.advance(10_000_000)
    assert role(world) is Role.RETIRED
    assert elections(world) == [(2, 7)]


def test_control_lost_while_it_is_given_up_for_good_is_as_good() -> None:
    world = cluster(1)
    before_first_write(world, lambda: usurp(world))
    world.feed(events.ResignationRequested("rescued", for_good=True))
    world.run()
    assert role(world) is Role.RETIRED
    assert world.context.active_controller == 7


def test_resigning_for_a_while_takes_control_back_from_nobody_who_was_elected_meanwhile() -> None:
    world = held_by_kafka(Takeover.ONCE)
    world.elect()
    world.feed(events.ResignationRequested("asked to"))
    world.run()
    usurp(world)
    world.advance(10_000)
    assert role(world) is Role.STANDING_BY


# --- only some topics ---------------------------------------------------------------------------------------------


def test_only_the_chosen_topics_are_deleted_and_the_others_stay_in_service_with_their_markers() -> None:
    world = OneController(scope=Scope(frozenset({"orders", "ghost"})))
    for name in ("orders", "invoices"):
        world.create_topic(name, (1, 2))
        world.mark(name)
    world.mark("ghost")
    world.mark("spirit")
    cluster(1, 2, world=world)
    assert is_gone(world, "orders")
    assert not world.exists(paths.delete_topic("ghost"))
    assert world.exists(paths.delete_topic("spirit")), "nobody asked for that one"
    assert world.exists(paths.delete_topic("invoices"))
    assert led(world, "invoices") == (1, 0, (1, 2))
    assert world.context.cluster.marks["invoices"].held_by is CauseKind.NOT_CHOSEN
    assert causes(world, "invoices") == [(None, None, "NOT_CHOSEN")]
    assert refusals(world, "topic/spirit") == []


def test_topic_marked_later_is_not_chosen_either() -> None:
    world = cluster(1, 2, world=OneController(scope=Scope(frozenset())))
    with_topic(world, "orders", (1, 2))
    world.mark("orders")
    world.run()
    world.advance(60_000)
    assert world.exists(paths.topic("orders"))
    assert world.exists(paths.delete_topic("orders"))
    world.unmark("orders")
    world.run()
    assert world.context.cluster.marks == {}
