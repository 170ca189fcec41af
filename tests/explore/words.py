"""A path told in words: what happens, what the controller then writes and sends, and where everything stands.

Lines with `zk`, `->` and `<-` are those of the scenarios (`tests.fakes.story`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lethe.controller.core.effects import ProbeBrokers, ReadZnodes, Send, WriteZnodes
from lethe.controller.core.events import Event
from lethe.protocol.zookeeper.operations import MultiDone
from tests.explore.actions import Action, Kind
from tests.explore.checks import name_of
from tests.explore.kafka_broker import KafkaBroker
from tests.explore.operator import WRITES
from tests.explore.parts import Heard, Wrote
from tests.explore.processes import Pending
from tests.explore.world import BROKER, BROKERS, CONTROLLER, CONTROLLERS, STAGE, ZOOKEEPER, State, Transition, World
from tests.fakes.story import told_event, told_request, told_sends, told_write

_HAPPENS: Final = {
    Kind.CONNECT: "opens a session",
    Kind.LEARN: "learns that its session has ended",
    Kind.START: "starts",
    Kind.SESSION_ENDS: "has been dead for so long that its session ends",
    Kind.CRASH: "crashes",
    Kind.EXPIRE: "lives on while its session ends",
}


def told(world: World, path: Sequence[Transition], first: State) -> Iterator[str]:
    """Yield the lines of a path, and of the state that it leads to."""
    before = first
    for number, step in enumerate(path, 1):
        yield f"{number:3}  {_sentence(world, step.action, before)}"
        yield from (f"       {line}" for each in step.told for line in _consequences(each))
        before = step.state
    yield "  =  " + "; ".join(_standing(world, before))


def _sentence(world: World, action: Action, before: State) -> str:
    kind, who, what, which = action
    if kind is Kind.OPERATE:
        return f"The operator {WRITES[who]}."
    if kind in (Kind.LEAVE, Kind.RETURN, Kind.BROKER_SESSION_ENDS):
        happens = {
            Kind.LEAVE: "dies; its disk stays",
            Kind.RETURN: "returns with its disk, and registers",
            Kind.BROKER_SESSION_ENDS: "has been dead for so long that its session ends",
        }
        return f"Broker {BROKERS[who]} {happens[kind]}."
    name, process = f"Controller {CONTROLLERS[who]}", world.processes.numbers[before[CONTROLLER + who]]
    match kind:
        case Kind.WATCH:
            return f"{name} takes the event {_event(process.watches[0])}."
        case Kind.WRITTEN:
            return f"{name} takes the outcome of its write in the background."
        case Kind.TIMER:
            timers = world.processes.contexts.summary(process.context).timers
            return f"{name}: the timer {type(timers[what]).__name__} fires."
        case Kind.STRAY:
            request = told_request(process.strays[what][which].request)
            return f"Broker {BROKERS[what]} receives late, from a closed channel of {name.lower()}: {request}."
        case Kind.DELIVER | Kind.ANSWER | Kind.ANSWER_LOST:
            channel = process.channels[what]
            assert channel is not None
            request = told_request(channel.queue[0].request)
            if kind is Kind.DELIVER:
                return f"Broker {BROKERS[what]} receives from {name.lower()}: {request}."
            if kind is Kind.ANSWER_LOST:
                return f"The answer of broker {BROKERS[what]} to {name.lower()} gets lost: {request}."
            assert channel.answer is not None
            return f"{name} takes the answer {told_event(channel.answer)}."
        case Kind.SERVE:
            return f"ZooKeeper serves {name.lower()}: {_asked(process.pending[0])}."
        case _:
            return f"{name} {_HAPPENS[kind]}."


def _asked(pending: Pending) -> str:
    match pending.effect:
        case ReadZnodes(reads=reads):
            return f"it reads {', '.join(read.path for read in reads)}"
        case ProbeBrokers():
            return "it asks the brokers whether they obey"
        case WriteZnodes():
            return "it writes"


def _event(event: Event) -> str:
    return (told_event(event) or type(event).__name__).removeprefix("* ")


def _consequences(each: Wrote | Heard) -> Iterator[str]:
    if isinstance(each, Wrote):
        refused = "" if isinstance(each.outcome, MultiDone) else f"   refused: {each.outcome.error.name}"  # type: ignore[union-attr]
        for line in told_write(WriteZnodes(0, (each.operations,), None)):
            yield line + refused
    else:
        yield from told_sends(effect for effect in each.step.effects if isinstance(effect, Send))


def _standing(world: World, state: State) -> Iterator[str]:
    """Where everything stands."""
    view = world.zookeeper.view(state[ZOOKEEPER])
    topic = f"topic {name_of(view.topic_id)}" if view.has_topic else "no topic"
    entry = view.trash.entry
    of_trash = "" if entry is None else f", and topic {name_of(entry.topic_id)} in the trash ({entry.phase.value})"
    yield f"ZooKeeper has {topic}{' and its marker' if view.is_marked else ''}{of_trash}"
    for at in range(BROKER, STAGE):
        yield _broker(world.brokers[state[at]])
    for who, session in enumerate(CONTROLLERS):
        process = world.processes.numbers[state[CONTROLLER + who]]
        if not process.is_up:
            yield f"controller {session} is down"
            continue
        role = world.processes.contexts.summary(process.context).role
        waiting = [
            f"{len(channel.queue)} for broker {BROKERS[at]}"
            for at, channel in enumerate(process.channels)
            if channel is not None and channel.queue
        ]
        yield f"controller {session}: {role.value}" + (f", requests queued: {', '.join(waiting)}" if waiting else "")


def _broker(broker: KafkaBroker) -> str:
    log = "no log" if broker.log_of is None else f"the log of {name_of(broker.log_of)}"
    if not broker.is_up:
        return f"broker {broker.id} is down, with {log}"
    shown = "nothing" if broker.shown is None else name_of(broker.shown)
    is_idle = broker.hosted is None or broker.hosted.is_stopped
    serves = "nothing" if broker.hosted is None or is_idle else name_of(broker.hosted.topic_id)
    return f"broker {broker.id} has {log}, serves {serves}, shows {shown}"
