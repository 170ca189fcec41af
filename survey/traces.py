"""What is left of topics that ZooKeeper does not have, and what was not seen of them. Pure.

A survey of thousands of topics is searched once, not once for each topic: findings, debts and problems are indexed when
the first topic is looked up.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from lethe.adapters.debts import OpenDebt
from lethe.protocol.causes import CauseKind
from lethe.protocol.counting import counted
from lethe.protocol.findings import Reason
from lethe.survey.causes import ObservedCause
from lethe.survey.debts import is_disk_of_debtor
from lethe.survey.directories import cut_names
from lethe.survey.leftovers import Leftover, leftovers
from lethe.survey.views import Problem, Survey


class _NumberedFinding(NamedTuple):
    """A finding, and its place in the order of all findings."""

    number: int
    finding: Leftover


class Traces:
    """What one survey shows of topics that ZooKeeper does not have."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey

    def causes(self, topic: str) -> Iterator[ObservedCause]:
        """Yield what is left of the topic, in the order of the survey's findings. A directory whose name is cut may be
        of several topics."""
        names = (topic, *cut_names(topic))
        found = sorted(each for name in names for each in self._findings.get(name, ()))
        for each in found:
            if (cause := _cause(each.finding)) is not None:
                yield cause

    def is_owed(self, topic: str) -> bool:
        """Return True if a broker owes this topic."""
        return topic in self._debts

    def may_be_unseen(self, topic: str) -> bool:
        """Return True if something could not be seen other than disks of absent brokers that owe this topic."""
        debts = self._debts.get(topic, ())
        return any(not is_disk_of_debtor(problem, debts) for problem in self._problems)

    @cached_property
    def _findings(self) -> dict[str, list[_NumberedFinding]]:
        found: dict[str, list[_NumberedFinding]] = {}
        for number, finding in enumerate(leftovers(self._survey)):
            found.setdefault(finding.topic, []).append(_NumberedFinding(number, finding))
        return found

    @cached_property
    def _debts(self) -> dict[str, list[OpenDebt]]:
        found: dict[str, list[OpenDebt]] = {}
        for debt in self._survey.zookeeper.debts:
            found.setdefault(debt.topic, []).append(debt)
        return found

    @cached_property
    def _problems(self) -> tuple[Problem, ...]:
        return tuple(dict.fromkeys(self._survey.problems))


def _cause(finding: Leftover) -> ObservedCause | None:
    """Return the cause that the topic is not gone; None for a directory that is owed."""
    partitions = () if finding.partition is None else (finding.partition,)
    detail = finding.detail or (counted(finding.size_bytes, "byte") if finding.size_bytes else None)
    match finding.reason:
        case Reason.CACHED_WITHOUT_TOPIC | Reason.CACHED_OTHER_INCARNATION:
            return ObservedCause(CauseKind.CACHED, finding.broker, detail=detail)
        case Reason.DIRECTORY_OWED:
            return None
        case Reason.NOT_RECLAIMED_YET:
            return ObservedCause(CauseKind.RECLAIMING, finding.broker, partitions, finding.what, detail=detail)
        case Reason.CONFIG_WITHOUT_TOPIC:
            return ObservedCause(CauseKind.CONFIG_LEFT, path=finding.what)
        case _ if finding.broker is not None:
            return ObservedCause(CauseKind.STORED, finding.broker, partitions, finding.what, detail=detail)
        case _:
            return ObservedCause(CauseKind.ZNODE_LEFT, path=finding.what, partitions=partitions)
