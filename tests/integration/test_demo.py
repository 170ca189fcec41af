"""The demo: clean means exit code 0, one leftover means 1, and chaos ends clean and says what topics waited for."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lethe.admin.refusal import Exit
from lethe.cli.demo_show import answer
from lethe.cluster.demo import run_demo
from lethe.cluster.demo_chaos import GONE, Chaos
from lethe.cluster.demo_plan import DemoOptions
from lethe.cluster.demo_waits import WaitCause
from lethe.cluster.demo_watch import SilentWatcher
from tests.fakes.processes import running_with, wait_until

pytestmark = [pytest.mark.zookeeper, pytest.mark.processes, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]
SMALL = ("--topics", "5", "--partitions", "2", "--bytes", "8192", "--json")


def lethe_demo(work_dir: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "lethe", "demo", "--work-dir", str(work_dir), *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def document(demo: subprocess.Popen[bytes], exit_code: int) -> dict[str, Any]:
    """What it printed, which must be one JSON document and nothing else."""
    out, err = demo.communicate(timeout=240)
    assert demo.returncode == exit_code, err.decode()
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


def test_a_clean_deletion_is_proven_and_exits_with_0(tmp_path: Path) -> None:
    found = document(lethe_demo(tmp_path / "work", *SMALL), Exit.OK)
    assert (found["clean"], found["topics"], found["partitions"], found["replicas"]) == (True, 5, 10, 30)
    assert found["bytes_reclaimed"] == sum(broker["bytes_before"] for broker in found["brokers"])
    assert found["bytes_reclaimed"] > 30 * 8192
    assert [broker["bytes_freed"] for broker in found["brokers"]] == [b["bytes_before"] for b in found["brokers"]]
    assert [broker["acknowledged"] for broker in found["brokers"]] == [10, 10, 10]
    assert [(phase["phase"], phase["reached_by"]) for phase in found["phases"]] == [
        ("tombstoned", 5),
        ("acknowledged", 5),
        ("removed", 5),
        ("reclaimed", 3),
    ]
    survey = found["survey"]
    assert (survey["complete"], survey["findings"], survey["problems"]) == (True, [], [])
    assert len(survey["brokers"]) == 3
    assert len(survey["log_dirs"]) == 6
    assert running_with(str(tmp_path / "work")) == []


def test_one_directory_that_should_not_be_there_exits_with_1(tmp_path: Path) -> None:
    work_dir = tmp_path / "work"
    demo = lethe_demo(work_dir, *SMALL)
    log_dir, log = work_dir / "broker-2" / "logs-1", work_dir / "broker-2" / "broker.log"
    wait_until(lambda: log.exists() and "broker agent 2 is up" in log.read_text(), "broker 2 has looked around", 120)
    (log_dir / "ghost-7").mkdir()
    (log_dir / "ghost-7" / "00000000000000000000.log").write_bytes(b"somebody's bytes")
    found = document(demo, Exit.NO)
    assert found["clean"] is False
    (finding,) = found["survey"]["findings"]
    assert (finding["place"], finding["reason"], finding["broker"]) == ("disk", "directory_without_topic", 2)
    assert finding["what"] == str(log_dir / "ghost-7")
    assert found["bytes_reclaimed"] > 30 * 8192
    assert (log_dir / "ghost-7" / "00000000000000000000.log").read_bytes() == b"somebody's bytes"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_demo_leaves_nothing_running(tmp_path: Path, number: signal.Signals) -> None:
    demo = lethe_demo(tmp_path / "work", *SMALL)
    wait_until(lambda: len(running_with(str(tmp_path / "work" / "broker-"))) == 3, "the brokers' start", 120)
    demo.send_signal(number)
    out, _ = demo.communicate(timeout=240)
    assert (demo.returncode, out) == (Exit.INTERRUPTED, b"")
    assert running_with(str(tmp_path / "work")) == []


def test_contradictory_options_are_explained(tmp_path: Path) -> None:
    demo = lethe_demo(tmp_path / "work", "--brokers", "2", "--replication-factor", "3")
    _, err = demo.communicate(timeout=240)
    assert demo.returncode == Exit.USAGE
    assert b"--replication-factor 3 needs as many brokers, and --brokers is 2" in err
    assert not (tmp_path / "work").exists()


async def test_chaos_ends_clean_and_says_what_topics_waited_for(zookeeper_chroot: str) -> None:
    options = DemoOptions(
        topics=12,
        partitions=2,
        replication_factor=2,
        bytes_per_replica=4096,
        zookeeper_connect=zookeeper_chroot,
        session_timeout_ms=4_000,
        limit_s=240,
        chaos=True,
    )
    result = await run_demo(options, SilentWatcher(), extension=Chaos())
    assert result.findings == ()
    assert result.is_clean
    assert answer(result).exit is Exit.OK
    assert result.waits is not None
    waited = result.waits.topics_by_cause()[WaitCause(GONE, 3)]
    assert (len(waited), result.untouched) == (8, 4)
    told_by = [result.waits.topics[topic][WaitCause(GONE, 3)].told_by for topic in waited]
    assert all(set(controllers) == {1001, 1002} for controllers in told_by)
    told = [happening.text for happening in result.happenings]
    kills = [text for text in told if text.startswith("kill -9")]
    assert kills[0] == "kill -9 of broker 3: 4 topics are acknowledged, 8 wait for its answer"
    assert kills[1].endswith("the active controller")
    assert any(text.endswith("is elected") for text in told)
    assert all(broker.bytes_after == 0 for broker in result.brokers)
