"""A child process that can be paused, killed and started again, and that ends with this process.

Theory of operation. Each child leads its own session and process group: Ctrl-C at our terminal does not reach it, and a
signal to it reaches its own children too. Three mechanisms end it: `stop` does so in good order, a finalizer at the
interpreter's exit, and the kernel (on Linux) when the thread that started the child ends. So start children from a
thread that lives long enough, such as the main one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_LAUNCHER: Final = """\
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))
if os.getppid() != int(sys.argv[1]):
    sys.exit("the process that wanted this one is gone")
os.execvp(sys.argv[2], sys.argv[2:])
"""
TAIL_BYTES: Final = 4000


def die_with_parent(command: Sequence[str]) -> list[str]:
    """Return the command behind a launcher that makes the kernel kill it when the starting thread ends."""
    return [sys.executable, "-S", "-E", "-c", _LAUNCHER, str(os.getpid()), *command]


class ChildProcess:
    """One command with its output in a file; it can be started again after it has ended. Not thread-safe."""

    def __init__(
        self, name: str, command: Sequence[str], *, log_file: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name: Final = name
        self.log_file: Final = log_file
        self._command = tuple(command)
        self._environment = None if environment is None else dict(environment)
        self._log_start = 0
        self._holder: list[subprocess.Popen[bytes]] = []
        self._finalizer = weakref.finalize(self, _kill_all, self._holder)

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._holder[0].pid if self.is_running else None

    @property
    def is_running(self) -> bool:
        """True while there is a process, paused or not."""
        return bool(self._holder) and self._holder[0].poll() is None

    @property
    def exit_code(self) -> int | None:
        """Exit code of the last run, negative for a signal; None while it runs and before the first start."""
        return self._holder[0].poll() if self._holder else None

    def start(self) -> None:
        """Start it. Raises RuntimeError if it is running, OSError if the command cannot be run."""
        if self.is_running:
            raise RuntimeError(f"{self.name} runs already")
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            self._log_start = log.tell()
            process = subprocess.Popen(
                die_with_parent(self._command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.log_file.parent,
                env=self._environment,
                start_new_session=True,
            )
        self._holder[:] = [process]

    def output(self) -> str:
        """Return the output of this run so far."""
        try:
            with self.log_file.open("rb") as log:
                log.seek(self._log_start)
                return log.read().decode(errors="replace")
        except OSError:
            return ""

    def output_tail(self) -> str:
        """Return the end of the output, for messages."""
        return self.output()[-TAIL_BYTES:]

    # --- signals --------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Send SIGSTOP and wait for its effect: connections stay open, requests stay unanswered."""
        self._signal(signal.SIGSTOP)
        await_stopped(self._holder[0].pid)

    def resume(self) -> None:
        """Send SIGCONT."""
        self._signal(signal.SIGCONT)

    async def kill(self) -> None:
        """Send SIGKILL and wait for the end, paused or not."""
        self._signal(signal.SIGKILL)
        await self._ended(10.0)

    async def stop(self, limit_s: float = 15.0) -> int | None:
        """Send SIGTERM, then SIGKILL after the limit; return the exit code. It may have ended already."""
        if self.is_running:
            self._ask_to_end()
            if not await self._ended(limit_s):
                await self.kill()
        return self.exit_code

    def end(self, limit_s: float) -> None:
        """As `stop`, but blocking."""
        if self.is_running:
            self._ask_to_end()
            try:
                self._holder[0].wait(limit_s)
            except subprocess.TimeoutExpired:
                self.close()

    def close(self) -> None:
        """Kill it at once, and wait for its end."""
        _kill_all(self._holder)

    def _ask_to_end(self) -> None:
        # It may end between the two signals.
        with contextlib.suppress(ProcessLookupError):
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        pid = self.pid
        if pid is None:
            raise ProcessLookupError(f"{self.name} is not running")
        _signal_group(pid, number)

    async def _ended(self, limit_s: float) -> bool:
        deadline = time.monotonic() + limit_s
        while self.is_running:
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.01)
        return True


def await_stopped(pid: int) -> None:
    """Wait until our child has stopped after SIGSTOP: until its last thread stops, it may still answer requests."""
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def _signal_group(pid: int, number: signal.Signals) -> None:
    """Signal the child's group, or the child alone before it has created one."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        os.kill(pid, number)


def _kill_all(holder: list[subprocess.Popen[bytes]]) -> None:
    for process in holder:
        if process.poll() is None:
            _signal_group(process.pid, signal.SIGKILL)
            process.wait()
