"""`lethe doctor --fix` in control of agents that nobody controls: another session holds `/controller` and sleeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from lethe.admin.doctor_ills import IllKind
from lethe.protocol.vocabulary import LeaderAndIsr
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import ANY_VERSION, Delete, SetData
from lethe.protocol.zookeeper.znodes import encode_state
from tests.fakes.haunting import haunt
from tests.fakes.sick_cluster import tree_of
from tests.fakes.zookeeper_cluster import apply
from tests.integration.test_rescue import SLEEPER, asleep, stored

pytestmark = [pytest.mark.zookeeper, pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(600)]

ROWS = [(1, 2), (2, 3)]


async def test_control_is_taken_for_what_was_chosen_and_given_back(zookeeper_chroot: str, tmp_path: Path) -> None:
    """A marked topic that is whole stays; the half-deleted one goes, and so do ghosts and foreign ISR members."""
    topics = {"half": ROWS, "marked": ROWS, "kept": ROWS}
    async with asleep(zookeeper_chroot, topics, ("half", "marked")) as (cluster, session, lethe):
        state = paths.partition_state("kept", 0)
        foreign = encode_state(LeaderAndIsr(1, 0, (1, 2, 9), 1))
        await apply(
            session,
            Delete(paths.partition_state("half", 0)),
            Delete(paths.topic_partition("half", 0)),
            SetData(state, foreign, ANY_VERSION),
        )
        await haunt(session, 1, "ghost", SLEEPER)
        backup = tmp_path / "backup"
        ran = await lethe("doctor", "--fix", "--yes", "--json", "--backup", str(backup))
        assert {each["kind"]: each["outcome"] for each in ran.data["repairs"]} == {
            IllKind.HALF_DELETED_TOPIC.code: "repaired",
            IllKind.STATE_OUTSIDE_ASSIGNMENT.code: "repaired",
            IllKind.CACHED_WITHOUT_TOPIC.code: "repaired",
            IllKind.CONTROLLER_NOT_REGISTERED.code: "repaired",
        }, ran
        tree = await tree_of(session)
        assert paths.CONTROLLER not in tree, "control is given back, and agents do not take it"
        assert (paths.topic("half") in tree, stored(cluster, "half")) == (False, [])
        assert paths.topic("marked") in tree
        assert paths.delete_topic("marked") in tree
        assert len(stored(cluster, "marked")) == len(stored(cluster, "kept")) == 4
        left = {each["kind"] for each in ran.data["ills"]}
        assert IllKind.NO_CONTROLLER.code in left
        assert not left & {each["kind"] for each in ran.data["repairs"]}
        back = await lethe("doctor", "--restore", str(backup), "--yes", "--json")
        assert back.code == 0, back
        restored = await tree_of(session)
        assert restored[state] == foreign
        assert {path for path in restored if "/half" in path} >= {paths.topic("half"), paths.delete_topic("half")}
