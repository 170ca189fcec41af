"""How many files a process may open, and so how many connections it can take."""

from __future__ import annotations

import logging
import resource
from typing import Final

from lethe.protocol.counting import counted

logger = logging.getLogger(__name__)

RESERVED: Final = 512
"""For HTTP, ZooKeeper, connections to brokers, journals, and the files that a disk operation opens."""


def connections_that_fit(wanted: int) -> int:
    """At most so many of the wanted connections can be open at once. Raises the process's own limit where it may.

    A server that takes fewer never finds itself without descriptors, which no peer would be told of.
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
