"""Notifications of brokers, as sequential znodes: read them, act on them, delete them.

A notification only names what to read again, so reading one twice is harmless. One that cannot be understood is
recorded and deleted too; otherwise it would be read again without end. Notifications of configuration changes are not
deleted: all brokers read them, and purge old ones. For these the controller stores the last processed number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, assert_never

from lethe.controller.core import configuration
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_requests import (
    CheckLogDirs,
    DeleteNotifications,
    Notification,
    NotificationsDeleted,
    NotificationsFound,
    NotificationsRead,
    ReadNotifications,
    RefreshStates,
)
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    Children,
    Data,
    Delete,
    GetChildren,
    GetData,
    ReadOutcome,
    error_words,
    read_error,
)

T = TypeVar("T")


def find(step: StepContext, task: ReadNotifications) -> None:
    """List the notifications of this kind, and watch for more."""
    step.read((GetChildren(task.kind.value, watch=True),), NotificationsFound(task.kind))


def on_notifications_found(step: StepContext, task: NotificationsFound, outcomes: Sequence[ReadOutcome]) -> None:
    """Read the new notifications, all in one read."""
    parent = task.kind.value
    names = outcomes[0].names if isinstance(outcomes[0], Children) else ()
    if task.kind is Notification.CONFIG_CHANGE:
        names = configuration.unseen(step.context, names)
    found_paths = tuple(f"{parent}/{name}" for name in names)
    if found_paths:
        step.read((GetData(path) for path in found_paths), NotificationsRead(task.kind, found_paths))


def on_notifications_read(step: StepContext, task: NotificationsRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Act on the notifications that can be understood, and delete all, except configuration changes."""
    match task.kind:
        case Notification.ISR_CHANGE:
            changed = _understood(step, task.paths, outcomes, znodes.decode_isr_change)
            partitions = dict.fromkeys(tp for change in changed for tp in change)
            step.do(RefreshStates(tuple(partitions)), DeleteNotifications(task.paths))
        case Notification.LOG_DIR_EVENT:
            brokers = dict.fromkeys(_understood(step, task.paths, outcomes, znodes.decode_log_dir_event))
            step.do(CheckLogDirs(tuple(brokers)), DeleteNotifications(task.paths))
        case Notification.CONFIG_CHANGE:
            configuration.changed(step, _understood(step, task.paths, outcomes, znodes.decode_config_change))
        case _:
            assert_never(task.kind)


def _understood(
    step: StepContext, read: Sequence[str], outcomes: Sequence[ReadOutcome], decode: Callable[[str, bytes | None], T]
) -> list[T]:
    """Return the decoded notifications. One that is gone was handled by another controller."""
    understood: list[T] = []
    for path, outcome in zip(read, outcomes, strict=True):
        if isinstance(outcome, Data):
            try:
                understood.append(decode(path, outcome.data))
            except znodes.MalformedZnode as malformed:
                step.refuse(_subject(path), "acting on a notification", str(malformed))
        elif (error := read_error(outcome)) is not None:
            step.refuse(_subject(path), "acting on a notification", f"reading {path}: {error_words(error)}")
    return understood


def _subject(path: str) -> str:
    return f"znode{paths.parent_of(path)}"


def delete(step: StepContext, task: DeleteNotifications) -> None:
    """Delete each notification in a group of its own, since some may be gone."""
    step.write([(Delete(path),) for path in task.paths], NotificationsDeleted())
