"""What to do about a finding: a sentence, and a command where one helps.

docs/surveys.md has them all. Commands of `lethe` leave `--zookeeper` to the environment (LETHE_ZOOKEEPER_CONNECT).
Names are quoted for a shell.
"""

from __future__ import annotations

import shlex
from typing import NamedTuple

from lethe.pipeline.report.values import Finding
from lethe.protocol.findings import Reason
from lethe.protocol.remedies import CLEAR_CACHE, CLEAR_OLD_INCARNATION, REMAKE_DIRECTORY
from lethe.protocol.shell_words import operand, option


class Remedy(NamedTuple):
    """`does` is a sentence; `command` may be None."""

    does: str
    command: str | None = None


_RESIGN = "lethe controller-resign"


def remedy(finding: Finding, seen_at: str | None = None) -> Remedy:
    """For the reason of that finding; nothing is ever removed without somebody having looked, and nothing that may be
    of a living topic is moved or deleted: `seen_at` is when an earlier survey saw what none has looked at since."""
    reason = {each.code: each for each in Reason}.get(finding.reason or "")
    topic = finding.topic or ""
    what = shlex.quote(finding.what or "")
    broker = "the broker" if finding.broker is None else f"broker {finding.broker}"
    if seen_at is not None:
        return Remedy(
            f"Seen at {seen_at}, and not looked at since: see whether it is still so before anything else. Take a "
            f"survey on the host of {broker}.",
            "lethe survey",
        )
    match reason:
        case Reason.MARKED_TOPIC:
            return Remedy("It is under way, or waits; this says for what.", f"lethe explain {operand(topic)}")
        case Reason.MARKER_WITHOUT_TOPIC:
            return Remedy("An active controller drops it by itself; if it stays, have another one look.", _RESIGN)
        case Reason.REASSIGNMENT_WITHOUT_TOPIC:
            return Remedy("A controller that takes over drops such entries.", _RESIGN)
        case Reason.CONFIG_WITHOUT_TOPIC:
            return Remedy(
                "The next topic of that name would begin with it. Look at it, then remove it.",
                f'zookeeper-shell.sh "$LETHE_ZOOKEEPER_CONNECT" delete {what}',
            )
        case Reason.HALF_DELETED_TOPIC:
            does = "An active controller finishes it; this says what it waits for."
            return Remedy(does, f"lethe explain {operand(topic)}")
        case Reason.INCOMPLETE_TOPIC:
            does = "It is being made, or was damaged. See which before anything else."
            return Remedy(does, f"lethe explain {operand(topic)}")
        case Reason.CACHED_WITHOUT_TOPIC | Reason.CACHED_OTHER_INCARNATION | Reason.IN_NO_CACHE:
            return _cached(reason, broker)
        case Reason.DIRECTORY_WITHOUT_TOPIC | Reason.DIRECTORY_OF_OTHER_INCARNATION | Reason.DIRECTORY_NOT_ASSIGNED:
            return Remedy(
                f"No controller will ask for it again. Stop {broker}, move the directory out of the log directory, "
                "start it, and remove the bytes when nobody has missed them.",
                f"mv -- {what} /somewhere/else/",
            )
        case Reason.STRAY_DIRECTORY:
            return Remedy("The broker does not use it. See whose records these are before it goes.", f"ls -l -- {what}")
        case Reason.NOT_RECLAIMED_YET:
            return Remedy("It goes by itself, after log.segment.delete.delay.ms (file.delete.delay.ms).")
        case Reason.REPLICA_WITHOUT_DIRECTORY:
            return Remedy(_of(REMAKE_DIRECTORY, broker), f"lethe topics describe {option('--topic', topic)}")
        case None:
            return Remedy("This shows what is known of the topic.", f"lethe explain {operand(topic)}")


def _cached(reason: Reason, broker: str) -> Remedy:
    if reason is Reason.CACHED_WITHOUT_TOPIC:
        return Remedy(_of(CLEAR_CACHE, broker))
    if reason is Reason.CACHED_OTHER_INCARNATION:
        return Remedy(_of(CLEAR_OLD_INCARNATION, broker))
    return Remedy("A controller that takes over tells every broker of every topic that there is.", _RESIGN)


def _of(advice: str, broker: str) -> str:
    """A text of `protocol.remedies` as a sentence."""
    does = advice.replace("broker {broker}", broker)
    return f"{does[0].upper()}{does[1:]}."
