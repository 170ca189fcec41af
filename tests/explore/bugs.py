"""Bugs that the search must find, with the shortest path: some of the simulator's, some about debts and requests."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final, NamedTuple

from lethe.controller.core import debts, debts_written, undeleting
from lethe.controller.core.context import Context
from lethe.controller.core.events import LeaderAndIsrResponseReceived
from lethe.controller.core.step_context import StepContext
from lethe.protocol.kafka.control import LeaderAndIsrRequest, LeaderAndIsrResponse, TopicIdError
from lethe.protocol.kafka.errors import ErrorCode
from tests.explore.actions import Bounds, Scene
from tests.simulation import bugs_control, bugs_deletion, bugs_trash
from tests.simulation.planted import Bug
from tests.simulation.planting import everywhere


def debts_unwritten() -> AbstractContextManager[object]:
    """The znodes go, and what an absent broker still has is written nowhere."""
    return everywhere(debts_written.missing, lambda context, name, now_ms: ())


def compare_unread() -> AbstractContextManager[object]:
    """Every answer to a compare is taken for NONE, so a later topic of that name is deleted instead of the owed one."""
    compared = debts.compared

    def unread(step: StepContext, event: LeaderAndIsrResponseReceived, request: LeaderAndIsrRequest) -> bool:
        rows = [
            TopicIdError(None, topic.topic_id, row.partition, ErrorCode.NONE)
            for topic in request.topics
            for row in topic.partitions
        ]
        response = LeaderAndIsrResponse.of_rows(ErrorCode.NONE, rows)
        return compared(step, replace(event, response=response), request)

    return everywhere(compared, unread)


def inherited_mark_trusted() -> AbstractContextManager[object]:
    """A topic is brought back whose deletion a controller that died may have begun."""
    problem = undeleting._problem

    def trusting(context: Context, name: str, asked: undeleting._Asked) -> str | None:
        found = problem(context, name, asked)
        return None if found == undeleting.INHERITED else found

    return everywhere(problem, trusting)


class Planted(NamedTuple):
    """A bug, a world in which it shows, and how its problem begins."""

    bug: Bug
    bounds: Bounds
    problem: str
    scene: Scene = Scene()
    is_slow: bool = False
    """The search takes more than ten seconds."""


_NONE: Final = Bounds(crashes=0, absences=0)
_ABSENCE: Final = Bounds(crashes=0, absences=1)
_CRASH: Final = Bounds(crashes=1, absences=0)
_STUCK: Final = "from here no path"
_TRASH: Final = Scene(trash=True)

BUGS: Final[Mapping[str, Planted]] = {
    each.bug.__name__: each
    for each in (
        Planted(bugs_deletion.marker_first, _NONE, "S4"),
        Planted(bugs_deletion.any_stop_answer_counts, _NONE, "S1"),
        Planted(bugs_deletion.never_retried, _ABSENCE, _STUCK),
        Planted(bugs_control.bounce_unnoticed, _ABSENCE, _STUCK),
        Planted(debts_unwritten, _ABSENCE, "S1", Scene(owe=True)),
        Planted(inherited_mark_trusted, _CRASH, "back", Scene(undelete=True), is_slow=True),
        Planted(compare_unread, _CRASH, "S2", Scene(owe=True, away=True)),
        Planted(bugs_trash.trashed_replicas_deleted, _NONE, "S2", _TRASH),
        Planted(bugs_trash.restored_under_the_same_epoch, _NONE, "back", _TRASH),
        Planted(bugs_trash.versions_begin_anew, _ABSENCE, "back", _TRASH),
        Planted(bugs_trash.any_incarnation_purged, _NONE, "due", Scene(purge=True)),
        Planted(bugs_trash.entry_removed_first, _NONE, "due", _TRASH),
        Planted(bugs_trash.settings_left_frozen, _NONE, "settled", _TRASH),
        Planted(bugs_trash.refused_marker_leaves_it_frozen, _NONE, _STUCK, _TRASH),
        Planted(bugs_trash.not_announced_after_failover, _CRASH, "hidden", _TRASH),
        Planted(bugs_trash.old_marker_counts, _NONE, "S2", Scene(undelete=True, again=True)),
    )
}
