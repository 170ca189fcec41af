"""Tests that run in the background: a shell without job control starts them with SIGINT ignored."""

from __future__ import annotations

import subprocess
import sys

IGNORING = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
import tests.conftest
signal.raise_signal(signal.SIGINT)
"""


def test_processes_of_tests_can_be_interrupted() -> None:
    process = subprocess.run([sys.executable, "-c", IGNORING], capture_output=True, text=True, timeout=60)
    assert process.stderr.endswith("KeyboardInterrupt\n")
