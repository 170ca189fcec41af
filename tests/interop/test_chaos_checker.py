"""The checker of `make chaos` on the cluster of `make chaos`: clean without faults, and each planted fault is found."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from lethe.admin.topic_plans import TopicPlan
from lethe.admin.topic_znodes import create_topics
from lethe.protocol.vocabulary import TopicId
from lethe.protocol.zookeeper import paths
from lethe.protocol.zookeeper.operations import Create, MultiDone
from tests.chaos.checker import MISSING, RESIDUE, Finding
from tests.chaos.cluster import ChaosCluster, chaos_cluster
from tests.chaos.history import History
from tests.chaos.looking import look
from tests.fakes.processes import running_with, wait_until
from tests.fakes.zookeeper_cluster import delete_tree
from tests.interop.conditions import until
from tests.interop.conftest import fetched

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.zookeeper,
    pytest.mark.processes,
    pytest.mark.timeout(400),
]
ROOT = Path(__file__).parents[2]
PLACES = {"lives": ((1, 2), (2, 3)), "real": ((6, 7),), "ghost": ((1, 7),)}


async def findings(cluster: ChaosCluster) -> tuple[History, set[Finding]]:
    history, verdict = await look(cluster)
    return history, set(verdict.findings)


def finds(cluster: ChaosCluster, kind: str, place: str, *words: str) -> Callable[[], Awaitable[bool]]:
    async def condition() -> bool:
        _, found = await findings(cluster)
        return any(
            each.kind == kind and each.place == place and all(word in each.text for word in words) for each in found
        )

    return condition


async def test_a_cluster_at_rest_is_clean_and_every_planted_fault_is_found(tmp_path: Path) -> None:
    async with chaos_cluster(tmp_path / "chaos", fetched("3.9.1")) as cluster, cluster.local.session() as session:
        plans = [TopicPlan(name, TopicId(uuid.uuid4()), replicas) for name, replicas in PLACES.items()]
        await create_topics(session, plans)

        async def is_clean() -> bool:
            history, found = await findings(cluster)
            return not found and not history.violations and len(history.living()) == len(PLACES)

        await until(is_clean, "every topic is whole, and nothing is wrong")

        leftover = cluster.log_dirs[1][0] / "gone-0"
        leftover.mkdir()
        await until(finds(cluster, RESIDUE, "disks", str(leftover)), "the directory of no topic is found")
        leftover.rmdir()

        assert isinstance(await session.multi([Create(paths.config_topic("gone"), b"{}")]), MultiDone)
        await until(finds(cluster, RESIDUE, "zookeeper", "/config/topics/gone"), "the configuration is found")

        (stolen,) = [path for log_dir in cluster.log_dirs[3] for path in log_dir.glob("lives-1")]
        shutil.move(stolen, tmp_path / "stolen")
        await until(finds(cluster, MISSING, "disks", "broker 3", "lives-1"), "the missing directory is found")

        # Without a controller nobody tells the brokers that the topic's znodes are gone.
        for controller in cluster.controllers.values():
            await controller.kill()
        await delete_tree(session, paths.topic("ghost"))
        for broker in (1, 7):
            await until(finds(cluster, RESIDUE, "caches", f"broker {broker} ", "ghost"), "the ghost is found")
        history, _ = await findings(cluster)
        assert any("topic ghost was not marked" in violation for violation in history.violations)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_interrupted_leaves_no_process_mount_or_directory(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "tests.chaos", "--minutes", "5", "--seed", "1", "--out", str(tmp_path / "out")]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    run = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert run.stderr is not None
        # The second line of progress comes when the whole cluster is up and faults have begun.
        for line in run.stderr:
            if "faults" in line:
                break
        assert running_with(str(tmp_path))
        run.send_signal(number)
        assert run.wait(60) == 130
    finally:
        run.kill()
        run.wait()
    wait_until(lambda: not running_with(str(tmp_path)), "no process of it is left", 10)
    assert str(tmp_path) not in Path("/proc/mounts").read_text()
    assert list(tmp_path.iterdir()) == []
