"""Output of `lethe topics delete`: a line per cause, or with --verbose a line per topic."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from lethe.admin.deletion_progress import MARK_DROPPED, TopicDeletionProgress, UnseenPlace
from lethe.admin.deletion_wait import DeletionWaitResult
from lethe.admin.outcomes import Outcome, exit_of
from lethe.admin.refusal import Exit
from lethe.cli.answer import Answer, Table
from lethe.protocol.counting import counted, listed
from lethe.protocol.journal import JsonValue
from lethe.survey.debts import by_broker, debt_json, settling_text

SHOWN_NAMES: Final = 3
SHOWN_PROBLEMS: Final = 20
NOT_SHOWN: Final = ("marked", "znode", "trashed_until_ms", "owed", "unseen_znodes")
"""Fields that an answer through brokers cannot have."""


class Detail(enum.Enum):
    """Amount of output."""

    QUIET = "only failures"
    CAUSES = "a line for each cause"
    TOPICS = "a line for each topic"

    @classmethod
    def of(cls, *, quiet: bool, verbose: bool) -> Detail:
        """Return the detail by the options. Raises ValueError where both are given."""
        if quiet and verbose:
            raise ValueError("--quiet says less and --verbose says more: give one of them")
        return cls.QUIET if quiet else cls.TOPICS if verbose else cls.CAUSES


class State(enum.Enum):
    """Progress of one topic."""

    DELETED = "deleted"
    OWED = "deleted, the rest is owed"
    TRASHED = "in the trash"
    UNSEEN = "gone, as far as could be seen"
    WAITING = "waiting"
    REFUSED = "refused"


def state_of(progress: TopicDeletionProgress) -> State:
    """Return the state; UNSEEN only where nothing of the topic was seen."""
    if progress.is_done:
        return State.OWED if progress.owed else State.DELETED
    if progress.is_trashed:
        return State.TRASHED
    if progress.is_given_up:
        return State.REFUSED
    return State.WAITING if progress.is_left else State.UNSEEN


# --- marking ------------------------------------------------------------------------------------------------------


def marking_lines(outcomes: Sequence[Outcome], detail: Detail, alone: Sequence[str] = ()) -> tuple[str, ...]:
    """Return lines about the marks; `alone` are topics without a znode. Problems come last, and are shown with every
    detail."""
    problems = [outcome.problem for outcome in outcomes if outcome.problem is not None]
    fine = [outcome for outcome in outcomes if outcome.problem is None]
    lines: list[str] = []
    if detail is Detail.TOPICS:
        lines += [_marked([outcome.name], was_done=outcome.was_done) for outcome in fine]
    elif detail is Detail.CAUSES:
        for was_done in (True, False):
            if names := [outcome.name for outcome in fine if outcome.was_done is was_done]:
                lines.append(_marked(names, was_done=was_done))
    if alone and detail is not Detail.QUIET:
        lines.append(_marker_alone(alone))
    return (*lines, *problem_lines(problems, detail))


def problem_lines(problems: Sequence[str], detail: Detail) -> tuple[str, ...]:
    """Return the problems: all, or as many as are read."""
    shown = problems if detail is Detail.TOPICS else problems[:SHOWN_PROBLEMS]
    left = len(problems) - len(shown)
    return (*shown, *([f"… and {counted(left, 'more problem')} (--verbose names all)"] if left else []))


def _marked(names: Sequence[str], *, was_done: bool) -> str:
    state = "already marked for deletion" if was_done else "marked for deletion"
    return state_line(names, state)


def _marker_alone(names: Sequence[str]) -> str:
    says = "`lethe explain` says what brokers may still have."
    if len(names) == 1:
        return f"Topic {names[0]} has no znode: at most its marker is left, which a controller drops. {says}"
    having, shown = counted(len(names), "topic has", "topics have"), listed(names, SHOWN_NAMES)
    return f"{having} at most markers left, which a controller drops, and no znodes: {shown}. {says}"


def state_line(names: Sequence[str], state: str) -> str:
    """Return `Topic orders is STATE.`, or how many topics are, with some of their names."""
    if len(names) == 1:
        return f"Topic {names[0]} is {state}."
    return f"{counted(len(names), 'topic is', 'topics are')} {state}: {listed(names, SHOWN_NAMES)}."


def marking_answer(outcomes: Sequence[Outcome], detail: Detail, alone: Sequence[str] = ()) -> Answer:
    """Return the answer without --wait, or after failed marks; `alone` are topics without a znode."""
    data: list[JsonValue] = [
        {
            "topic": o.name,
            "marked": o.problem is None,
            "was_marked": o.was_done,
            "problem": o.problem,
            "znode": o.name not in alone,
        }
        for o in outcomes
    ]
    named = {outcome.name for outcome in outcomes}
    data += [
        {"topic": name, "marked": None, "was_marked": None, "problem": None, "znode": False}
        for name in alone
        if name not in named
    ]
    return Answer(data, marking_lines(outcomes, detail, alone), exit=exit_of(outcomes))


# --- waiting ------------------------------------------------------------------------------------------------------


def waiting_answer(waited: DeletionWaitResult, detail: Detail) -> Answer:
    """Return the answer of --wait. Exit code 1: a mark was dropped; 4: something is left; 3: nothing seen is left, but
    something was not seen."""
    data: list[JsonValue] = [_as_json(progress, waited) for progress in waited.progress]
    states = [state_of(progress) for progress in waited.progress]
    code = Exit.OK
    if State.REFUSED in states:
        code = Exit.NO
    elif State.WAITING in states:
        code = Exit.TIMED_OUT
    elif State.UNSEEN in states:
        code = Exit.UNREACHABLE
    if detail is Detail.QUIET and code is Exit.OK:
        return Answer(data)
    asked = counted(len(states), "topic")
    deleted = states.count(State.DELETED) + states.count(State.OWED)
    lines = [f"{deleted} of {asked} deleted after {waited.elapsed_ms / 1000:.1f} s"]
    lines += [
        f"broker {owing.broker} owes {owing.text}: "
        f"{settling_text(owing.broker, is_registered=False, is_lethe=waited.is_lethe)}"
        for owing in by_broker(debt for progress in waited.progress for debt in progress.owed)
    ]
    if trashed := states.count(State.TRASHED):
        lines.append(
            f"{counted(trashed, 'topic is', 'topics are')} in the trash (lethe.deletion.grace): "
            "`lethe topics trash list` says until when"
        )
    if unseen := states.count(State.UNSEEN):
        lines.append(f"{counted(unseen, 'topic is', 'topics are')} gone {_as_far_as_seen(waited)} could be seen")
    if not waited.has_znodes:
        lines.append("Brokers' caches and log directories were looked at; markers and znodes are not shown to clients")
    if detail is Detail.TOPICS:
        return Answer(data, tuple(lines), (_by_topic(waited),), code)
    return Answer(data, tuple(lines), tuple(_by_cause(waited)), code)


def _as_far_as_seen(waited: DeletionWaitResult) -> str:
    if not waited.has_znodes:
        return "as far as brokers show it, but not every cache and log directory"
    if any(progress.unseen_znodes for progress in waited.progress):
        return "as far as could be seen, but not every znode, cache and log directory"
    return "from ZooKeeper, but not every cache and log directory"


def _columns(waited: DeletionWaitResult) -> tuple[str, ...]:
    return ("ZooKeeper", "caches", "logs") if waited.has_znodes else ("caches", "logs")


def _by_topic(waited: DeletionWaitResult) -> Table:
    rows = tuple(
        (
            progress.name,
            state_of(progress).value,
            *(_cell([progress], latest) for latest in _places(waited)),
            ", ".join(_causes(progress, waited)),
        )
        for progress in waited.progress
    )
    return Table(("topic", "state", *_columns(waited), "cause"), rows)


def _by_cause(waited: DeletionWaitResult) -> Iterable[Table]:
    """Yield a table with a row per state and the times when its last topic was clean, and one with a row per cause."""
    by_state: dict[State, list[TopicDeletionProgress]] = {}
    by_cause: dict[str, list[str]] = {}
    for progress in waited.progress:
        by_state.setdefault(state_of(progress), []).append(progress)
        for cause in _causes(progress, waited):
            by_cause.setdefault(cause, []).append(progress.name)
    rows = tuple(
        (
            each[0].name if len(each) == 1 else counted(len(each), "topic"),
            state.value,
            *(_cell(each, latest) for latest in _places(waited)),
        )
        for state, each in by_state.items()
    )
    yield Table(("topics", "state", *_columns(waited)), rows)
    if by_cause:
        ordered = sorted(by_cause.items(), key=lambda item: -len(item[1]))
        causes = tuple((str(len(names)), cause, listed(names, SHOWN_NAMES)) for cause, names in ordered)
        yield Table(("topics", "cause", "such as"), causes, "Not done")


def _causes(progress: TopicDeletionProgress, waited: DeletionWaitResult) -> tuple[str, ...]:
    if progress.is_trashed:
        return ()
    return (MARK_DROPPED,) if progress.is_given_up else waited.why.get(progress.name) or progress.waits


Clean = Callable[[TopicDeletionProgress], int | None]
"""Milliseconds until a place was seen to be clean of a topic; None where it never was."""


def _places(waited: DeletionWaitResult) -> tuple[Clean, ...]:
    znodes: tuple[Clean, ...] = (lambda progress: waited.zookeeper_ms.get(progress.name),)
    return (
        *(znodes if waited.has_znodes else ()),
        lambda progress: waited.caches_ms.get(progress.name),
        lambda progress: waited.logs_ms.get(progress.name),
    )


def _cell(topics: Sequence[TopicDeletionProgress], clean: Clean) -> str:
    times = [clean(progress) for progress in topics]
    known = [each for each in times if each is not None]
    return f"{max(known) / 1000:.1f} s" if known and len(known) == len(times) else ""


def _as_json(progress: TopicDeletionProgress, waited: DeletionWaitResult) -> JsonValue:
    return {
        "topic": progress.name,
        "deleted": progress.is_done,
        "trashed_until_ms": progress.trashed_until_ms if progress.is_trashed else None,
        "marked": progress.is_marked,
        "znode": progress.has_znode,
        "cached_by": [*progress.cached_by],
        "stored_by": [*progress.stored_by],
        "silent": [*progress.silent],
        "absent": [*progress.absent],
        "failed_log_dirs": [{"broker": failed.broker, "path": failed.path} for failed in progress.failed_log_dirs],
        "owed": [debt_json(debt) for debt in progress.owed],
        "unseen": [_unseen_json(each) for each in progress.unseen],
        "unseen_znodes": [{"path": each.path, "why": each.why} for each in progress.unseen_znodes],
        "waits_for": ", ".join(_causes(progress, waited)),
        "zookeeper_clean_after_ms": waited.zookeeper_ms.get(progress.name),
        "caches_clean_after_ms": waited.caches_ms.get(progress.name),
        "logs_clean_after_ms": waited.logs_ms.get(progress.name),
        **({} if waited.has_znodes else {**dict.fromkeys(NOT_SHOWN), "not_shown": [*NOT_SHOWN]}),
    }


def _unseen_json(unseen: UnseenPlace) -> JsonValue:
    return {
        "broker": unseen.broker,
        "place": unseen.place.value,
        "failure": unseen.failure.name.lower(),
        "why": unseen.why,
    }
