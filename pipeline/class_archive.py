"""An archive of Spark's classes, from which Java starts Spark with less work: `lethe pipeline prepare` makes it once.

Whenever it starts, Spark has Java read, check and link some ten thousand classes. Java can keep them in a file as it
has them in memory, and map that (class data sharing). Java itself checks that the file is of the same Java and the same
jars, and otherwise starts without it. Two things it does not check:

* It crashes on a file that has been cut off. The name has the size, so that such a file is recognised.
* Whoever writes the file decides what Spark runs. One that another user may have written is left alone.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from lethe.adapters.user_cache import user_cache

_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_DIVIDES_PATHS: Final = frozenset("\"'\\:")
"""Spark takes quotes and backslashes out of options, and Java takes a colon for the end of an archive's name."""
MAKES_ARCHIVE: Final = "-XX:ArchiveClassesAtExit="
_USES_ARCHIVE: Final = "-XX:SharedArchiveFile="


def option_for(spark_version: str, directory: Path | None = None) -> str | None:
    """Return Java's option to use the archive of this Spark in this directory, or else in that of this user; None if
    none is there, whole and this user's alone."""
    try:
        directory = directory or user_cache(os.environ)
        if why_unusable(directory) is not None:
            return None
        usable = [archive for archive in _archives(spark_version, directory) if _is_usable(archive)]
    except OSError:
        return None
    return f"{_USES_ARCHIVE}{usable[0]}" if usable else None


def why_unusable(directory: Path) -> str | None:
    """Return why Java is given no archive in this directory, and what to do. Raises OSError."""
    if any(letter in _DIVIDES_PATHS or letter.isspace() for letter in str(directory)):
        return (
            f"Spark or Java would divide the path {directory} at its space, quote, backslash or colon: set "
            "XDG_CACHE_HOME to another one"
        )
    if not _is_ours_alone(directory.stat()):
        return f"another user may write to {directory}: make it yours alone (chown, chmod go-w)"
    return None


def keep(made: Path, spark_version: str, directory: Path) -> Path:
    """Move an archive there, in place of earlier ones of this Spark. Return its path. Raises OSError."""
    made.chmod(0o600)
    with made.open("rb") as file:
        os.fsync(file.fileno())
    archive = directory / f"{_prefix(spark_version)}{made.stat().st_size}.jsa"
    made.replace(archive)
    for other in _archives(spark_version, directory):
        if other != archive:
            other.unlink(missing_ok=True)
    return archive


def _prefix(spark_version: str) -> str:
    return f"spark-{spark_version}-classes-"


def _archives(spark_version: str, directory: Path) -> list[Path]:
    return sorted(directory.glob(f"{_prefix(spark_version)}*.jsa"))


def _is_usable(archive: Path) -> bool:
    status = archive.stat()
    is_whole = stat.S_ISREG(status.st_mode) and archive.stem.endswith(f"-{status.st_size}")
    return is_whole and _is_ours_alone(status)


def _is_ours_alone(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & _WRITABLE_BY_OTHERS
