"""What daemons and commands say, as processes, where ZooKeeper is not there, an id is taken, or a terminal hangs up."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.fakes.command_line import Lethe
from tests.fakes.daemon_process import daemon

pytestmark = [pytest.mark.zookeeper, pytest.mark.processes, pytest.mark.timeout(180)]

NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize("kind", ["controller", "broker"])
async def test_a_daemon_goes_on_after_sighup_and_says_that_nothing_is_reloaded(
    kind: str, zookeeper_chroot: str, tmp_path: Path
) -> None:
    more = {"log_dirs": str(tmp_path / "data"), "listeners": "PLAINTEXT://127.0.0.1:0"} if kind == "broker" else {}
    async with daemon(kind, tmp_path, 1001, zookeeper_chroot, **more) as running:
        await running.says("ession")
        running.process.send_signal(signal.SIGHUP)
        await running.says("received SIGHUP: the file is read at the start only")
        assert running.process.returncode is None
        running.process.send_signal(signal.SIGTERM)
        assert await running.ends() == 0, running.said


async def test_a_second_controller_of_one_id_is_refused(zookeeper_chroot: str, tmp_path: Path) -> None:
    async with daemon("controller", tmp_path, 1001, zookeeper_chroot) as first:
        await first.says("ZooKeeper session established")
        async with daemon("controller", tmp_path, 1001, zookeeper_chroot) as second:
            assert await second.ends() == 2, second.said
        assert f"process {first.process.pid}) has the id of controller 1001" in second.said
        assert "give this controller a broker.id of its own (it is 1001)" in second.said
        assert first.process.returncode is None


async def test_a_command_that_cannot_reach_zookeeper_says_so_before_it_gives_up() -> None:
    ran = await Lethe(NOWHERE)("topics", "list")
    assert ran.code == 3, ran
    *trying, last = ran.err.splitlines()
    assert trying, ran
    assert all(line.startswith(f"still trying to reach ZooKeeper at {NOWHERE} after") for line in trying)
    assert all("Connect call failed" in line for line in trying)
    assert last.startswith("lethe: no ZooKeeper session within 10000 ms")


async def test_a_daemon_that_cannot_reach_zookeeper_says_so_while_it_tries(tmp_path: Path) -> None:
    async with daemon("controller", tmp_path, 1001, NOWHERE, zookeeper_connection_timeout_ms="600000") as running:
        await running.says(f"still trying to reach ZooKeeper at {NOWHERE} after")
        assert "ZooKeeper cannot be used" not in running.said
