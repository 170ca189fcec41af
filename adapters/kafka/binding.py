"""Messages for addresses that cannot be listened on."""

from __future__ import annotations

import errno


def why_not_bound(host: str | None, port: int, error: Exception) -> str:
    """Return the failure and what to change in the configuration."""
    where = f"cannot listen on {host or 'all interfaces'}, port {port}"
    match getattr(error, "errno", None):
        case errno.EADDRINUSE:
            return f"{where}: the port is in use; stop what listens there or choose another port in `listeners`"
        # From Python 3.13 on, asyncio skips addresses that this machine lacks, and then raises without errno.
        case errno.EADDRNOTAVAIL | None if isinstance(error, OSError):
            return f"{where}: this machine does not have that address; correct the host in `listeners`"
        case errno.EACCES:
            return f"{where}: no permission; ports below 1024 need privileges, choose a higher one in `listeners`"
        case _:
            return f"{where}: {getattr(error, 'strerror', None) or error}"
