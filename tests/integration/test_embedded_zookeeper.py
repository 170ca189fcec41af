"""The ZooKeeper that Lethe brings along: it starts, survives being killed, says what is wrong, and leaves nothing."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lethe.cluster import zookeeper as module
from lethe.cluster.zookeeper import EmbeddedZooKeeper, ZooKeeperSettings, ZooKeeperStartFailed, four_letter_word

pytestmark = pytest.mark.zookeeper
ROOT = Path(__file__).parents[2]


def wait_until(condition: Callable[[], bool], limit_s: float = 60) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def answers(zookeeper: EmbeddedZooKeeper, timeout_s: float = 30.0) -> bool:
    return four_letter_word("127.0.0.1", zookeeper.port, "ruok", timeout_s) == "imok"


def exists(pid: int) -> bool:
    """True while the process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_it_can_be_killed_paused_and_started_again_on_its_port(own_zookeeper: EmbeddedZooKeeper) -> None:
    port, pid = own_zookeeper.port, own_zookeeper.pid
    assert answers(own_zookeeper)
    own_zookeeper.pause()
    assert not answers(own_zookeeper, timeout_s=0.2)
    own_zookeeper.resume()
    assert answers(own_zookeeper)
    own_zookeeper.kill()
    assert (own_zookeeper.is_running, own_zookeeper.pid, answers(own_zookeeper)) == (False, None, False)
    with pytest.raises(ProcessLookupError):
        own_zookeeper.pause()
    own_zookeeper.start()
    assert own_zookeeper.port == port
    assert own_zookeeper.pid != pid
    assert answers(own_zookeeper)
    with pytest.raises(ZooKeeperStartFailed, match="runs already"):
        own_zookeeper.start()


def test_a_port_in_use_is_named(own_zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> None:
    second = EmbeddedZooKeeper(ZooKeeperSettings(data_dir=tmp_path, port=own_zookeeper.port))
    with pytest.raises(ZooKeeperStartFailed, match=f"{own_zookeeper.port}.*in use"):
        second.start()
    assert not second.is_running


def test_a_port_taken_at_the_last_moment_is_replaced(
    own_zookeeper: EmbeddedZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = module._free_port
    offered = iter([own_zookeeper.port])
    monkeypatch.setattr(module, "_free_port", lambda host: next(offered, 0) or find(host))
    with EmbeddedZooKeeper() as second:
        assert second.port != own_zookeeper.port
        assert answers(second)


async def test_it_starts_without_blocking_the_loop_and_removes_its_directory() -> None:
    async with EmbeddedZooKeeper() as zookeeper:
        assert await asyncio.to_thread(answers, zookeeper)
        directory, pid = zookeeper.data_dir, zookeeper.pid
    assert pid is not None
    assert not exists(pid)
    assert not directory.exists()


def test_a_data_directory_of_ones_own_is_kept(tmp_path: Path) -> None:
    with EmbeddedZooKeeper(ZooKeeperSettings(data_dir=tmp_path / "zk")):
        pass
    assert (tmp_path / "zk" / "data").is_dir()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's help is Linux's")
def test_it_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "from lethe.cluster.zookeeper import EmbeddedZooKeeper\n"
        "z = EmbeddedZooKeeper(); z.start(); print(z.pid, flush=True); time.sleep(600)"
    )
    # Nobody is left to remove its temporary directory, so that is made where the test's own goes.
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, env=environment)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert exists(pid)
    parent.kill()
    parent.communicate()
    wait_until(lambda: not exists(pid))


def test_a_missing_java_is_explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ZooKeeperStartFailed, match="the embedded ZooKeeper needs Java 17"):
        EmbeddedZooKeeper().start()


def test_missing_jars_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ZooKeeperStartFailed, match="pip install"):
        EmbeddedZooKeeper().start()
