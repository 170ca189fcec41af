"""Another user than root, whom the rights of files concern."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65_534


@contextmanager
def unprivileged() -> Iterator[None]:
    """Rights count, even where the tests run as root."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)


@contextmanager
def open_directory() -> Iterator[Path]:
    """Give a directory that every user may enter; pytest's are closed to others."""
    with tempfile.TemporaryDirectory(prefix="lethe-test-") as name:
        place = Path(name)
        place.chmod(0o755)
        yield place
