"""Where results come from: the day, the machine, the commit, and the builds of what ran.

A result keeps its own origin, in its field `measured`, so that runs can be merged: what an earlier run measured is not
shown under a later commit. A run takes its origin once, at its start: sources that change meanwhile are not what ran.
"""

from __future__ import annotations

import os
import platform
import re
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
MEASURED: Final = "measured"
"""Field of a result: its origin."""
DIRTY: Final = "-dirty"
"""What the name of a commit ends with where the sources had uncommitted changes."""
_SYSTEM_PREFIX: Final = "/usr"
Origin = dict[str, Any]


def origin(versions: Mapping[str, str] | None = None) -> Origin:
    """Return the origin of what is measured now. `versions` are those of other programs that take part."""
    return {
        "when": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": machine(),
        "versions": {**(versions or {}), "Lethe": commit(), "Python": python_build()},
    }


def measured_on(found: Origin, *parts: str) -> str:
    """Return a sentence: the day, these parts of the machine, and all versions."""
    versions = ", ".join(f"{name} {_plainly(version)}" for name, version in found["versions"].items())
    return f"Measured on {found['when']}: {', '.join(found['machine'][part] for part in parts)}; {versions}."


def _plainly(version: str) -> str:
    return f"{version.removesuffix(DIRTY)} with uncommitted changes" if version.endswith(DIRTY) else version


def told(results: Iterable[tuple[Origin, str]], *parts: str) -> list[str]:
    """Return lines that say where results come from, each with its name: one sentence, or a list of runs."""
    runs: dict[str, dict[str, None]] = {}
    for found, name in results:
        runs.setdefault(measured_on(found, *parts), {})[name] = None
    if len(runs) < 2:
        return list(runs)
    return [
        f"Measured in {len(runs)} runs:",
        "",
        *(f"* {', '.join(names)}: {run[0].lower()}{run[1:]}" for run, names in runs.items()),
    ]


# --- the commit ---------------------------------------------------------------------------------------------------


def commit() -> str:
    """Return the measured commit, with `DIRTY` where the sources differ from it; `unknown` without git."""
    try:
        name = _git("describe", "--always")
        return f"{name}{DIRTY}" if uncommitted() else name
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def uncommitted() -> list[str]:
    """Return the changes that no commit has, as `git status` lists them. docs/, which runs write, does not count.

    Raises OSError or CalledProcessError without git.
    """
    return _git("status", "--porcelain", "--", ":/", ":(top,exclude)docs").splitlines()


def refusal(output: Path | None) -> str | None:
    """Return why results must not go into that directory: in the project's docs they need a commit. None: they may."""
    if output is None or output.resolve() != DOCS.resolve():
        return None
    try:
        changes = uncommitted()
    except (OSError, subprocess.CalledProcessError):
        return None
    if not changes:
        return None
    return (
        f"the sources have {len(changes)} uncommitted changes ({changes[0].strip()}, …), so {DOCS.name}/ could name no "
        "commit: commit them, or measure without writing there"
    )


def _git(*asked: str) -> str:
    command = ["git", "-C", str(ROOT), *asked]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


# --- builds -------------------------------------------------------------------------------------------------------


def python_build() -> str:
    """Return version and build of this interpreter: `3.11.7 (GCC 12.2.0, PGO, no LTO)`."""
    arguments = sysconfig.get_config_var("CONFIG_ARGS") or ""
    has_own_rules = sys.base_prefix == _SYSTEM_PREFIX
    described = build(platform.python_compiler(), str(arguments), _distribution() if has_own_rules else None)
    return f"{platform.python_version()} ({described})"


def build(compiler: str, arguments: str, distribution: str | None) -> str:
    """Return compiler and optimisations of a build that was configured with these arguments.

    The rules of a distribution's package may optimise without a word in `configure`'s arguments, as Debian's do: there
    an optimisation that is not named is unknown.
    """
    named = {"PGO": "--enable-optimizations" in arguments, "LTO": "--with-lto" in arguments}
    there = [name for name, is_named in named.items() if is_named]
    absent = [name for name, is_named in named.items() if not is_named]
    if distribution is None:
        return ", ".join([compiler, *there, *(f"no {name}" for name in absent)])
    silent = f", whose CONFIG_ARGS do not name {' or '.join(absent)}" if absent else ""
    return ", ".join([compiler, *there, f"package of {distribution}{silent}"])


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return "the distribution"


# --- the machine --------------------------------------------------------------------------------------------------


def machine() -> dict[str, str]:
    """Return processor, memory, system and disk in words."""
    memory = re.search(r"^MemTotal:\s+(\d+) kB$", _text("/proc/meminfo"), re.MULTILINE)
    model = re.search(r"^model name\s*:\s*(.+)$", _text("/proc/cpuinfo"), re.MULTILINE)
    return {
        "processor": f"{model[1] if model else platform.machine()}, {os.cpu_count()} cores",
        "memory": f"{int(memory[1]) / 2**20:.0f} GB" if memory else "unknown",
        "system": f"{platform.system()} {platform.release()}",
        "disk": f"{_forced_write_ms():.2g} ms to force a write to the disk",
    }


def _forced_write_ms() -> float:
    """Return the median time of a forced write, on the disk of the run's files."""
    took_s = []
    # A file with a name: one without may never reach the disk.
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(25):
            file.write(bytes(512))
            file.flush()
            began_s = time.perf_counter()
            os.fdatasync(file.fileno())
            took_s.append(time.perf_counter() - began_s)
    return statistics.median(took_s) * 1000


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
