"""Cached view of which brokers obey this controller, for readiness, metrics, board and `/state`.

The core derives the view from the brokers' answers. The errors of the channels are added here: a broker with which TLS
or the login fails does not obey, whatever it answered before, and a silent one is shown with the error. While a long
step changes the core's memory on its thread, `look` returns the view from before the step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from lethe.adapters.clock import Clock
from lethe.controller.core import power
from lethe.controller.core.context import Context, Role
from lethe.controller.core.power import BrokerPower, BrokerStanding
from lethe.controller.core.power_view import CAUSES, PowerView
from lethe.controller.runtime.brokers import ChannelProblem
from lethe.protocol.causes import remedy
from lethe.protocol.counting import counted
from lethe.protocol.journal import JsonValue
from lethe.protocol.vocabulary import BrokerId

Problems = Mapping[BrokerId, ChannelProblem]
"""The problem of each channel that has one."""
_FROM_ANSWERS: Final = (BrokerStanding.OBEYS, BrokerStanding.ASKED, BrokerStanding.SILENT)
"""Standings that depend on what has been answered and what has not."""


class PowerWatch:
    """Computes and caches the `PowerView` of one controller."""

    def __init__(self, readable: Callable[[], Context | None], clock: Clock, problems: Callable[[], Problems]) -> None:
        """`readable`: see `ControllerLoop.readable`."""
        self._readable = readable
        self._clock = clock
        self._problems = problems
        self._latest = PowerView()

    def look(self) -> PowerView:
        """Return the view as of now; during a long step, the latest one from before it."""
        if (context := self._readable()) is not None:
            self._latest = self._view(context)
        return self._latest

    def _view(self, context: Context) -> PowerView:
        now_ms = self._clock.now_ms()
        if context.role is not Role.ACTIVE:
            return PowerView(reason=context.refusal, note=_untested(context, now_ms))
        problems = self._problems()
        core = power.of_brokers(context, now_ms)
        powers = tuple(_with_access(each, problems.get(each.broker), now_ms) for each in core)
        since_ms = power.powerless_since(powers)
        reason = power.powerless_reason(context, powers, now_ms)
        if reason is not None:
            reason = "; ".join((reason, *_silence(powers, problems)))
        refusing = [each for each in powers if each.standing in CAUSES]
        note = context.raises.problem or (power.told(powers, context.config) if refusing and reason is None else None)
        powerless_s = 0.0 if since_ms is None else (now_ms - since_ms) / 1000
        return PowerView(powers, powerless_s, reason, note, context.raises.leaps)


def _untested(context: Context, now_ms: int) -> str | None:
    """Return why a controller that stands by did not take control when it last probed brokers; they may let it in by
    now, or not."""
    if context.role is not Role.STANDING_BY or (failed := context.not_passed) is None:
        return None
    ago = counted((now_ms - failed.at_ms) // 1000, "second")
    return f"{ago} ago this controller did not take control, and has not probed brokers since: {failed.why}"


def _with_access(of_core: BrokerPower, problem: ChannelProblem | None, now_ms: int) -> BrokerPower:
    """Return the standing as the channel knows it: an answer from before TLS or the login failed proves nothing."""
    if problem is None or not problem.has_no_access or of_core.standing not in _FROM_ANSWERS:
        return of_core
    return BrokerPower(of_core.broker, BrokerStanding.NO_ACCESS, now_ms - problem.lasts_ms, problem.what)


def _silence(powers: tuple[BrokerPower, ...], problems: Problems) -> tuple[str, ...]:
    quiet = (each.broker for each in powers if each.standing in (BrokerStanding.SILENT, BrokerStanding.ASKED))
    return tuple(f"broker {broker}: {problems[broker].what}" for broker in quiet if broker in problems)


def power_json(view: PowerView) -> list[dict[str, JsonValue]]:
    """Return the brokers that do not obey, as `/state` shows them."""
    return [
        {
            "broker": each.broker,
            "cause": CAUSES[each.standing].name,
            "meaning": each.standing.value,
            "since_ms": each.since_ms,
            "last_error": each.error,
            "unblock": remedy(CAUSES[each.standing], "", broker=each.broker),
        }
        for each in view.refusing
    ]
