"""What the operator does: marks the topic, creates it again; in some scenes pauses deletions, and requests it back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lethe.protocol.vocabulary import BrokerId, ReplicaAssignment, TopicId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Delete, Operation
from tests.explore.actions import Scene
from tests.explore.zookeeper import View

WRITES: Final = (
    "marks topic A for deletion",
    "creates the topic again: B",
    "pauses deletions",
    "resumes deletions",
    "requests topic A back",
)
MARK, CREATE, PAUSE, RESUME, REQUEST = range(len(WRITES))
Write = tuple[int, int, tuple[Operation, ...]]
"""Which of `WRITES`, which of the operator's three places in the state it raises, and the operations."""


class Operator:
    """The operator of one world."""

    def __init__(self, topic: str, lives: Sequence[TopicId], brokers: Sequence[BrokerId], scene: Scene) -> None:
        self._topic = topic
        self._lives = tuple(lives)
        self._brokers = tuple(brokers)
        self._scene = scene

    def roots(self) -> tuple[Operation, ...]:
        """Return what commands create before their first request."""
        return tuple(Create(path, None) for path in (paths.LETHE, paths.REQUESTS)) if self._scene.undelete else ()

    def creation(self, life: int) -> tuple[Operation, ...]:
        """Return the write that creates the topic for the first or second time."""
        assignments = {0: ReplicaAssignment(self._brokers)}
        return (
            Create(paths.config_topic(self._topic), znodes.encode_config({})),
            Create(paths.topic(self._topic), znodes.encode_topic(znodes.TopicZnode(assignments, self._lives[life]))),
        )

    def writes(self, stage: int, pause: int, request: int, view: View) -> Iterator[Write]:
        """Yield what the operator may do next."""
        if stage == 0:
            yield MARK, 0, (Create(paths.delete_topic(self._topic), None),)
        if stage == 1 and not view.has_topic and not view.is_marked:
            yield CREATE, 0, self.creation(1)
        if not self._scene.undelete:
            return
        if pause == 0:
            yield PAUSE, 1, (Create(paths.DELETIONS_PAUSED, None),)
        if pause == 1:
            yield RESUME, 1, (Delete(paths.DELETIONS_PAUSED),)
        if stage and not request and view.is_marked:
            wanted = znodes.encode_topic_request(znodes.TopicRequest(znodes.RequestedAction.UNDELETE))
            yield REQUEST, 2, (Create(paths.request(self._topic), wanted),)
