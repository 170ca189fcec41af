"""`lethe topics delete --bootstrap-server`: the controller is asked, by the ids of topics, and brokers are looked at.

All names are checked before any topic is deleted, as through ZooKeeper. Which topics are protected is not shown by
brokers; a controller of Lethe refuses to delete them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lethe.admin.client_changes import Asked, delete_topics
from lethe.admin.client_cluster import ClientCluster
from lethe.admin.client_deletion import BrokersLook, shown_targets
from lethe.admin.client_topics import ShownTopics, demand_shown, shown_topics
from lethe.admin.deletion_wait import wait_until_gone
from lethe.admin.outcomes import Outcome, exit_of
from lethe.admin.refusal import Exit
from lethe.admin.topic_znodes import ListedTopics
from lethe.cli.answer import Answer
from lethe.cli.asking import Confirm
from lethe.cli.deletion_display import progress_display
from lethe.cli.deletion_show import Detail, problem_lines, state_line, waiting_answer
from lethe.cli.render import note
from lethe.cli.topics_delete_selection import choose, demand_meant
from lethe.protocol.journal import JsonValue
from lethe.survey.brokers import reused_connections

ASK_TIMEOUT_MS: Final = 5_000
"""Per answer of a broker."""
PROTECTION_UNSEEN: Final = (
    "note: brokers do not show which topics are protected; a controller of Lethe refuses to delete those"
)
_UNSEEN: Final = ("marked", "was_marked", "deleted")


@dataclass(frozen=True, slots=True)
class BrokersDeletion:
    """The options of the command. `confirm` None agrees."""

    expressions: tuple[str, ...]
    if_exists: bool = False
    confirm: Confirm | None = None
    dry_run: bool = False
    wait: bool = False
    detail: Detail = Detail.CAUSES
    timeout_ms: int = 300_000
    show_progress: bool = False


async def brokers_deletion(cluster: ClientCluster, wanted: BrokersDeletion) -> Answer:
    """Delete the topics. With `wait`, look until no broker has anything of them, or the time is over."""
    shown = await shown_topics(cluster)
    chosen = choose(wanted.expressions, ListedTopics(shown.names, ()))
    await demand_shown(cluster, shown, chosen.missing, if_exists=wanted.if_exists)
    if chosen.names and wanted.detail is not Detail.QUIET:
        note(PROTECTION_UNSEEN)
    await demand_meant(chosen, wanted.confirm)
    if not chosen.names:
        return Answer([], ("Nothing to delete.",))
    if wanted.dry_run:
        return Answer([*chosen.names], tuple(f"Would delete topic {name}." for name in chosen.names))
    asked = await delete_topics(cluster, shown, chosen.names)
    # Whether an unknown one is deleted shows at the brokers.
    if not wanted.wait or any(each.problem is not None and not each.is_unknown for each in asked.outcomes):
        return _asked_answer(asked, wanted.detail)
    for line in _asked_lines(asked, wanted.detail):
        note(line)
    return await _waited(cluster, shown, chosen.names, wanted)


async def _waited(cluster: ClientCluster, shown: ShownTopics, names: Sequence[str], wanted: BrokersDeletion) -> Answer:
    quiet = not wanted.show_progress or wanted.detail is Detail.QUIET
    async with reused_connections(cluster.reach, timeout_ms=min(ASK_TIMEOUT_MS, wanted.timeout_ms)) as ask:
        with progress_display(quiet=quiet, total=len(names)) as display:
            waited = await wait_until_gone(
                BrokersLook(cluster, ask, shown.answer),
                shown_targets(shown, names),
                timeout_ms=cluster.left_ms,
                display=display,
                has_znodes=False,
            )
    return waiting_answer(waited, wanted.detail)


def _asked_answer(asked: Asked, detail: Detail) -> Answer:
    data: list[JsonValue] = [
        {
            "topic": each.name,
            # Without --wait no broker was looked at: the controller's word is not seen by anybody.
            **dict.fromkeys(_UNSEEN),
            "controller_says": _said(each, asked),
            "was_gone": each.was_done,
            "problem": each.problem,
            "not_shown": [*_UNSEEN],
        }
        for each in asked.outcomes
    ]
    code = exit_of(asked.outcomes)
    return Answer(data, _asked_lines(asked, detail), exit=Exit.TIMED_OUT if asked.late and code is Exit.OK else code)


def _said(outcome: Outcome, asked: Asked) -> str | None:
    """Return what the controller said of the deletion, for programs; None where `problem` says it."""
    if outcome.problem is not None:
        return None
    if outcome.was_done:
        return "unknown topic"
    return "timed out" if outcome.name in asked.late else "deleted"


def _asked_lines(asked: Asked, detail: Detail) -> tuple[str, ...]:
    """Return lines about what the controller answered. Problems come last, and are shown with every detail."""
    fine = [each for each in asked.outcomes if each.problem is None]
    late = [each for each in fine if each.name in asked.late]
    groups = (
        ("deleted, says the controller", [each for each in fine if not each.was_done and each not in late]),
        ("gone already, says the controller", [each for each in fine if each.was_done]),
        ("not deleted in the time of the request, and may be later", late),
    )
    lines: list[str] = []
    for state, outcomes in groups:
        if detail is not Detail.QUIET or outcomes == late:
            lines += _lines(state, outcomes, detail)
    problems = [str(each.problem) for each in asked.outcomes if each.problem is not None]
    return (*lines, *problem_lines(problems, detail))


def _lines(state: str, outcomes: Sequence[Outcome], detail: Detail) -> list[str]:
    names = [each.name for each in outcomes]
    if detail is Detail.TOPICS:
        return [state_line([name], state) for name in names]
    return [state_line(names, state)] if names else []
