"""docs/states-of-replicas.svg and docs/states-of-partitions.svg: the state machines, drawn.

Arrows come from the tables that the controller's core runs on; only where a state stands, and which way an arrow goes
that would cross others, is said here. `REPLICA_WORDS` and `PARTITION_WORDS` say what each transition
means; a test demands that none is missing.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

from lethe.controller.core.transitions import (
    PARTITION_TRANSITIONS,
    REPLICA_TRANSITIONS,
    PartitionState,
    ReplicaState,
)
from tools.drawing import FAINT, Box, Point, arrow, between, loop, picture, rectangle, text

S = TypeVar("S", bound=enum.IntEnum)
_R = ReplicaState
_P = PartitionState

PLAIN: Final = ("#f6f8fa", "#6e7781")
SERVING: Final = ("#dafbe1", "#2da44e")
AWAY: Final = ("#fff8c5", "#bf8700")
GOING: Final = ("#ddf4ff", "#218bff")
WAITING: Final = ("#ffebe9", "#cf222e")
KINDS: Final = (
    ("in service", SERVING),
    ("out of service", AWAY),
    ("being deleted", GOING),
    ("cannot be deleted now", WAITING),
)

_WIDTH: Final = 172
_HEIGHT: Final = 44

REPLICA_PLACES: Final[Mapping[ReplicaState, tuple[Point, tuple[str, str]]]] = {
    _R.NON_EXISTENT: (Point(110, 180), PLAIN),
    _R.NEW: (Point(310, 180), PLAIN),
    _R.ONLINE: (Point(520, 70), SERVING),
    _R.OFFLINE: (Point(520, 290), AWAY),
    _R.DELETION_INELIGIBLE: (Point(770, 180), WAITING),
    _R.DELETION_STARTED: (Point(770, 290), GOING),
    _R.DELETION_SUCCESSFUL: (Point(770, 385), GOING),
}
PARTITION_PLACES: Final[Mapping[PartitionState, tuple[Point, tuple[str, str]]]] = {
    _P.NON_EXISTENT: (Point(110, 150), PLAIN),
    _P.NEW: (Point(310, 150), PLAIN),
    _P.ONLINE: (Point(520, 70), SERVING),
    _P.OFFLINE: (Point(520, 230), AWAY),
}

REPLICA_WORDS: Final[Mapping[tuple[ReplicaState, ReplicaState], str]] = {
    (_R.NON_EXISTENT, _R.NEW): "it is assigned to a broker: its topic appears or grows, or the partition moves",
    (_R.NEW, _R.ONLINE): "its partition has a leader, and LeaderAndIsr has gone to the broker",
    (_R.NEW, _R.OFFLINE): "its broker has gone, or the topic's deletion starts",
    (_R.ONLINE, _R.ONLINE): "the broker is told of it again: it bounced",
    (_R.ONLINE, _R.OFFLINE): "its broker or log directory has gone or shuts down, it is moved away, or the topic's "
    "deletion starts: StopReplica without delete",
    (_R.OFFLINE, _R.ONLINE): "its broker is back: LeaderAndIsr",
    (_R.OFFLINE, _R.OFFLINE): "it is stopped again: each round of a deletion begins so",
    (_R.OFFLINE, _R.DELETION_STARTED): "StopReplica with delete goes to the broker",
    (_R.OFFLINE, _R.DELETION_INELIGIBLE): "its topic is being deleted and its broker is not there: the topic waits",
    (_R.DELETION_STARTED, _R.DELETION_SUCCESSFUL): "the broker has acknowledged: its directory is renamed",
    (_R.DELETION_STARTED, _R.DELETION_INELIGIBLE): "the broker has gone before it answered, or answered with an error: "
    "the topic waits",
    (_R.DELETION_INELIGIBLE, _R.OFFLINE): "nobody else of the topic is being asked any more: it waits for the next try",
    (_R.DELETION_INELIGIBLE, _R.ONLINE): "its broker is back, and is told of it before it is asked to delete it",
    (_R.DELETION_SUCCESSFUL, _R.NON_EXISTENT): "the topic's znodes are gone, or it was moved away: forgotten",
}
PARTITION_WORDS: Final[Mapping[tuple[PartitionState, PartitionState], str]] = {
    (_P.NON_EXISTENT, _P.NEW): "the partition has an assignment and no state znode yet",
    (_P.NEW, _P.ONLINE): "its first state is written: the first live replica leads, all live ones are in the ISR",
    (_P.NEW, _P.OFFLINE): "no replica of it is alive, or the topic's deletion starts",
    (_P.ONLINE, _P.ONLINE): "another leader has been elected",
    (_P.ONLINE, _P.OFFLINE): "its leader has gone, or the topic's deletion starts",
    (_P.OFFLINE, _P.ONLINE): "a leader has been elected",
    (_P.OFFLINE, _P.OFFLINE): "it is looked at again, and still nobody can lead",
    (_P.OFFLINE, _P.NON_EXISTENT): "the topic's deletion starts: from here on only its replicas count",
}


def name(state: enum.IntEnum) -> str:
    """As in the diagrams: DeletionStarted."""
    return "".join(word.capitalize() for word in state.name.split("_"))


def replicas() -> str:
    """The picture of the replica's states."""
    forgotten = [Point(684, 385), Point(110, 385), Point(110, 202)]
    body = _machine(REPLICA_TRANSITIONS, REPLICA_PLACES, {(_R.DELETION_SUCCESSFUL, _R.NON_EXISTENT): forgotten})
    return picture(880, 460, "The states of a replica, and which may follow which", [*body, *_legend(KINDS, 440)])


def partitions() -> str:
    """The picture of the partition's states."""
    gone = [Point(434, 230), Point(110, 230), Point(110, 172)]
    body = _machine(PARTITION_TRANSITIONS, PARTITION_PLACES, {(_P.OFFLINE, _P.NON_EXISTENT): gone})
    kinds = (("has a leader", SERVING), ("has none", AWAY))
    return picture(640, 310, "The states of a partition, and which may follow which", [*body, *_legend(kinds, 292)])


def _machine(
    transitions: Mapping[S, frozenset[S]],
    places: Mapping[S, tuple[Point, tuple[str, str]]],
    ways: Mapping[tuple[S, S], list[Point]],
) -> Iterator[str]:
    boxes = {state: Box(*place, _WIDTH, _HEIGHT, *colours) for state, (place, colours) in places.items()}
    edges = [(source, target) for target in sorted(transitions) for source in sorted(transitions[target])]
    for source, target in edges:
        if source is target:
            yield loop(boxes[source], above=boxes[source].y < 150)
        elif (source, target) in ways:
            yield arrow(ways[source, target])
        else:
            yield arrow(between(boxes[source], boxes[target], 8 if (target, source) in edges else 0))
    for state, box in boxes.items():
        yield rectangle(box)
        yield text(box.x, box.y + 5, name(state), bold=True)


def _legend(kinds: tuple[tuple[str, tuple[str, str]], ...], y: float) -> Iterator[str]:
    x = 28.0
    for words, (fill, stroke) in kinds:
        yield rectangle(Box(x + 8, y - 5, 16, 14, fill, stroke))
        yield text(x + 24, y, words, anchor="start", colour=FAINT, size=13)
        x += 54 + 7 * len(words)
