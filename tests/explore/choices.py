"""What can happen to one controller's process, and what comes of it as far as that is clear from the process alone.

Computed once for each process, because millions of states share a few thousand processes.
"""

from __future__ import annotations

from typing import NamedTuple

from lethe.controller.core.effects import Send
from lethe.controller.core.events import Event, TimerFired
from lethe.protocol.vocabulary import BrokerId
from tests.explore.actions import Action, Bounds, Kind
from tests.explore.parts import Processes
from tests.explore.processes import Process

_NAMES = Bounds._fields
CRASHES, EXPIRIES, ABSENCES, LOSSES, HASTE = range(len(_NAMES))
FREE = -1


class Choice(NamedTuple):
    """One thing that can happen. `process` is the one before it, but without what it gives up: `event`, the stray."""

    action: Action
    process: int
    fault: int = FREE
    """The bound that it counts for."""
    event: Event | None = None
    """The core takes this."""
    send: Send | None = None
    """The broker `action.what` receives this."""


class Choices(NamedTuple):
    """What can happen to a process that is, and what depends on the state of its session."""

    always: tuple[Choice, ...]
    with_session: tuple[Choice, ...]
    """While ZooKeeper has its session."""
    without_session: tuple[Choice, ...]


def choices_of(processes: Processes, number: int, who: int, brokers: tuple[BrokerId, ...]) -> Choices:
    """Return what can happen to a process; whether its brokers are up is left to the state."""
    process = processes.numbers[number]
    strays = tuple(_strays(processes, process, who, brokers))
    serve = (Choice(Action(Kind.SERVE, who), number),) if process.pending else ()
    if not process.is_up:
        ended = processes.numbers.of(process._replace(pending=()))
        ends = Choice(Action(Kind.SESSION_ENDS, who), ended)
        return Choices(strays, (*serve, ends), (Choice(Action(Kind.START, who), number),))
    crash = Choice(Action(Kind.CRASH, who), number, CRASHES)
    always = (*strays, *_at_channels(processes, process, who, brokers), *_events(processes, process, who), crash)
    if not process.has_session:
        connect = (Choice(Action(Kind.CONNECT, who), number),)
        return Choices(always, connect, connect)
    expire = Choice(Action(Kind.EXPIRE, who), number, EXPIRIES)
    return Choices(always, (*serve, expire), (Choice(Action(Kind.LEARN, who), number),))


def _strays(processes: Processes, process: Process, who: int, brokers: tuple[BrokerId, ...]) -> list[Choice]:
    found: list[Choice] = []
    for what, strays in enumerate(process.strays):
        for which, stray in enumerate(strays):
            left = processes.numbers.of(process.arrived(what, stray))
            send = Send(brokers[what], stray.epoch, -1, stray.request)
            found.append(Choice(Action(Kind.STRAY, who, what, which), left, send=send))
    return found


def _at_channels(processes: Processes, process: Process, who: int, brokers: tuple[BrokerId, ...]) -> list[Choice]:
    found: list[Choice] = []
    is_waiting = bool(processes.contexts.summary(process.context).awaited)
    for what, channel in enumerate(process.channels):
        if channel is None or not channel.queue:
            continue
        if channel.answer is None:
            send = Send(brokers[what], channel.epoch, *channel.queue[0])
            found.append(Choice(Action(Kind.DELIVER, who, what), processes.numbers.of(process), send=send))
            continue
        found.append(Choice(Action(Kind.ANSWER_LOST, who, what), processes.numbers.of(process), LOSSES))
        if not is_waiting:
            left = processes.numbers.of(process.taken(what))
            found.append(Choice(Action(Kind.ANSWER, who, what), left, event=channel.answer))
    return found


def _events(processes: Processes, process: Process, who: int) -> list[Choice]:
    summary = processes.contexts.summary(process.context)
    if summary.awaited:
        return []
    found: list[Choice] = []
    if process.watches:
        left = processes.numbers.of(process._replace(watches=process.watches[1:]))
        found.append(Choice(Action(Kind.WATCH, who), left, event=process.watches[0]))
    if process.background:
        left = processes.numbers.of(process._replace(background=process.background[1:]))
        found.append(Choice(Action(Kind.WRITTEN, who), left, event=process.background[0]))
    same = processes.numbers.of(process)
    fault = FREE if process.is_idle else HASTE
    for n, timer in enumerate(summary.timers):
        found.append(Choice(Action(Kind.TIMER, who, n), same, fault, TimerFired(timer)))
    return found
