"""Why topics waited, as reported by the active controllers at that time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class WaitCause(NamedTuple):
    """What a topic waited for: the controller's name of the cause, and the broker concerned, if any."""

    waiting_for: str
    broker: int | None


@dataclass(slots=True)
class WaitRecord:
    """One cause of one topic, over all its observations."""

    meaning: str
    first_ms: int
    last_ms: int
    waited_ms: int = 0
    """Time between two consecutive observations of it."""
    replicas: int = 0
    """Largest number at one time."""
    attempts: int = 0
    last_error: str | None = None
    told_by: dict[int, None] = field(default_factory=dict)
    """Controllers that reported it, in order."""


@dataclass(slots=True)
class WaitLog:
    """Causes by topic."""

    topics: dict[str, dict[WaitCause, WaitRecord]] = field(default_factory=dict)
    last_look_ms: int = 0

    def note(self, controller: int, document: Mapping[str, Any], now_ms: int) -> None:
        """Add one answer of `/waits`."""
        for topic, waits in document.get("topics", {}).items():
            replicas: dict[WaitCause, int] = {}
            for wait in waits:
                cause = WaitCause(wait["waiting_for"], wait["broker"])
                replicas[cause] = replicas.get(cause, 0) + 1
                self._note_wait(topic, cause, controller, wait, now_ms)
            for cause, count in replicas.items():
                seen = self.topics[topic][cause]
                seen.replicas = max(seen.replicas, count)
                if seen.last_ms == self.last_look_ms:
                    seen.waited_ms += now_ms - seen.last_ms
                seen.last_ms = now_ms
        self.last_look_ms = now_ms

    def _note_wait(self, topic: str, cause: WaitCause, controller: int, wait: Mapping[str, Any], now_ms: int) -> None:
        seen = self.topics.setdefault(topic, {}).get(cause)
        if seen is None:
            seen = self.topics[topic][cause] = WaitRecord(wait["meaning"], now_ms, now_ms)
        seen.attempts = max(seen.attempts, wait["attempts"])
        seen.last_error = wait["last_error"] or seen.last_error
        seen.told_by[controller] = None

    def topics_by_cause(self) -> dict[WaitCause, list[str]]:
        """Return the topics of each cause, in the order in which causes were first seen."""
        found: dict[WaitCause, list[str]] = {}
        for topic, causes in self.topics.items():
            for cause in causes:
                found.setdefault(cause, []).append(topic)
        return dict(sorted(found.items(), key=lambda item: min(self.topics[t][item[0]].first_ms for t in item[1])))
