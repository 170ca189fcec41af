"""The local cluster: it starts, its daemons can be killed, paused and started again, and nothing is left behind."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lethe.adapters.kafka.reach import PLAINTEXT_REACH
from lethe.cluster.daemons import DaemonFailed
from lethe.cluster.local import ClusterSettings, LocalCluster, WorkDirectoryInUse
from lethe.survey.take import take_survey
from tests.fakes.processes import running_with, wait_until

pytestmark = [pytest.mark.zookeeper, pytest.mark.processes]
ROOT = Path(__file__).parents[2]


def small(connect: str, **changes: object) -> ClusterSettings:
    return ClusterSettings(
        controllers=1,
        brokers=1,
        log_dirs=2,
        zookeeper_connect=connect,
        session_timeout_ms=2_000,
        **changes,  # type: ignore[arg-type]
    )


async def test_daemons_are_killed_paused_and_started_again(zookeeper_chroot: str) -> None:
    async with LocalCluster(small(zookeeper_chroot)) as cluster:
        work_dir = cluster.work_dir
        (controller,), (broker,) = cluster.controllers, cluster.brokers
        assert await cluster.active_controller() is controller
        async with cluster.session() as session:
            survey = await take_survey(session, PLAINTEXT_REACH, log_dirs=cluster.log_dirs)
        assert [b.id for b in survey.zookeeper.brokers] == [broker.id]
        assert survey.is_complete
        first_pid, first_url = broker.pid, broker.http_url
        broker.pause()
        assert await broker.get("/state", limit_s=0.2) is None
        broker.resume()
        assert await broker.get("/state") is not None
        await broker.kill()
        assert (broker.is_running, broker.pid, broker.process.exit_code) == (False, None, -signal.SIGKILL)
        assert await broker.get("/state") is None
        await broker.start()
        assert broker.pid != first_pid
        assert broker.http_url != first_url
        assert await controller.stop() == 0
        await controller.start()
        assert await cluster.active_controller() is controller
    assert running_with(str(work_dir)) == []
    assert not work_dir.exists()


async def test_a_daemon_that_cannot_start_says_why(zookeeper_chroot: str) -> None:
    settings = small(zookeeper_chroot, broker_properties={"listeners": "PLAINTEXT://192.0.2.1:0"})
    cluster = LocalCluster(settings)
    with pytest.raises(DaemonFailed, match=r"(?s)broker 1 has ended with exit code 2 .*192\.0\.2\.1") as failed:
        async with cluster:
            raise AssertionError("the cluster cannot have started")
    assert str(cluster.work_dir) in str(failed.value)
    assert running_with(str(cluster.work_dir)) == []


async def test_a_work_directory_of_ones_own_is_kept_and_must_be_empty(zookeeper_chroot: str, tmp_path: Path) -> None:
    work_dir = tmp_path / "work"
    async with LocalCluster(small(zookeeper_chroot, work_dir=work_dir)) as cluster:
        await cluster.active_controller()
    assert (work_dir / "broker-1" / "broker.log").exists()
    assert list((work_dir / "controller-1001" / "journal").glob("*.jsonl"))
    with pytest.raises(WorkDirectoryInUse, match="not an empty directory"):
        LocalCluster(small(zookeeper_chroot, work_dir=work_dir))


async def test_a_cluster_that_is_cancelled_while_starting_leaves_nothing(zookeeper_chroot: str) -> None:
    cluster = LocalCluster(small(zookeeper_chroot))

    async def start() -> None:
        async with cluster:
            raise AssertionError("the cluster cannot have started")

    task = asyncio.create_task(start())
    while not cluster.daemons or not all(daemon.is_running for daemon in cluster.daemons):
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert running_with(str(cluster.work_dir)) == []
    assert not cluster.work_dir.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's help is Linux's")
def test_it_dies_with_a_parent_that_is_killed(zookeeper_chroot: str, tmp_path: Path) -> None:
    program = (
        "import asyncio\n"
        "from pathlib import Path\n"
        "from lethe.cluster.local import ClusterSettings, LocalCluster\n"
        "async def main():\n"
        f"    settings = ClusterSettings(1, 1, 1, Path({str(tmp_path / 'work')!r}), {zookeeper_chroot!r})\n"
        "    async with LocalCluster(settings):\n"
        "        print('up', flush=True)\n"
        "        await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"up\n"
    assert len(running_with(str(tmp_path / "work" / "broker-1"))) == 1
    parent.kill()
    parent.communicate()
    wait_until(lambda: not running_with(str(tmp_path / "work") + "/"), "the daemons' end")


def test_settings_that_make_no_cluster_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one controller"):
        ClusterSettings(controllers=0)
