"""What the operator does: marks the topic, creates it again; in some scenes pauses deletions, requests it back, or
requests that it is deleted from the trash."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lethe.protocol.vocabulary import BrokerId, ReplicaAssignment, TopicId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import Create, Delete, Operation
from lethe.protocol.zookeeper.znodes import RequestedAction, TrashPhase
from tests.explore.actions import Scene
from tests.explore.trash import GRACE_MS, SETTINGS
from tests.explore.zookeeper import View

WRITES: Final = (
    "marks topic A for deletion",
    "creates the topic again: B",
    "pauses deletions",
    "resumes deletions",
    "requests topic A back",
    "marks topic A for the trash",
    "requests that topic A is deleted from the trash",
    "requests that topic B is deleted from the trash, where it is not",
    "marks topic A, which has come back, for deletion at once",
    "marks topic A, which has come back, for the trash",
)
MARK, CREATE, PAUSE, RESUME, REQUEST, TRASH, PURGE, PURGE_OTHER, MARK_AGAIN, TRASH_AGAIN = range(len(WRITES))
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
        is_asked = self._scene.undelete or self._scene.has_trash
        return tuple(Create(path, None) for path in (paths.LETHE, paths.REQUESTS)) if is_asked else ()

    def creation(self, life: int) -> tuple[Operation, ...]:
        """Return the write that creates the topic for the first or second time."""
        assignments = {0: ReplicaAssignment(self._brokers)}
        settings = SETTINGS if self._scene.has_trash else {}
        return (
            Create(paths.config_topic(self._topic), znodes.encode_config(settings)),
            Create(paths.topic(self._topic), znodes.encode_topic(znodes.TopicZnode(assignments, self._lives[life]))),
        )

    def writes(self, stage: int, pause: int, request: int, view: View) -> Iterator[Write]:
        """Yield what the operator may do next."""
        is_kept = self._scene.trash or self._scene.purge
        if stage == 0 and is_kept:
            yield TRASH, 0, (self._marker(GRACE_MS),)
        elif stage == 0:
            yield MARK, 0, (Create(paths.delete_topic(self._topic), None),)
        if stage == 1 and not view.has_topic and not view.is_marked and view.trash.entry is None:
            yield CREATE, 0, self.creation(1)
        if stage and not request:
            yield from self._requests(view)
        if self._scene.again and request == 1 and stage == 1 and self._is_back(view):
            now, later = (MARK_AGAIN, 2, (self._marker(0),)), (TRASH_AGAIN, 2, (self._marker(GRACE_MS),))
            yield now if is_kept else later
        if not self._scene.undelete:
            return
        if pause == 0:
            yield PAUSE, 1, (Create(paths.DELETIONS_PAUSED, None),)
        if pause == 1:
            yield RESUME, 1, (Delete(paths.DELETIONS_PAUSED),)

    def _requests(self, view: View) -> Iterator[Write]:
        is_in = view.trash.phase is TrashPhase.TRASHED
        if (self._scene.undelete or self._scene.trash) and (view.is_marked or is_in):
            yield REQUEST, 2, (self._request(RequestedAction.UNDELETE),)
        if self._scene.purge and is_in:
            yield PURGE, 2, (self._request(RequestedAction.PURGE, self._lives[0]),)
            yield PURGE_OTHER, 2, (self._request(RequestedAction.PURGE, self._lives[1]),)

    def _is_back(self, view: View) -> bool:
        return view.topic_id == self._lives[0] and not view.is_marked

    def _marker(self, grace_ms: int) -> Operation:
        orders = znodes.DeletionOrders(grace_ms=grace_ms)
        return Create(paths.delete_topic(self._topic), znodes.encode_deletion_marker(orders))

    def _request(self, action: RequestedAction, topic_id: TopicId | None = None) -> Operation:
        return Create(paths.request(self._topic), znodes.encode_topic_request(znodes.TopicRequest(action, topic_id)))
