"""Sentences about what a survey could not see, for a topic that is not in ZooKeeper. Pure.

seen                                  sentence
all but the answers of broker 2       ZooKeeper is clean, but the metadata cache and log directories of broker 2
                                      were not seen (silent)
all but the disks of broker 4         ZooKeeper is clean, but broker 4 is not registered, and its disks were not seen
/brokers/topics is unreadable         ZooKeeper could not be read whole, and /brokers/topics was not seen (NO_AUTH)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from lethe.protocol.causes import CauseKind
from lethe.protocol.counting import counted, plural
from lethe.survey.causes import ObservedCause, ranges
from lethe.survey.views import BrokerAnswers, BrokerPlace, Survey

MAX_PLACES: Final = 3


def unseen_text(survey: Survey, causes: Sequence[ObservedCause] = ()) -> str:
    """Return what is clean and what could not be seen, for a deleted topic with an incomplete survey."""
    owing = tuple(
        cause.broker for cause in causes if cause.kind is CauseKind.TOMBSTONE_OWED and cause.broker is not None
    )
    caches = [f"{plural(len(owing), 'broker')} {ranges(owing)} may still tell clients of it"] if owing else []
    tree = survey.zookeeper
    is_whole = tree.knows_topics and tree.knows_markers
    said = "ZooKeeper is clean, but" if is_whole else "ZooKeeper could not be read whole, and"
    return f"{said} {'; '.join([*_places_text(survey), *_absent_brokers(survey), *caches])}"


def _places_text(survey: Survey) -> list[str]:
    """Return a text for each unseen place, the first `MAX_PLACES`; absent brokers are left out."""
    places = list(dict.fromkeys(_places(survey)))
    more = len(places) - MAX_PLACES
    return [
        *places[:MAX_PLACES],
        *([f"{counted(more, 'more place was', 'more places were')} not seen"] if more > 0 else []),
    ]


def _places(survey: Survey) -> Iterator[str]:
    for where, why in survey.zookeeper.problems:
        yield f"{where} was not seen ({why})"
    for answer in survey.answers:
        yield from _unanswered(answer)
    for view in survey.log_dirs:
        if view.problem:
            yield f"the log directory {view.path} of broker {view.broker} was not seen ({view.problem})"


def _unanswered(answer: BrokerAnswers) -> Iterator[str]:
    for each in answer.unseen:
        what = " and ".join(place.value for place in BrokerPlace) if each.place is None else each.place.value
        verb = "was" if each.place is BrokerPlace.CACHE else "were"
        yield f"the {what} of broker {answer.broker} {verb} not seen ({each.why})"


def _absent_brokers(survey: Survey) -> tuple[str, ...]:
    """Return at most one text: which brokers are not registered and have disks that were not seen."""
    away = tuple(map(int, survey.unseen_brokers))
    if not away:
        return ()
    if len(away) == 1:
        return (f"broker {away[0]} is not registered, and its disks were not seen",)
    return (f"brokers {ranges(away)} are not registered, and their disks were not seen",)
