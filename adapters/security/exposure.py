"""Files with secrets that every user of the machine may read or write: whoever loads one warns about it.

A secret in such a file is no secret: whoever reads a token may use it, and whoever writes the file chooses the secret.
Kafka does not look at that, and in a container there may be one user only, so the files are used none the less.

    file        directories above it           warning
    ----------  -----------------------------  -------------------------------------------
    rw-r-----   any                            none: whoever chose its group meant that
    rw-r--r--   one may not be entered by all  none
    rw-r--r--   all may be entered by all      every user of this machine may read it
    rw-rw-rw-   all may be entered by all      every user of this machine may read and write it

A file that cannot be looked at has no warning: to read it fails too, with the reason.
"""

from __future__ import annotations

import shlex
import stat
from pathlib import Path
from typing import Final

_ACTS: Final = ((stat.S_IROTH, "read"), (stat.S_IWOTH, "write"))


def exposure(path: Path) -> str | None:
    """Return what every user of this machine may do with the file, and the remedy; None: nothing."""
    try:
        file = path.resolve(strict=True)
        mode = file.stat().st_mode
        is_reachable = all(each.stat().st_mode & stat.S_IXOTH for each in file.parents)
    except (OSError, RuntimeError):
        return None
    acts = [act for bit, act in _ACTS if mode & bit]
    if not acts or not is_reachable:
        return None
    return f"every user of this machine may {' and '.join(acts)} it; run: chmod o= {shlex.quote(str(path))}"
