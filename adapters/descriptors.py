"""Limit of open files, and the number of connections that it allows."""

from __future__ import annotations

import logging
import resource
from typing import Final

from lethe.protocol.counting import counted

logger = logging.getLogger(__name__)

RESERVED: Final = 512
"""Descriptors for HTTP, ZooKeeper, connections to brokers, journals, and files of disk operations."""


def connections_that_fit(wanted: int) -> int:
    """Return how many of the wanted connections can be open at once. Raises the soft limit of files if necessary.

    A server within this number never runs out of descriptors, an error that its peers could not see.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + RESERVED
    if soft != resource.RLIM_INFINITY and soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        if raised > soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    fit = max(soft - RESERVED, soft // 2)
    logger.warning(
        "max.connections=%d, but the process may open only %s: it takes %s at most; raise the limit (ulimit -n, "
        "LimitNOFILE=), or lower max.connections",
        *(wanted, counted(soft, "file"), counted(fit, "connection")),
    )
    return fit
