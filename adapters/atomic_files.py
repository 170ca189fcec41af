"""Atomic replacement of files."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Final

_MODE: Final = 0o644
"""Readable for other users, who often read these files."""


def demand_replaceable(path: Path) -> None:
    """Check that `replace_file` can work, without changing anything. Raises OSError."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not path.is_file():
        return
    path = path.resolve()
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(descriptor)
    os.unlink(temporary)


def replace_file(path: Path, text: str) -> None:
    """Replace the file's content atomically. A symbolic link stays. A special file such as /dev/stdout is written to.

    Raises OSError.
    """
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    path = path.resolve()
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            os.fchmod(descriptor, _MODE)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
