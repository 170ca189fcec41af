"""Reports to systemd that a daemon is up, its status, and that it is not stuck (`sd_notify`, `Type=notify`).

The protocol is a datagram of `NAME=value` lines to the socket in `NOTIFY_SOCKET`; without that variable nothing is
sent.

    READY=1       once, as soon as the daemon answers over HTTP: ZooKeeper's absence must not block the machine's boot
    STATUS=…      what /readyz reports, for `systemctl status`
    WATCHDOG=1    at a third of `WATCHDOG_USEC` or more often, while /healthz reports no problem: systemd restarts a
                  daemon that hangs, or whose event has not ended for minutes, like a liveness probe elsewhere

If the socket has no listener, that is logged once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping
from typing import Final

from lethe.adapters.http import Health

logger = logging.getLogger(__name__)

STATUS_INTERVAL_S: Final = 5.0
"""Largest age of a status."""
_MAX_STATUS: Final = 1_000


class ServiceManager:
    """Connection to the service manager that has started this process."""

    def __init__(self, address: str | None = None, watchdog_s: float | None = None) -> None:
        """`address` is a path, or an abstract name that starts with @; None for no service manager. `watchdog_s` is the
        time without a sign of life after which the process is restarted; None for no watchdog."""
        self._address = address
        self._interval_s = STATUS_INTERVAL_S if watchdog_s is None else min(STATUS_INTERVAL_S, watchdog_s / 3)
        self._has_watchdog = watchdog_s is not None
        self._failed = False

    async def report(self, health: Callable[[], Health], ready: Callable[[], Health]) -> None:
        """Report that the process is up, then its state, until cancelled."""
        if self._address is None:
            return
        reported = ""
        lines = ["READY=1"]
        while True:
            status = status_line(ready())
            if status != reported:
                lines.append(f"STATUS={status}")
                reported = status
            if self._has_watchdog and health().ok:
                lines.append("WATCHDOG=1")
            if lines:
                self._send("\n".join(lines))
            lines = []
            await asyncio.sleep(self._interval_s)

    def _send(self, message: str) -> None:
        assert self._address is not None
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notifying:
                notifying.setblocking(False)
                notifying.sendto(message.encode(), address)
        except OSError as error:
            if not self._failed:
                logger.warning(
                    "cannot report this process's state to the service manager: NOTIFY_SOCKET=%s: %s",
                    self._address,
                    error,
                )
            self._failed = True
        else:
            self._failed = False


def service_manager(environ: Mapping[str, str]) -> ServiceManager:
    """Return the one in the environment; WATCHDOG_USEC counts only if it is meant for this process."""
    usec, pid = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    is_ours = not pid or pid == str(os.getpid())
    watchdog_s = int(usec) / 1e6 if is_ours and usec.isascii() and usec.isdigit() and int(usec) > 0 else None
    return ServiceManager(environ.get("NOTIFY_SOCKET") or None, watchdog_s)


def status_line(ready: Health) -> str:
    """Return what /readyz reports, as one line."""
    details = [f"{name} {value}" for name, value in ready.details.items()]
    text = ", ".join(["ready" if ready.ok else "not ready", *details]) + ("" if ready.ok else ": ")
    return " ".join((text + "; ".join(ready.reasons)).split())[:_MAX_STATUS]
