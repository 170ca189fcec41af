"""Which controller is asked, and why none is."""

from __future__ import annotations

from lethe.admin.controllers import ask_active_controller
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create
from tests.fakes.forbidden_znodes import forbidding
from tests.fakes.zookeeper import FakeSession
from tests.fakes.zookeeper_cluster import apply


async def test_only_a_missing_znode_means_that_no_controller_is_active(session: FakeSession) -> None:
    assert (await ask_active_controller(session, None)).problem == "none is active"
    forbidden = forbidding(session, paths.CONTROLLER)
    problem = (await ask_active_controller(forbidden, None)).problem
    assert problem is not None
    assert problem.startswith("ZooKeeper does not give the data of /controller: NO_AUTH, since its access list")
    await apply(session, Create(paths.CONTROLLER, b"{"))
    problem = (await ask_active_controller(session, None)).problem
    assert problem is not None
    assert problem.startswith("znode /controller cannot be understood: ")
