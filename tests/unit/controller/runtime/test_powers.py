"""What is shown of brokers: the core's standings, and the channels' failures of TLS and logins."""

from __future__ import annotations

import pytest

from lethe.controller.core.cluster_state import LastResponse
from lethe.controller.core.context import Role
from lethe.controller.core.power import BrokerStanding
from lethe.controller.core.power_view import PowerView
from lethe.controller.runtime.brokers import ChannelProblem
from lethe.controller.runtime.powers import PowerWatch, power_json
from lethe.protocol.causes import CauseKind, remedy
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Delete
from tests.fakes.one_controller import OneController
from tests.fakes.runtime import ManualClock
from tests.scenarios.plot import cluster

REFUSED = "b:9092 refuses user lethe; check its password"


def look(world: OneController, reason: str, *brokers: int, lasts_ms: int = 1_000) -> PowerView:
    clock = ManualClock()
    clock.ms = world.now_ms
    problems = {BrokerId(broker): ChannelProblem(reason, REFUSED, 3, lasts_ms) for broker in brokers}
    return PowerWatch(lambda: world.context, clock, lambda: problems).look()


def role(world: OneController) -> Role:
    return world.context.role


@pytest.mark.parametrize("reason", ["login", "tls"])
def test_a_broker_where_the_login_fails_does_not_obey_although_it_did(reason: str) -> None:
    world = cluster()
    world.run()
    assert look(world, "unreachable", 2).note is None
    view = look(world, reason, 2)
    assert (view.reason, view.note) == (None, f"broker 2: TLS or the login of this controller fails there, {REFUSED}")
    (shown,) = power_json(view)
    assert (shown["cause"], shown["last_error"]) == ("BROKER_NO_ACCESS", REFUSED)
    assert (shown["meaning"], shown["since_ms"]) == (BrokerStanding.NO_ACCESS.value, world.now_ms - 1_000)
    assert shown["unblock"] == remedy(CauseKind.BROKER_NO_ACCESS, "", broker=2)


def test_a_controller_that_no_broker_lets_in_is_not_ready() -> None:
    world = cluster()
    world.run()
    after_ms = world.context.config.powerless_after_ms
    assert look(world, "login", 1, 2, 3, lasts_ms=after_ms - 1).reason is None
    view = look(world, "login", 1, 2, 3, lasts_ms=after_ms)
    assert view.reason == (
        "no registered broker accepts this controller's requests: "
        f"brokers 1, 2, 3: TLS or the login of this controller fails there, {REFUSED}"
    )
    assert view.powerless_s == after_ms / 1000


def test_a_missing_right_is_shown_with_who_lacks_it() -> None:
    world = cluster()
    world.run()
    refused = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    world.context.cluster.last_answers[BrokerId(2)] = LastResponse(BrokerEpoch(0), refused, 0, 0)
    view = look(world, "login")
    assert view.note == (
        "broker 2: its authorizer refuses this controller the right ClusterAction; "
        f"grant {world.context.config.principal} ClusterAction on the cluster"
    )


def test_a_controller_that_stands_by_tells_what_its_latest_probe_found() -> None:
    world = OneController()
    for broker in (1, 2, 3):
        world.start_broker(broker)
    world.refused_logins[3] = None
    world.elect()
    assert role(world) is Role.REFUSED
    refused_ms = world.now_ms
    other, znode = world.zookeeper.open_session(), znodes.encode_controller(znodes.ControllerZnode(BrokerId(9), 0))
    world.zookeeper.multi(other, [Create(paths.controller(), znode, ephemeral=True)])
    world.advance(60_000)
    assert role(world) is Role.STANDING_BY
    ago = f"{(world.now_ms - refused_ms) // 1000} seconds ago"
    why = "this controller has no access to broker 3 (it refuses user lethe)"
    view = look(world, "login")
    assert (view.reason, view.note) == (
        None,
        f"{ago} this controller did not take control, and has not probed brokers since: {why}",
    )
    world.refused_logins.clear()
    world.write(Delete(paths.controller()))
    world.run()
    assert role(world) is Role.ACTIVE
    assert world.context.not_passed is None
