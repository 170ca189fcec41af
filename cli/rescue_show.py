"""Output of a rescue: before it, and of its result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from lethe.admin.controller_identity import NO_CONTROLLER_ACTIVE
from lethe.admin.refusal import Exit
from lethe.admin.rescue_control import ControlStage
from lethe.admin.rescue_ghosts import ended_lines, found_lines
from lethe.admin.rescue_limits import MAX_CAUSES, PAUSED, beyond_command
from lethe.admin.rescue_plan import ExpectedResult, outlook, outlook_counts
from lethe.admin.rescue_run import ControlPeriod, RescueResult
from lethe.admin.rescue_snapshot import RescueSnapshot
from lethe.cli.answer import Answer
from lethe.cli.explain_show import no_trace
from lethe.controller.runtime.unconfirmed_deletions import as_json, left_words
from lethe.protocol.causes import CauseKind
from lethe.protocol.counting import counted, listed, plural, topics_listed
from lethe.protocol.journal import JsonValue
from lethe.protocol.shell_words import operand
from lethe.survey.causes import age_text, sentence, unblock
from lethe.survey.debts import by_broker
from lethe.survey.explain import CLEAN, DeletionVerdict, Explanation
from lethe.survey.explain_json import explanations_to_json
from lethe.survey.unseen import unseen_text

MAX_ROWS: Final = 50
MAX_NAMES: Final = 3
_BYTES: Final = "brokers have yet to remove the bytes"
_FALLING_OVER: Final = "each of Kafka's controllers fails on something that it reads, and the next one takes over"


def before(seen: RescueSnapshot, *, even_if_disabled: bool) -> list[str]:
    """Return the present controller, what is stuck and why, and what a rescue would do about it."""
    now_ms = seen.evidence.survey.taken_at_ms
    lines = [_holder(seen)]
    if seen.election_rate.are_too_many:
        lines.append(f"Control changes hands all the time ({seen.election_rate}): {_FALLING_OVER}.")
    if seen.election_rate.elections is None:
        lines.append(f"How often control changes hands is {seen.election_rate}.")
    if seen.is_paused:
        lines.append(PAUSED)
    if seen.beyond_command:
        lines.append(beyond_command(seen))
    if not seen.found:
        lines.append("No topic is marked for deletion.")
    expected = {each.topic: outlook(each, even_if_disabled=even_if_disabled) for each in seen.found}
    there = [each for each in seen.found if each.topic not in seen.similar]
    lines += [_without_trace(seen, each) for each in seen.found if each.topic in seen.similar]
    groups = _together(there, lambda each: expected[each.topic])
    for group in groups[:MAX_ROWS]:
        lines.append(f"{_names(group)}: {_age(group, now_ms)}{expected[group[0].topic].value}.")
        lines += [f"    {line}" for line in causes(group[0], now_ms)]
    if len(groups) > MAX_ROWS:
        lines.append(f"… and {counted(sum(map(len, groups[MAX_ROWS:])), 'more topic')} (--json has all).")
    lines += [f"{line[:1].upper()}{line[1:]}." for line in seen.will_owe]
    lines += seen.will_lose
    lines += found_lines(seen.caches)
    if seen.zombies:
        names = listed(seen.zombies, 5)
        lines.append(f"/admin/reassign_partitions names what is not there ({names}): a rescue takes that out.")
    return lines


def causes(each: Explanation, now_ms: int) -> list[str]:
    """Return why the topic is not gone, a line per cause."""
    said = [f"{sentence(c, '', now_ms).strip()} -> {unblock(c, each.topic)}" for c in each.causes[:MAX_CAUSES]]
    more = len(each.causes) - len(said)
    return [*said, *([f"… and {counted(more, 'more cause')}"] if more > 0 else [])]


def _without_trace(seen: RescueSnapshot, each: Explanation) -> str:
    unseen = (
        "" if each.verdict is DeletionVerdict.GONE else f" as far as could be seen: {unseen_text(seen.evidence.survey)}"
    )
    return no_trace(each.topic, unseen, seen.similar[each.topic])


def _together(found: Iterable[Explanation], alike: Callable[[Explanation], object]) -> list[list[Explanation]]:
    """Group topics that wait for the same, in the order of their first topics."""
    return _alike(found, lambda each: (alike(each), tuple(cause.group for cause in each.causes)))


def _alike(found: Iterable[Explanation], key: Callable[[Explanation], object]) -> list[list[Explanation]]:
    groups: dict[object, list[Explanation]] = {}
    for each in found:
        groups.setdefault(key(each), []).append(each)
    return list(groups.values())


def _names(group: Sequence[Explanation]) -> str:
    """Return `orders` or `21 topics (a, b, c and 18 more)`."""
    return group[0].topic if len(group) == 1 else topics_listed([each.topic for each in group], MAX_NAMES)


def _age(group: Sequence[Explanation], now_ms: int) -> str:
    marked = [each.marked_since_ms for each in group if each.marked_since_ms is not None]
    if not marked:
        return ""
    longest = ", the first of them" if len(group) > 1 else ""
    return f"marked for deletion{longest} {age_text(max(0, now_ms - min(marked)))} ago, "


def _holder(seen: RescueSnapshot) -> str:
    holder = seen.holder
    if holder is None:
        return f"{NO_CONTROLLER_ACTIVE.capitalize()}."
    who = f"Controller {holder.znode.broker_id}"
    if seen.holder_is_lethe:
        return f"{who}, one of Lethe's, controls the cluster."
    if holder.is_kraft:
        return f"{who}, in KRaft mode, controls the cluster."
    response = seen.holder_response
    who = f"{who} of Kafka controls the cluster"
    if response.answers is None:
        return f"{who}; whether it answers was not seen: {response.why}."
    return f"{who} and {'answers' if response.answers else 'does not answer'}."


def plan(seen: RescueSnapshot, *, even_if_disabled: bool, lines: Sequence[str]) -> Answer:
    """Return the answer of `--dry-run`, and where nothing is to be done."""
    outlooks = [outlook(each, even_if_disabled=even_if_disabled) for each in seen.found]
    stuck = (
        any(each is not ExpectedResult.DONE for each in outlooks)
        or bool(seen.zombies)
        or seen.election_rate.are_too_many
    )
    stuck = stuck or bool(seen.caches.ghosts or seen.similar)
    is_unseen = bool(seen.caches.unseen) or seen.election_rate.elections is None
    is_unseen = is_unseen or any(each.verdict is DeletionVerdict.UNSEEN for each in seen.found)
    code = Exit.NO if stuck else Exit.UNREACHABLE if is_unseen else Exit.OK
    summary = ", ".join(f"{count} {each.value}" for each, count in outlook_counts(outlooks).items())
    data = data_of(seen, even_if_disabled=even_if_disabled, dry_run=True)
    return Answer(data, (*lines, *([f"Topics: {summary}."] if summary else [])), exit=code)


def _control_line(control: ControlPeriod) -> str:
    taken = "no controller held it" if control.before is None else f"it was taken from controller {control.before}"
    given = "no controller has taken it yet" if control.after is None else f"controller {control.after} has it now"
    match control.stage:
        case ControlStage.IN_CONTROL:
            return f"The rescue had control for {control.held_ms / 1000:.1f} s: {taken}, and {given}."
        case ControlStage.TAKEN:
            return f"Control was handed back before the rescue had loaded the cluster: {taken}, and {given}."
        case ControlStage.NOT_SEEN:
            return f"The rescue ended before it had seen that control was taken, and {given}."


def ended(result: RescueResult) -> Answer:
    """Return what became of the topics, and what remains, with reasons."""
    last, control, caches, left = result.last, result.control, result.caches, result.left
    now_ms = last.evidence.survey.taken_at_ms
    remaining = [each for each in last.found if not _is_gone(each)]
    finished = [each for each in last.found if _is_gone(each)]
    unseen = [each.topic for each in finished if each.verdict is DeletionVerdict.UNSEEN]
    left_over = [each.topic for each in finished if each.verdict is DeletionVerdict.LEFT_OVER]
    gone = len(finished) - len(unseen) - len(left_over)
    by_place = _alike(finished, lambda each: (_gone(each), _where(last, each)))
    more = f", {len(unseen)} as far as could be seen" if unseen else ""
    lines = [f"{gone} of {counted(len(last.found), 'topic is', 'topics are')} gone{more}. {_control_line(control)}"]
    lines += [
        f"{_names(group)} {plural(len(group), 'is', 'are')} {_gone(group[0])}: {_where(last, group[0])}."
        for group in by_place[:MAX_ROWS]
    ]
    for group in _together(remaining, lambda each: each.verdict)[:MAX_ROWS]:
        verb = plural(len(group), "remains", "remain")
        lines += [f"{_names(group)} {verb}:", *(f"    {line}" for line in causes(group[0], now_ms))]
    lines += [
        f"Broker {owing.broker} owes {owing.text}. Kafka's controller does not know of it: when broker {owing.broker} "
        f"is back, lethe brokers settle {owing.broker}."
        for owing in by_broker(last.evidence.survey.zookeeper.debts)
    ]
    if (forgotten := result.forgotten) is not None:
        lines.append(forgotten.problem or f"Broker {forgotten.name} is forgotten.")
        lines += result.waiting_for_forgotten.unseen_lines()
        explained = {each.topic for each in last.found}
        if alone := [name for name in result.waiting_for_forgotten.topics if name not in explained]:
            lines.append(
                f"Still marked, and waiting for broker {forgotten.name}: {listed(alone, 5)}. lethe rescue --forget "
                f"{forgotten.name} --topic {operand(alone[0])} ends that."
            )
    lines += ended_lines(caches)
    if control.election_rate.are_too_many:
        lines.append(f"Control keeps changing hands ({control.election_rate}): {_FALLING_OVER}.")
    if control.election_rate.elections is None:
        lines.append(f"How often control changes hands afterwards is {control.election_rate}.")
    if result.quarantined:
        lines.append("These znodes cannot be understood and were left alone (docs/runbook.md, LetheTopicUnreadable):")
        lines += [f"    {each}" for each in result.quarantined[:MAX_ROWS]]
    lines += [f"{line[0].upper()}{line[1:]}." for line in left_words(left)]
    data: dict[str, JsonValue] = {
        **data_of(result.first, even_if_disabled=result.even_if_disabled, dry_run=False),
        "after": explanations_to_json(last.evidence, last.found, replicas=False),
        "finished": [each.topic for each in finished],
        "unseen": [*unseen],
        "remaining": [each.topic for each in remaining],
        "metadata_caches": caches.as_json(),
        "forgotten": None if result.forgotten is None else {"problem": result.forgotten.problem},
        "waiting_for_forgotten": [*result.waiting_for_forgotten.topics],
        "waiting_for_forgotten_unseen": result.waiting_for_forgotten.unseen_json(),
        "interrupted": result.interrupted,
        "set_aside": [*result.quarantined],
        "unconfirmed": as_json(left),
        "control": {
            "controller": control.ours,
            "stage": control.stage.name.lower(),
            "taken_from": control.before,
            "handed_to": control.after,
            "held_ms": control.held_ms,
            "turns_afterwards": control.election_rate.elections,
        },
    }
    code = Exit.OK
    if result.interrupted:
        lines.insert(0, "Interrupted.")
        code = Exit.INTERRUPTED
    elif result.timed_out and (remaining or caches.unfinished):
        code = Exit.TIMED_OUT
    elif (
        bool(remaining or result.first.similar or control.election_rate.are_too_many)
        or not left.is_nothing
        or (result.forgotten is not None and result.forgotten.problem is not None)
        or bool(result.waiting_for_forgotten.topics)
        or caches.ghosts
        or left_over
    ):
        code = Exit.NO
    elif unseen or caches.unseen or result.waiting_for_forgotten.unseen or control.election_rate.elections is None:
        code = Exit.UNREACHABLE
    return Answer(data, tuple(lines), exit=code)


def _is_gone(each: Explanation) -> bool:
    return each.verdict in (
        DeletionVerdict.GONE,
        DeletionVerdict.UNSEEN,
        DeletionVerdict.RECLAIMING,
        DeletionVerdict.OWED,
        DeletionVerdict.LEFT_OVER,
    )


def _gone(each: Explanation) -> str:
    return "gone as far as could be seen" if each.verdict is DeletionVerdict.UNSEEN else "gone"


def _where(last: RescueSnapshot, each: Explanation) -> str:
    match each.verdict:
        case DeletionVerdict.GONE:
            return CLEAN
        case DeletionVerdict.OWED:
            return f"{CLEAN}; what absent brokers have of it is owed"
        case DeletionVerdict.RECLAIMING:
            return f"ZooKeeper and caches are clean, {_BYTES}"
        case DeletionVerdict.LEFT_OVER:
            return "but " + "; ".join(sentence(c, "", 0).strip() for c in each.causes[:MAX_CAUSES])
        case _:
            bytes_left = any(cause.kind is CauseKind.RECLAIMING for cause in each.causes)
            unseen = unseen_text(last.evidence.survey, each.causes)
            return f"{unseen}; {_BYTES}" if bytes_left else unseen


def data_of(seen: RescueSnapshot, *, even_if_disabled: bool, dry_run: bool) -> dict[str, JsonValue]:
    """Return the first look as JSON."""
    holder = seen.holder
    return {
        "version": 1,
        "dry_run": dry_run,
        "holder": None
        if holder is None
        else {
            "controller": holder.znode.broker_id,
            "lethe": seen.holder_is_lethe,
            "answers": seen.holder_response.answers,
        },
        "turns": seen.election_rate.elections,
        "beyond_command": [*seen.beyond_command],
        "deletion_disabled_on": [*seen.disabled_on],
        "outlook": {each.topic: outlook(each, even_if_disabled=even_if_disabled).name.lower() for each in seen.found},
        "did_you_mean": {topic: [*close] for topic, close in seen.similar.items()},
        "metadata_caches_before": seen.caches.as_json(),
        "reassignments_of_nothing": [str(partition) for partition in seen.zombies],
        "before": explanations_to_json(seen.evidence, seen.found, replicas=False),
    }
