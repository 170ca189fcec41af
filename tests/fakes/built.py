"""Builds what is published, and runs it without the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


def outside(**more: str) -> dict[str, str]:
    """An environment without the checkout's variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LETHE_"))}
    return {**kept, **more}


def ran(*command: str | Path, cwd: Path) -> str:
    """Output of a command that sees nothing of the checkout. Fails with its output where it does."""
    done = subprocess.run(command, cwd=cwd, env=outside(), capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def built(source: Path, directory: Path, *kinds: str) -> Path:
    """The one file that was built last, in `directory`. Kinds are hatchling's: sdist, wheel."""
    for kind in kinds:
        ran(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", directory, cwd=source)
    (found,) = directory.iterdir()
    return found
