"""Control without power: brokers that refuse our epoch, refuse us, or cannot be spoken to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lethe.controller.core import power
from lethe.controller.core.config import Takeover
from lethe.controller.core.context import Role
from lethe.controller.core.effects import Send
from lethe.controller.core.epoch_raise import HIGHEST
from lethe.controller.core.events import (
    Answer,
    LeaderAndIsrResponseReceived,
    LogDirsDescribed,
    PartAnswered,
    StopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
from lethe.controller.core.power import BrokerStanding
from lethe.protocol.causes import CauseKind, remedy
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.control import StopReplicaRequest
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import DescribeLogDirsRequest
from lethe.protocol.listener_choice import ListenerChoice
from lethe.protocol.vocabulary import BrokerId, ControllerEpoch, SecurityProtocol
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Create, Delete, SetData
from tests.fakes.one_controller import OneController, consent
from tests.scenarios.plot import causes, cluster, is_gone, refusals, role, with_topic

STALE = ErrorCode.STALE_CONTROLLER_EPOCH
UNAUTHORIZED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
FORGED = 2**31 - 1


class Remembering:
    """Brokers that remember the highest controller epoch they have seen, as Kafka's do until they restart."""

    def __init__(self, seen: dict[int, int]) -> None:
        self.seen = seen

    def __call__(self, send: Send) -> Answer:
        return consent(send) if self.accepts(send) else refused(send, STALE)

    def accepts(self, send: Send) -> bool:
        if isinstance(send.request, DescribeLogDirsRequest):
            return True
        if send.request.controller_epoch < self.seen.get(send.broker, 0):
            return False
        self.seen[send.broker] = send.request.controller_epoch
        return True


def powerless_reason(world: OneController, later_ms: int = 0) -> str | None:
    now_ms = world.now_ms + later_ms
    return power.powerless_reason(world.context, power.of_brokers(world.context, now_ms), now_ms)


def refused(send: Send, error: int) -> Answer:
    match consent(send):
        case LeaderAndIsrResponseReceived() as answer:
            return replace(answer, response=replace(answer.response, error=error))
        case UpdateMetadataResponseReceived() as answer:
            return replace(answer, response=replace(answer.response, error=error))
        case StopReplicaResponseReceived() as answer:
            return replace(answer, response=replace(answer.response, error=error))
        case LogDirsDescribed() as answer:
            return answer


def epoch(world: OneController) -> int:
    found = world.read(paths.controller_epoch())
    assert found is not None
    return int(znodes.decode_controller_epoch(found.data))


def controller_refusals(world: OneController) -> list[str]:
    return refusals(world, f"controller/{world.context.config.controller_id}")


# --- brokers that have seen a higher epoch ------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [1, 2, 7, 1000, 10_000_000])
def test_epoch_is_raised_above_what_most_brokers_refuse_and_the_deletion_ends(gap: int) -> None:
    world = OneController()
    world.answer = Remembering(dict.fromkeys((1, 2, 3), 1 + gap))
    cluster(world=world)
    with_topic(world, "orders", (1, 2, 3))
    world.mark("orders")
    world.run()
    assert role(world) is Role.ACTIVE
    assert is_gone(world, "orders")
    assert 1 + gap <= epoch(world) == world.context.cluster.epoch <= 1 + 4 * gap
    assert power.powerless_since(power.of_brokers(world.context, world.now_ms)) is None
    assert world.renewals == [], "/controller was ours all the time"


def test_raise_keeps_controller_and_epoch_in_one_multi() -> None:
    world = OneController()
    world.answer = Remembering(dict.fromkeys((1, 2, 3), 2))
    for broker in (1, 2, 3):
        world.start_broker(broker)
    world.elect()
    assert "zk set /controller_epoch" in world.take_story()
    reasons = [f.data["reason"] for f in world.recorded(EventRecordType.ELECTION) if f.data["what"] == "resigned"]
    assert reasons == ["/controller_epoch is raised to 2, since brokers 1, 2 refuse 1 as stale"]


def test_another_controller_elected_before_the_raise_is_left_alone() -> None:
    world = OneController()
    world.answer = Remembering(dict.fromkeys((1, 2, 3), 50))
    for broker in (1, 2, 3):
        world.start_broker(broker)
    theirs = znodes.encode_controller(znodes.ControllerZnode(BrokerId(7), 0))

    def depose(effect: object) -> None:
        if "EpochRaised" in str(world.context.awaited):
            world.meanwhile = lambda _: None
            session = world.zookeeper.open_session()
            world.write(Delete(paths.controller()))
            world.zookeeper.multi(session, [Create(paths.controller(), theirs, ephemeral=True)])
            world.write(SetData(paths.controller_epoch(), b"2", ANY_VERSION))

    world.meanwhile = depose
    world.elect()
    assert role(world) is Role.STANDING_BY
    assert world.context.active_controller == 7
    assert epoch(world) == 2, "nothing was raised in another one's tenure"


def test_stale_answer_after_the_epoch_was_changed_behind_our_back_ends_the_tenure() -> None:
    world = cluster()
    world.write(SetData(paths.controller_epoch(), b"40", ANY_VERSION))
    world.answer = Remembering(dict.fromkeys((1, 2, 3), 40))
    world.create_topic("orders", (1, 2))
    world.run()
    assert role(world) is Role.ACTIVE
    assert world.context.cluster.epoch == 40


def test_one_broker_that_refuses_beside_others_is_not_followed_but_named() -> None:
    world = OneController()
    world.answer = Remembering({3: FORGED})
    cluster(world=world)
    assert epoch(world) == 1
    assert role(world) is Role.ACTIVE
    standings = {each.broker: each.standing for each in power.of_brokers(world.context, world.now_ms)}
    assert standings == {1: BrokerStanding.OBEYS, 2: BrokerStanding.OBEYS, 3: BrokerStanding.REFUSES_EPOCH}
    (problem,) = controller_refusals(world)
    assert problem.startswith("only 1 of 3 registered brokers refuse epoch 1 as stale: restart broker 3")


def test_half_is_no_majority_and_a_silent_broker_does_not_vote() -> None:
    for silent in ((), (2,)):
        world = OneController()
        world.answer = Remembering({1: 9})
        world.silent = dict.fromkeys(silent)
        cluster(1, 2, world=world)
        assert epoch(world) == 1


def test_forged_epoch_at_every_broker_is_followed_to_a_bound_and_then_told() -> None:
    world = OneController()
    world.answer = Remembering(dict.fromkeys((1, 2, 3), FORGED))
    cluster(world=world)
    assert epoch(world) == HIGHEST
    assert "highest that is tried" in controller_refusals(world)[-1]
    assert "restart them" in controller_refusals(world)[-1]
    # Restarted, they have forgotten it.
    world.answer = consent
    for broker in (1, 2, 3):
        world.stop_broker(broker)
        world.start_broker(broker)
    world.run()
    assert role(world) is Role.ACTIVE
    assert powerless_reason(world, 60_000) is None


def test_controllers_that_outbid_each_other_raise_seldom() -> None:
    world = OneController()
    brokers = Remembering({})
    world.answer = brokers
    cluster(world=world)
    raised: list[int] = []
    for _ in range(200):
        for broker in (1, 2, 3):
            brokers.seen[broker] = world.context.cluster.epoch + 5
        world.create_topic(f"t{len(raised)}-{world.now_ms}", (1,))
        before = epoch(world)
        world.advance(10_000)
        if epoch(world) > before + 1:
            raised.append(world.now_ms)
    assert 2 <= len(raised) <= 7, raised


def test_topic_that_needs_the_broker_says_what_cures_it() -> None:
    world = OneController()
    world.answer = Remembering({3: FORGED})
    cluster(world=world)
    with_topic(world, "orders", (1, 2, 3))
    world.mark("orders")
    world.run()
    assert (0, 3, "BROKER_REFUSES_EPOCH") in causes(world, "orders")
    assert "restart broker 3" in remedy(CauseKind.BROKER_REFUSES_EPOCH, "orders", broker=3)


# --- resigning ----------------------------------------------------------------------------------------------------


def test_controller_that_every_broker_refuses_is_not_powerful_and_resigns() -> None:
    world = cluster()
    world.answer = lambda send: refused(send, UNAUTHORIZED)
    world.probe_answer = lambda _: UNAUTHORIZED
    world.create_topic("orders", (1, 2, 3))
    world.run()
    assert powerless_reason(world, 4_000) is None
    reason = powerless_reason(world, 6_000)
    assert reason is not None
    assert reason.startswith("no registered broker accepts this controller's requests: brokers 1, 2, 3: its authorizer")
    for _ in range(5):
        world.advance(5_000)
    (renewal,) = world.renewals
    assert "no registered broker has accepted a request" in renewal
    assert role(world) is Role.REFUSED
    assert world.context.refusal is not None
    assert "CLUSTER_AUTHORIZATION_FAILED" in world.context.refusal
    # As soon as the right is granted it leads again.
    world.answer, world.probe_answer = consent, lambda _: STALE
    world.advance(30_000)
    assert role(world) is Role.ACTIVE


def test_brokers_that_are_only_silent_are_waited_for_longer() -> None:
    world = cluster()
    world.silent = dict.fromkeys((1, 2, 3))
    world.create_topic("orders", (1, 2, 3))
    world.run()
    world.advance(60_000)
    assert role(world) is Role.ACTIVE
    assert "it does not answer" in (powerless_reason(world) or "")
    for _ in range(70):
        world.advance(5_000)
    assert world.renewals != []
    assert role(world) is Role.REFUSED
    assert "no registered broker answers" in (world.context.refusal or "")


def test_a_broker_that_answers_part_after_part_of_a_large_request_is_not_silent() -> None:
    world = cluster()
    world.silent = dict.fromkeys((1, 2, 3))
    world.create_topic("orders", (1, 2, 3))
    world.run()
    request_id, outstanding = next(
        (number, each) for number, each in world.context.cluster.outstanding.items() if each.broker == 1
    )
    for _ in range(200):
        world.advance(5_000)
        world.feed(PartAnswered(BrokerId(1), outstanding.broker_epoch, request_id, 0))
        world.run()
    assert role(world) is Role.ACTIVE
    standings = {each.broker: each.standing for each in power.of_brokers(world.context, world.now_ms)}
    assert standings == {1: BrokerStanding.OBEYS, 2: BrokerStanding.SILENT, 3: BrokerStanding.SILENT}
    assert request_id in world.context.cluster.outstanding
    world.advance(15_000)
    assert powerless_reason(world) is not None


def test_one_broker_that_obeys_is_power_and_an_idle_controller_keeps_it() -> None:
    world = OneController()
    world.answer = lambda send: consent(send) if send.broker == 2 else refused(send, UNAUTHORIZED)
    cluster(world=world)
    world.advance(3_600_000)
    assert powerless_reason(world) is None
    assert role(world) is Role.ACTIVE


# --- looking before control is taken ------------------------------------------------------------------------------


def held_by_kafka(world: OneController) -> None:
    znode = znodes.encode_controller(znodes.ControllerZnode(BrokerId(1), 0))
    session = world.zookeeper.open_session()
    world.write(Create(paths.controller_epoch(), b"5"))
    world.zookeeper.multi(session, [Create(paths.controller(), znode, ephemeral=True)])


def test_probe_names_no_topic_and_no_epoch_that_a_broker_could_take() -> None:
    world = OneController()
    probes: list[Send] = []

    def answer(send: Send) -> int:
        probes.append(send)
        return STALE

    world.probe_answer = answer
    cluster(world=world)
    assert [probe.broker for probe in probes] == [1, 2, 3]
    assert {probe.request for probe in probes} == {StopReplicaRequest(BrokerId(1000), ControllerEpoch(-1), ())}


def test_control_is_not_taken_from_a_controller_whose_brokers_cannot_be_spoken_to() -> None:
    world = OneController(takeover=Takeover.ONCE)
    held_by_kafka(world)
    for broker in (1, 2, 3):
        world.start_broker(broker, listeners=("SASL:SASL_PLAINTEXT",))
    world.elect()
    world.advance(60_000)
    assert role(world) is Role.REFUSED
    assert world.context.active_controller == 1
    assert epoch(world) == 5
    (why,) = refusals(world, "cluster")
    assert why == (
        "Lethe cannot command broker 1, because it has no PLAINTEXT listener (it has SASL: SASL_PLAINTEXT), "
        "broker 2, because it has no PLAINTEXT listener (it has SASL: SASL_PLAINTEXT), "
        "broker 3, because it has no PLAINTEXT listener (it has SASL: SASL_PLAINTEXT); name the listener in "
        "control.plane.listener.name or inter.broker.listener.name, and its protocol in listener.security.protocol.map"
    )


def test_free_controller_is_left_to_those_that_can_command() -> None:
    world = OneController()
    for broker in (1, 2):
        world.start_broker(broker)
    world.start_broker(3, listeners=("SSL:SSL",))
    world.elect()
    assert role(world) is Role.REFUSED
    assert not world.exists(paths.controller())
    world.stop_broker(3)
    world.run()
    assert role(world) is Role.ACTIVE, "the watch on the brokers is enough"


def test_plaintext_listener_beside_others_is_used() -> None:
    world = OneController()
    world.start_broker(1, listeners=("SASL:SASL_PLAINTEXT", "PLAIN:PLAINTEXT"))
    world.elect()
    assert role(world) is Role.ACTIVE
    assert world.channels[BrokerId(1)].endpoint.listener == "PLAIN"


def test_the_configured_listener_is_used_under_its_protocol_only() -> None:
    choice = ListenerChoice("INTERNAL", (SecurityProtocol.SASL_SSL,))
    world = OneController(listener_choice=choice)
    world.start_broker(1, listeners=("PLAINTEXT:PLAINTEXT", "INTERNAL:SASL_SSL"))
    world.elect()
    assert role(world) is Role.ACTIVE
    assert world.channels[BrokerId(1)].endpoint.listener == "INTERNAL"
    # A registration that lowers the protocol, and one without the listener, are not obeyed.
    world.start_broker(2, listeners=("PLAINTEXT:PLAINTEXT", "INTERNAL:PLAINTEXT"))
    world.start_broker(3, listeners=("EXTERNAL:SASL_SSL",))
    world.run()
    standings = {each.broker: each.standing for each in power.of_brokers(world.context, world.now_ms)}
    unspoken = BrokerStanding.UNSPOKEN
    assert standings == {1: BrokerStanding.OBEYS, 2: unspoken, 3: unspoken}
    assert not choice.accepts(world.channels[BrokerId(2)].endpoint), "the runtime opens no such connection"
    assert not choice.accepts(world.channels[BrokerId(3)].endpoint)


def test_control_is_not_taken_where_a_broker_lacks_the_configured_listener() -> None:
    world = OneController(takeover=Takeover.ONCE, listener_choice=ListenerChoice("INTERNAL"))
    held_by_kafka(world)
    world.start_broker(1, listeners=("INTERNAL:PLAINTEXT",))
    world.start_broker(2, listeners=("PLAINTEXT:PLAINTEXT",))
    world.elect()
    assert role(world) is Role.REFUSED
    (why,) = refusals(world, "cluster")
    assert why.startswith(
        "Lethe cannot command broker 2, because it has no listener INTERNAL (it has PLAINTEXT: PLAINTEXT); name the"
    )


def test_one_refused_login_is_enough_not_to_take_control() -> None:
    world = OneController(takeover=Takeover.ONCE)
    held_by_kafka(world)
    for broker in (1, 2, 3):
        world.start_broker(broker)
    world.refused_logins[3] = None
    world.elect()
    assert role(world) is Role.REFUSED
    assert epoch(world) == 5
    (why,) = refusals(world, "cluster")
    assert why == "this controller has no access to broker 3 (it refuses user lethe)"
    world.refused_logins.clear()
    world.advance(10_000)
    assert role(world) is Role.ACTIVE


def test_one_authorizer_that_refuses_is_enough_not_to_take_control() -> None:
    world = OneController(takeover=Takeover.ONCE)
    held_by_kafka(world)
    for broker in (1, 2, 3):
        world.start_broker(broker)
    world.probe_answer = lambda send: UNAUTHORIZED if send.broker == 3 else STALE
    world.elect()
    assert role(world) is Role.REFUSED
    assert "the authorizer of broker 3 refuses this controller" in (world.context.refusal or "")
    assert "grant User:ANONYMOUS ClusterAction" in (world.context.refusal or "")
    world.probe_answer = lambda _: STALE
    world.advance(10_000)
    assert role(world) is Role.ACTIVE


def test_no_registered_broker_that_answers_is_no_cluster_to_lead_but_some_are() -> None:
    world = OneController()
    for broker in (1, 2, 3):
        world.start_broker(broker)
    world.silent = dict.fromkeys((1, 2, 3))
    world.elect()
    assert role(world) is Role.REFUSED
    assert "no registered broker answers a controller's request: broker 1 (no answer in time)" in (
        world.context.refusal or ""
    )
    world.silent = dict.fromkeys((1, 2))
    world.advance(5_000)
    assert role(world) is Role.ACTIVE
    assert refusals(world, "broker/1") == ["no answer in time"]


def test_who_lost_a_race_for_control_is_not_slowed_down_by_another_probe() -> None:
    """Kafka's controllers that fall over one after the other hold `/controller` for a tenth of a second each."""
    world = OneController(takeover=Takeover.ONCE)
    held_by_kafka(world)
    world.start_broker(1)
    probes: list[Send] = []

    def answer(send: Send) -> int:
        probes.append(send)
        return STALE

    world.probe_answer = answer

    def raced(effect: object) -> None:
        if probes and "ControllerTaken" in str(world.context.awaited):
            world.meanwhile = lambda _: None
            world.write(SetData(paths.controller_epoch(), b"6", ANY_VERSION))

    world.meanwhile = raced
    world.elect()
    assert role(world) is Role.ACTIVE
    assert len(probes) == 1


def test_no_broker_registered_is_nothing_to_be_powerless_over() -> None:
    world = OneController()
    world.elect()
    assert role(world) is Role.ACTIVE


def test_registrations_that_nobody_understands_are_no_absence_of_brokers() -> None:
    world = OneController()
    world.write(Create(paths.broker_id(BrokerId(1)), b"{"), Create(paths.broker_id(BrokerId(2)), b"{}"))
    world.elect()
    assert role(world) is Role.REFUSED
    (why,) = refusals(world, "cluster")
    assert why.startswith("no registration says where its broker is: broker 1 (")
    assert "broker 2 (" in why
    world.start_broker(3)
    world.run()
    assert role(world) is Role.ACTIVE, "one that can be commanded is a cluster"


def test_standing_by_is_not_refused_because_of_brokers() -> None:
    world = OneController()
    held_by_kafka(world)
    world.start_broker(1, listeners=("SSL:SSL",))
    world.elect()
    assert role(world) is Role.STANDING_BY
