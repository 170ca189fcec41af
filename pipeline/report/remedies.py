"""The remedy for a finding: a sentence, and a command if one helps.

docs/surveys.md lists them. Commands of `lethe` take `--zookeeper` from the environment (LETHE_ZOOKEEPER_CONNECT). Names
are quoted for a shell.
"""

from __future__ import annotations

import shlex
from typing import NamedTuple

from lethe.pipeline.report.values import Finding
from lethe.protocol.findings import Reason
from lethe.protocol.remedies import CLEAR_CACHE, CLEAR_OLD_INCARNATION, FIX_SETTINGS, REMAKE_DIRECTORY
from lethe.protocol.shell_words import operand, option


class Remedy(NamedTuple):
    """`does` is a sentence; `command` may be None."""

    does: str
    command: str | None = None


_RESIGN = "lethe controller-resign"


def remedy(finding: Finding, seen_at: str | None = None) -> Remedy:
    """Return the remedy for the reason of the finding. It never removes anything before a person has looked, and never
    moves or deletes what may belong to a living topic. `seen_at` is the time of an earlier survey, if none has read
    that disk since."""
    reason = {each.code: each for each in Reason}.get(finding.reason or "")
    topic = finding.topic or ""
    what = shlex.quote(finding.what or "")
    explain = f"lethe explain {operand(topic)}"
    broker = "the broker" if finding.broker is None else f"broker {finding.broker}"
    if seen_at is not None:
        return Remedy(
            f"Seen at {seen_at} and not since. First check whether it is still there: take a survey on the host of "
            f"{broker}.",
            "lethe survey",
        )
    match reason:
        case Reason.MARKED_TOPIC:
            return Remedy("It is in progress or waits; this command shows the cause.", explain)
        case Reason.MARKER_WITHOUT_TOPIC:
            return Remedy("An active controller removes it. If it stays, let another controller take over.", _RESIGN)
        case Reason.REASSIGNMENT_WITHOUT_TOPIC:
            return Remedy("A controller that takes over removes such entries.", _RESIGN)
        case Reason.CONFIG_WITHOUT_TOPIC:
            return Remedy(
                "A new topic of that name would get it. Check that it is not wanted, then have it removed.",
                FIX_SETTINGS,
            )
        case Reason.HALF_DELETED_TOPIC:
            return Remedy("An active controller finishes it; this command shows what it waits for.", explain)
        case Reason.INCOMPLETE_TOPIC:
            return Remedy("It is being created, or it is damaged. First find out which.", explain)
        case Reason.CACHED_WITHOUT_TOPIC | Reason.CACHED_OTHER_INCARNATION | Reason.IN_NO_CACHE:
            return _cached(reason, broker)
        case Reason.DIRECTORY_WITHOUT_TOPIC | Reason.DIRECTORY_OF_OTHER_INCARNATION | Reason.DIRECTORY_NOT_ASSIGNED:
            return Remedy(
                f"No controller requests its deletion again. Stop {broker}, move the directory out of the log "
                "directory and start the broker. Remove the bytes later, when it is certain that they are not needed.",
                f"mv -- {what} /somewhere/else/",
            )
        case Reason.STRAY_DIRECTORY:
            return Remedy(
                "The broker does not use it. Find out whose records it has before you remove it.", f"ls -l -- {what}"
            )
        case Reason.NOT_RECLAIMED_YET | Reason.DIRECTORY_OWED:
            return _pending(reason, finding.broker)
        case Reason.REPLICA_WITHOUT_DIRECTORY:
            return Remedy(_as_sentence(REMAKE_DIRECTORY, broker), f"lethe topics describe {option('--topic', topic)}")
        case None:
            return Remedy("This command shows what is known of the topic.", explain)


def _pending(reason: Reason, broker: int | None) -> Remedy:
    if reason is Reason.NOT_RECLAIMED_YET:
        return Remedy("The broker removes it after log.segment.delete.delay.ms (file.delete.delay.ms).")
    return Remedy(
        "Lethe's controller has it deleted when the broker is back; under Kafka's, lethe brokers settle does. If the "
        "broker never comes back, give up what it owes.",
        None if broker is None else f"lethe brokers forget {broker}",
    )


def _cached(reason: Reason, broker: str) -> Remedy:
    if reason is Reason.CACHED_WITHOUT_TOPIC:
        return Remedy(_as_sentence(CLEAR_CACHE, broker))
    if reason is Reason.CACHED_OTHER_INCARNATION:
        return Remedy(_as_sentence(CLEAR_OLD_INCARNATION, broker))
    return Remedy("A controller that takes over sends every broker all topics.", _RESIGN)


def _as_sentence(advice: str, broker: str) -> str:
    """Return a text of `protocol.remedies` as a sentence."""
    does = advice.replace("broker {broker}", broker)
    return f"{does[0].upper()}{does[1:]}."
