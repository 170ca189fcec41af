"""Where this user's files are that can be made again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def user_cache(environment: Mapping[str, str]) -> Path:
    """Return Lethe's directory in the user's cache, by the XDG specification; it may not exist yet.

    Raises OSError if the user has no home.
    """
    cache = environment.get("XDG_CACHE_HOME")
    # The specification requires that a relative path is ignored.
    if cache and os.path.isabs(cache):
        return Path(cache) / "lethe"
    try:
        return Path.home() / ".cache" / "lethe"
    except RuntimeError as error:
        raise OSError("this user has no home directory: set HOME or XDG_CACHE_HOME") from error
