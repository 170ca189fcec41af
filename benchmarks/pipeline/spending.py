"""What a command and all its descendants spend: processor time, elapsed time, memory."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.pipeline.watch import MemoryWatch
from lethe.cluster.process import die_with_parent

_PR_SET_CHILD_SUBREAPER: Final = 36


class Spent(NamedTuple):
    """Of one command."""

    exit_code: int
    processor_s: float
    seconds: float
    peak_bytes: int


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent ends, for the life of this process.

    Spark's JVM outlives the Python process that started it, and would not be counted. Raises OSError.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def spend(command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], output: Path) -> Spent:
    """Run the command to its end, and to that of its descendants. This process has adopted orphans, and has no other
    children. Its output is appended to the file."""
    before, began_s = _processor_s(), time.monotonic()
    with output.open("ab") as file:
        child = subprocess.Popen(
            die_with_parent(command), cwd=cwd, env=dict(environment), stdout=file, stderr=subprocess.STDOUT
        )
        with child, MemoryWatch(child.pid) as watch:
            child.wait()
            seconds = time.monotonic() - began_s
    _wait_for_all()
    return Spent(child.returncode, _processor_s() - before, seconds, watch.peak_bytes)


def _wait_for_all() -> None:
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
