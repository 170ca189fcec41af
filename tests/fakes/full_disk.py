"""A file system of its own for a test, so small that the test can fill it: a tmpfs, where the rights allow a mount."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_PAGE_BYTES = 4096


@contextmanager
def small_disk(place: Path, size_bytes: int) -> Iterator[Path]:
    """Mount it at `place`; skips the test where mounting is not permitted."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(mount, capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if mounted.returncode != 0:
        pytest.skip(f"a tmpfs cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True, timeout=60)


def fill_up(place: Path) -> None:
    """Take every free block with one file."""
    file = os.open(place / "ballast", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        while True:
            os.write(file, bytes(_PAGE_BYTES))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    finally:
        os.close(file)


def is_full(place: Path) -> bool:
    """Whether not one more block can be had."""
    return os.statvfs(place).f_bavail == 0
