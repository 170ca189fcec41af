"""Child processes that end sooner than they are ended."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from lethe.cluster.process import ChildProcess

pytestmark = pytest.mark.processes
LIMIT_S = 60.0


class EndedByTheFirstSignal(ChildProcess):
    """Waits after SIGTERM until the process has ended, as it may at any time."""

    def _signal(self, number: signal.Signals) -> None:
        super()._signal(number)
        deadline = time.monotonic() + LIMIT_S
        while number is signal.SIGTERM and self.is_running:
            assert time.monotonic() < deadline, "SIGTERM does not end it"


@pytest.fixture
def sleeping(tmp_path: Path) -> ChildProcess:
    process = EndedByTheFirstSignal("sleep", ["sleep", "60"], log_file=tmp_path / "log")
    process.start()
    return process


async def test_it_may_end_between_the_signals_of_stop(sleeping: ChildProcess) -> None:
    assert await sleeping.stop(LIMIT_S) == -signal.SIGTERM
    assert await sleeping.stop(LIMIT_S) == -signal.SIGTERM


def test_it_may_end_between_the_signals_of_end(sleeping: ChildProcess) -> None:
    sleeping.end(LIMIT_S)
    assert sleeping.exit_code == -signal.SIGTERM
