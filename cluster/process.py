"""A child process that leaves nothing behind: paused, killed and started again at will, and gone when we are.

Theory of operation. Each child leads a session and process group of its own, so Ctrl-C at our terminal does not reach
it and a signal to it reaches its own children too. It ends with us in three ways: in good order through `stop`; at the
interpreter's exit through a finalizer; and where we are killed outright, through the kernel, which is asked (on Linux)
to kill a child when the thread that started it is gone. So start children from a thread that lives as long as they
should, such as the main one.
"""

from __future__ import annotations

import asyncio
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


def tied_to_us(command: Sequence[str]) -> list[str]:
    """The command, run through a launcher that has the kernel kill it when the starting thread is gone."""
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
        """Of the last run, negative for a signal; None while it runs and before the first start."""
        return self._holder[0].poll() if self._holder else None

    def start(self) -> None:
        """Starts it. Raises RuntimeError where it runs already, OSError where it cannot be run."""
        if self.is_running:
            raise RuntimeError(f"{self.name} runs already")
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            self._log_start = log.tell()
            process = subprocess.Popen(
                tied_to_us(self._command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.log_file.parent,
                env=self._environment,
                start_new_session=True,
            )
        self._holder[:] = [process]

    def output(self) -> str:
        """What this run has written so far."""
        try:
            with self.log_file.open("rb") as log:
                log.seek(self._log_start)
                return log.read().decode(errors="replace")
        except OSError:
            return ""

    def output_tail(self) -> str:
        """The end of it, for messages."""
        return self.output()[-TAIL_BYTES:]

    # --- signals --------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Stops the process without ending it: connections stay open, nothing is answered from now on."""
        self._signal(signal.SIGSTOP)
        await_stopped(self._holder[0].pid)

    def resume(self) -> None:
        """Lets a paused process go on."""
        self._signal(signal.SIGCONT)

    async def kill(self) -> None:
        """Ends it as `kill -9` does, paused or not."""
        self._signal(signal.SIGKILL)
        await self._ended(10.0)

    async def stop(self, limit_s: float = 15.0) -> int | None:
        """Asks it to end (SIGTERM), and by force after the limit; its exit code. It may not be running."""
        if self.is_running:
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)
            if not await self._ended(limit_s):
                await self.kill()
        return self.exit_code

    def close(self) -> None:
        """Ends it by force, now; for the way out."""
        _kill_all(self._holder)

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
    """Returns once the last thread of our child, to which SIGSTOP was sent, has stopped: until then one of them may
    still answer somebody."""
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def _signal_group(pid: int, number: signal.Signals) -> None:
    """To the child's group, or to the child alone in the moment before it has one."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        os.kill(pid, number)


def _kill_all(holder: list[subprocess.Popen[bytes]]) -> None:
    for process in holder:
        if process.poll() is None:
            _signal_group(process.pid, signal.SIGKILL)
            process.wait()
