"""What the board shows of a broker."""

from __future__ import annotations

from lethe.controller.runtime.board.view import broker_status
from lethe.protocol.vocabulary import BrokerId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ZkError
from tests.fakes.forbidden_znodes import NO_AUTH
from tests.scenarios.plot import cluster

TWO = BrokerId(2)


def test_the_status_of_a_broker() -> None:
    world = cluster(1, 2)
    assert broker_status(world.context, TWO, None) == {"status": "registered", "gone_ms": None, "problem": None}
    assert broker_status(world.context, TWO, "SILENT: no answer")["status"] == "unreachable"
    world.context.cluster.shutting_down[TWO] = None
    assert broker_status(world.context, TWO, None)["status"] == "shutting down"
    world.stop_broker(2)
    world.run()
    assert broker_status(world.context, TWO, None) == {
        "status": "not registered",
        "gone_ms": world.now_ms,
        "problem": None,
    }


def test_a_registration_that_cannot_be_read_is_no_absence() -> None:
    world = cluster(1)
    world.refusals[paths.broker_id(TWO)] = ZkError.NO_AUTH
    world.start_broker(2)
    world.run()
    assert broker_status(world.context, TWO, None) == {
        "status": "unreadable",
        "gone_ms": None,
        "problem": f"/brokers/ids/2: reading it failed with {NO_AUTH}",
    }
