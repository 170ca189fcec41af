"""Read-only HTTP pages of the controller: metrics, health, readiness, state and explanations as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from lethe.adapters.clock import Clock
from lethe.adapters.http import Health, Reply, Request, Route, json_reply, standard_routes
from lethe.controller.core import caches
from lethe.controller.core.context import Context, Role
from lethe.controller.core.waiting import Wait, all_waits, marked_topics, waits
from lethe.controller.runtime.debts import debts_document
from lethe.controller.runtime.explanation import (
    DEFAULT_TOPICS,
    explain_all,
    explain_topic,
    meaning,
    not_marked,
)
from lethe.controller.runtime.loop import ControllerLoop
from lethe.controller.runtime.metrics import ControllerMetrics
from lethe.controller.runtime.pace_document import pace_document
from lethe.controller.runtime.powers import PowerWatch, Problems, power_json
from lethe.controller.runtime.sessions import SessionKeeper
from lethe.controller.runtime.trash_document import trash_document
from lethe.protocol.journal import JsonValue, partition_ranges
from lethe.protocol.vocabulary import NO_BROKER

STUCK_AFTER_S: Final = 300.0
"""An event that stands still for longer makes the process unhealthy. A large takeover advances slice by slice."""
MAX_TOPICS_SHOWN: Final = 1000
_READY: Final = (Role.STANDING_BY, Role.ACTIVE)


class AdminPages:
    """HTTP handlers over one loop and its session."""

    def __init__(
        self,
        loop: ControllerLoop,
        sessions: SessionKeeper,
        metrics: ControllerMetrics,
        clock: Clock,
        problems: Callable[[], Problems],
        powers: PowerWatch,
    ) -> None:
        self._loop = loop
        self._powers = powers
        self._problems = problems
        self._sessions = sessions
        self._metrics = metrics
        self._clock = clock

    def routes(self) -> tuple[Route, ...]:
        """`/metrics`, `/healthz`, `/readyz`, `/state`, `/explain`, `/explain/{topic}`, `/waits`,
        `/deletions/{topic}`."""
        return (
            *standard_routes(self._metrics.text_written_aside, self.health, self.readiness),
            Route("/state", self._state),
            Route("/explain", self._explain),
            Route("/explain/{topic}", self._explain_topic),
            Route("/waits", self._waits),
            Route("/deletions/{topic}", self._deletion),
        )

    def health(self) -> Health:
        """Unhealthy only where the process itself is broken. Without ZooKeeper it is healthy, but not ready."""
        standing_s = self._loop.standing_s
        if standing_s > STUCK_AFTER_S:
            return Health(False, (f"the event in progress has stood still for {standing_s:.0f} s",))
        return Health(True)

    def readiness(self) -> Health:
        """Ready: standing by, or active and obeyed. An active controller is not ready once no registered broker has
        obeyed it for some seconds. One that stands by probes no broker; it shows why its latest probe kept it from
        control, and stays ready, because only the next election tells whether that still holds."""
        context, view = self._loop.context, self._powers.look()
        details = {"role": context.role.value}
        if view.note is not None:
            details["brokers"] = view.note
        if self._sessions.session is None:
            return Health(False, (f"no ZooKeeper session: {self._sessions.problem}",), details)
        if context.role not in _READY:
            return Health(False, (context.refusal or f"the controller is {context.role.value}",), details)
        if view.reason is not None and context.role is Role.ACTIVE:
            return Health(False, (view.reason,), details)
        return Health(True, (), details)

    async def _state(self, _: Request) -> Reply:
        context, now_ms = await self._loop.between_steps(), self._clock.now_ms()
        handling = self._loop.handling
        document: dict[str, object] = {
            "controller_id": context.config.controller_id,
            "role": context.role.value,
            "active_controller": context.active_controller,
            "controller_epoch": context.cluster.epoch if context.is_leading else None,
            "elected_ms_ago": now_ms - context.cluster.elected_at_ms if context.is_leading else None,
            "refusal": context.refusal,
            "powerless": self._powers.look().reason if context.role is Role.ACTIVE else None,
            "brokers_not_obeying": power_json(self._powers.look()),
            "zookeeper": {
                "session": None if self._sessions.session is None else f"{self._sessions.session.session_id:#x}",
                "problem": self._sessions.problem,
            },
            "inter_broker_protocol": str(context.config.ibp),
            "event_in_progress": None if handling is None else type(handling.event).__name__,
            "events_waiting": len(self._loop.queue),
            "brokers": [
                {
                    "id": broker.id,
                    "epoch": broker.epoch,
                    "shutting_down": broker.id in context.cluster.shutting_down,
                }
                for broker in context.cluster.brokers.values()
            ],
            "topics": len(context.cluster.topics),
            "topics_queued_for_deletion": len(context.cluster.deletions),
            "pace": pace_document(context, now_ms) if context.is_leading else None,
            "set_aside": [
                {"path": aside.path, "reason": aside.reason, "cause": aside.cause.name}
                for aside in (
                    *context.cluster.quarantined_topics.values(),
                    *context.cluster.quarantined_brokers.values(),
                )
            ],
            "metadata_caches": {
                "unseen": [{"broker": broker, "reason": why} for broker, why in caches.unseen(context).items()],
                "ghosts": list(_ghosts(context)),
                "ghosts_cured": context.ghosts_cured,
            },
            "debts": debts_document(context),
            "trash": trash_document(context) if context.is_leading else None,
            "requests_outstanding": len(context.cluster.outstanding),
        }
        return json_reply(document)

    def _not_active(self, context: Context) -> Reply:
        """Return 409, with the controller to ask instead or the reason why there is none."""
        mine, active = context.config.controller_id, context.active_controller
        whom = "no controller is" if active in (NO_BROKER, mine) else f"controller {active} is: ask that one"
        if context.role is Role.LOADING:
            whom = "it is taking over and has not read everything yet: ask again"
        elif self._sessions.session is None:
            whom = f"it has no ZooKeeper session ({self._sessions.problem}), so it cannot name the active controller"
        elif context.refusal is not None:
            whom = context.refusal
        return json_reply({"error": f"controller {mine} is not active; {whom}"}, 409)

    async def _explain(self, request: Request) -> Reply:
        """Why marked topics are not gone yet; `?at_most=` limits their number."""
        asked = request.query.get("at_most", str(DEFAULT_TOPICS))
        if not (asked.isascii() and asked.isdigit() and len(asked) < 10):
            return json_reply({"error": f"at_most must be a whole number, not {asked!r}"}, 400)
        context = await self._loop.between_steps()
        if context.role is not Role.ACTIVE:
            return self._not_active(context)
        return json_reply(explain_all(context, self._problems(), self._clock.now_ms(), int(asked)))

    async def _explain_topic(self, request: Request) -> Reply:
        """Why one topic is not gone yet; 404 where it is not marked, with what is known about it."""
        context = await self._loop.between_steps()
        topic, now_ms = request.parts["topic"], self._clock.now_ms()
        if context.role is not Role.ACTIVE:
            return self._not_active(context)
        problems = self._problems()
        document = explain_topic(context, topic, problems, now_ms)
        if document is None:
            return json_reply(not_marked(context, topic, problems, now_ms), 404)
        return json_reply(document)

    async def _waits(self, _: Request) -> Reply:
        """What topics marked for deletion wait for: the held ones, then the oldest; at most `MAX_TOPICS_SHOWN`."""
        context = await self._loop.between_steps()
        if context.role is not Role.ACTIVE:
            return self._not_active(context)
        shown = all_waits(context, MAX_TOPICS_SHOWN)
        return json_reply(
            {
                "controller_id": context.config.controller_id,
                "topics": {topic: [_wait(context, each) for each in found] for topic, found in shown.items()},
                "not_shown": len(marked_topics(context)) - len(shown),
            }
        )

    async def _deletion(self, request: Request) -> Reply:
        context, topic = await self._loop.between_steps(), request.parts["topic"]
        if context.role is not Role.ACTIVE:
            return self._not_active(context)
        found = waits(context, topic)
        if not found and topic not in context.cluster.deletions:
            return json_reply({"error": f"topic {topic!r} is not queued for deletion"}, 404)
        return json_reply({"topic": topic, "waits": [_wait(context, each) for each in found]})


def _wait(context: Context, wait: Wait) -> dict[str, object]:
    return {
        "waiting_for": wait.waiting_for.name,
        "meaning": meaning(context, wait),
        "partition": wait.partition,
        "broker": wait.broker,
        "since_ms": wait.since_ms,
        "attempts": wait.attempts,
        "last_error": wait.last_error,
        "next_try_ms": wait.next_try_ms,
    }


def _ghosts(context: Context) -> Iterator[dict[str, JsonValue]]:
    """Yield ghosts (topics that a metadata cache has and ZooKeeper has not), at most `MAX_TOPICS_SHOWN`."""
    found = ((broker, ghost) for broker, ghosts in context.cluster.caches.ghosts.items() for ghost in ghosts.values())
    for broker, ghost in islice(found, MAX_TOPICS_SHOWN):
        yield {
            "broker": broker,
            "topic": ghost.topic,
            "partitions": partition_ranges(ghost.partitions),
            "kept_because": ghost.kept_because,
        }
