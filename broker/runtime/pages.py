"""HTTP pages of the agent: metrics, health, readiness, and its directories with leftovers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from lethe.adapters.http import Health, Reply, Request, Route, json_reply, standard_routes
from lethe.broker.core.duplicates import candidates
from lethe.broker.core.state import AgentState
from lethe.broker.runtime.loop import AgentLoop
from lethe.broker.runtime.metrics import AgentMetrics
from lethe.broker.runtime.sessions import Sessions

MAX_LISTED: Final = 1_000


class AgentPages:
    """The routes of one agent."""

    def __init__(
        self, broker_id: int, metrics: AgentMetrics, sessions: Sessions, loop: Callable[[], AgentLoop | None]
    ) -> None:
        self._broker_id = broker_id
        self._metrics = metrics
        self._sessions = sessions
        self._loop = loop

    def routes(self) -> tuple[Route, ...]:
        return (*standard_routes(self._text, self.health, self.readiness), Route("/state", self._state))

    async def _text(self) -> bytes:
        self._metrics.registered = self._sessions.session is not None
        return await self._metrics.text_of_now()

    def health(self) -> Health:
        """Healthy if the process answers; failed log directories are shown and do not make it unhealthy."""
        loop = self._loop()
        return Health(True, () if loop is None else _failures(loop.state), {"broker": self._broker_id})

    def readiness(self) -> Health:
        """Whether the agent is registered and serves."""
        reasons: list[str] = []
        loop = self._loop()
        if loop is None:
            reasons.append("the log directories have not been read yet")
        elif loop.state.halted:
            reasons.append("the agent has halted")
        if self._sessions.session is None:
            reasons.append(self._sessions.problem or "there is no ZooKeeper session")
        return Health(not reasons, tuple(reasons), {"broker": self._broker_id})

    def _state(self, request: Request) -> Reply:
        loop = self._loop()
        if loop is None:
            return json_reply({"error": f"{request.path}: the log directories have not been read yet"}, 503)
        return json_reply(describe(loop.state))


def describe(state: AgentState) -> dict[str, object]:
    """The agent's state as JSON; lists are cut at MAX_LISTED entries, counts are complete."""
    return {
        "broker": state.settings.broker_id,
        "broker_epoch": state.broker_epoch,
        "controller": state.cache.controller_id,
        "controller_epoch": state.controller_epoch,
        "log_dirs": [
            {"path": log_dir, "error": error, "replicas": state.replicas_of_log_dir.get(log_dir, 0)}
            for log_dir, error in state.log_dirs.items()
        ],
        "replicas": {kind.value: count for kind, count in state.replicas_in_state.items()},
        "hosted_bytes": state.hosted_bytes,
        "duplicates": {
            "directories": state.duplicate_directories,
            "list": [
                {"path": f"{each.log_dir}/{topic_partition}", "bytes": each.size_bytes, "state": each.state.value}
                for topic_partition in islice(state.duplicates, MAX_LISTED)
                for each in candidates(state, topic_partition)
            ],
        },
        "pending_removal": {
            "directories": len(state.removal.pending),
            "bytes": state.removal.pending_bytes,
            "failing": [
                {"path": f"{ref.log_dir}/{ref.name}", "attempts": pending.attempts, "error": pending.error}
                for ref, pending in islice(
                    ((ref, pending) for ref, pending in state.removal.pending.items() if pending.error), MAX_LISTED
                )
            ],
        },
        "freed_bytes": state.removal.freed_bytes,
        "set_aside": {"directories": len(state.strays), "list": _leftovers(state, quarantined=True)},
        "unknown": {"directories": len(state.unknown), "list": _leftovers(state, quarantined=False)},
    }


def _leftovers(state: AgentState, *, quarantined: bool) -> list[dict[str, object]]:
    leftovers = state.strays if quarantined else state.unknown
    return [
        {"path": f"{ref.log_dir}/{ref.name}", "bytes": leftover.size_bytes, "reason": leftover.reason}
        for ref, leftover in islice(leftovers.items(), MAX_LISTED)
    ]


def _failures(state: AgentState) -> tuple[str, ...]:
    return tuple(f"log directory {log_dir} is offline: {error}" for log_dir, error in state.log_dirs.items() if error)
