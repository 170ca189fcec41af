"""Directories in which others have mounted something: nothing is removed through a mount."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.compose.progress import say


def unmount_below(directory: Path) -> list[str]:
    """Unmounts everything in it; what is still mounted then."""
    for mount in sorted(_mounts(directory), reverse=True):
        subprocess.run(["umount", "--lazy", mount], capture_output=True, check=False)
    return _mounts(directory)


def remove(directory: Path) -> None:
    """Removes it, unless something is mounted in it that cannot be unmounted: that is said, and nothing is touched."""
    if left := unmount_below(directory):
        say(f"{directory} is left where it is, for there is still mounted: {', '.join(left)}")
        return
    shutil.rmtree(directory, ignore_errors=True)


def _mounts(directory: Path) -> list[str]:
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [each for each in mounted if each.startswith(f"{directory}/")]
