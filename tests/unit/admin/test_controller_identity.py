"""Which controller acts on what a command writes."""

from __future__ import annotations

from lethe.admin.controller_identity import ControllerIdentity, acting_controller
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create
from tests.fakes.forbidden_znodes import forbidding
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply, elect


async def test_a_controller_that_is_absent_or_there(session: FakeSession) -> None:
    acting = await acting_controller(session)
    assert (acting, acting.is_absent, acting.is_kafka) == (ControllerIdentity(None, False), True, False)
    assert acting.note("replicas move") == "note: no controller is active; replicas move when there is one"
    await elect(session, 2)
    acting = await acting_controller(session)
    assert (acting, acting.is_absent, acting.is_kafka) == (ControllerIdentity(2, False), False, True)
    assert acting.note("replicas move") == ""


async def test_an_unseen_controller_has_no_id(session: FakeSession) -> None:
    forbidden = await acting_controller(forbidding(session, paths.CONTROLLER))
    assert forbidden.problem is not None
    assert forbidden.problem.startswith("ZooKeeper does not give the data of /controller: NO_AUTH, since its ")
    await apply(session, Create(paths.CONTROLLER, b"{"))
    malformed = await acting_controller(session)
    for acting in (forbidden, malformed):
        assert (acting.broker_id, acting.is_absent, acting.is_kafka, acting.is_lethe) == (None, False, False, False)
        assert acting.text == f"the active controller is unseen: {acting.problem}"
        assert acting.note("replicas move") == f"note: {acting.text}; replicas move when there is one"
