"""Ghosts in metadata caches, for a rescue: topics and partitions that a broker shows and ZooKeeper has not.

Before control is taken they are looked for from outside, as a survey does. Then the controller of the rescue compares
each cache itself, has the broker drop what ZooKeeper has not, and looks again; what it says in the end counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.controller.core.context import Context
from lethe.protocol.counting import counted, plural
from lethe.protocol.findings import Place as FindingPlace
from lethe.protocol.findings import Reason
from lethe.protocol.journal import JsonValue
from lethe.protocol.vocabulary import Broker, BrokerId
from lethe.survey.brokers import Scope, broker_asker, kept_connections
from lethe.survey.leftovers import is_in_service, leftovers
from lethe.survey.take import take
from lethe.survey.views import BrokerAnswers, Failure, Place, Survey

MAX_NAMES: Final = 5
REQUEST_LIMIT_MS: Final = 30_000
"""The answer about all topics of a large cluster takes seconds."""
AWAY: Final = "the broker is not registered any more, and was not asked again"
MUTE: Final = (Failure.SILENT, Failure.UNREACHABLE, Failure.UNASKED)
"""How a broker fails that gives no answer at all."""
_GHOSTLY: Final = (Reason.CACHED_WITHOUT_TOPIC, Reason.CACHED_OTHER_INCARNATION)


class Haunting(NamedTuple):
    """A topic that a broker's metadata cache has otherwise than ZooKeeper."""

    broker: BrokerId
    topic: str
    why: str


@dataclass(frozen=True, slots=True)
class Caches:
    """The metadata caches of the registered brokers, held against ZooKeeper."""

    ghosts: tuple[Haunting, ...] = ()
    unseen: tuple[tuple[BrokerId, str], ...] = ()
    """Registered brokers whose cache was not seen whole, and why."""
    cured: tuple[tuple[BrokerId, str], ...] = ()
    """Ghosts that a broker has dropped, by its own word, since control was taken."""
    unfinished: bool = False
    """Control went back before every cache had been compared."""
    registered: tuple[BrokerId, ...] = ()
    """Brokers that the controller of the rescue knew in the end."""

    @property
    def are_clean(self) -> bool:
        """Every cache was seen, and shows nothing that ZooKeeper has not."""
        return not (self.ghosts or self.unseen)

    def of(self, topics: Collection[str]) -> Caches:
        """What concerns these topics only. Whether brokers were seen at all is told with each of them."""
        return replace(
            self,
            ghosts=tuple(each for each in self.ghosts if each.topic in topics),
            unseen=(),
            cured=tuple(each for each in self.cured if each[1] in topics),
        )

    def after(self, first: Caches) -> Caches:
        """With what the first look found of brokers that have left since: a process that lives on keeps its cache."""
        away = [(broker, AWAY) for broker, _ in first.unseen if broker not in self.registered]
        kept = [
            each._replace(why=AWAY)
            for each in first.ghosts
            if each.broker not in self.registered and (each.broker, each.topic) not in self.cured
        ]
        return replace(self, ghosts=(*self.ghosts, *kept), unseen=(*self.unseen, *away))

    def as_json(self) -> JsonValue:
        """For scripts."""
        return {
            "ghosts": [{"broker": each.broker, "topic": each.topic, "why": each.why} for each in self.ghosts],
            "unseen": [{"broker": broker, "why": why} for broker, why in self.unseen],
            "cured": [{"broker": broker, "topic": topic} for broker, topic in self.cured],
        }


async def compare(session: ZooKeeperSession, mute: Collection[BrokerAnswers], timeout_ms: int) -> Caches:
    """Look at the caches from outside. Brokers in `mute` have just failed to answer and are not asked again; nor is one
    that does not answer a question about nothing within `timeout_ms`: its session would end before it is given up.

    Raises SessionLost."""
    silent = {answer.broker: answer for answer in mute}
    asking = broker_asker(connect_timeout_ms=timeout_ms, request_timeout_ms=max(timeout_ms, REQUEST_LIMIT_MS))

    async with kept_connections(timeout_ms=timeout_ms) as about:
        probe = about(Scope((), {}))

        async def ask(broker: Broker) -> BrokerAnswers:
            if broker.id not in silent:
                first = await probe(broker)
                if first.failure not in MUTE:
                    return await asking(broker)
                silent[broker.id] = first
            return replace(silent[broker.id], cache=None, log_dirs=None)

        return compared(await take(session, ask=ask))


def compared(seen: Survey) -> Caches:
    """What a survey says about the caches."""
    found = leftovers(seen)
    ghosts = [
        Haunting(each.broker, each.topic, each.why)
        for each in found
        if each.place is FindingPlace.CACHE and each.reason in _GHOSTLY and each.broker is not None
    ]
    known = {(each.broker, each.topic) for each in ghosts}
    ghosts += [each for each in _foreign_partitions(seen) if (each.broker, each.topic) not in known]
    return Caches(tuple(ghosts), tuple(_unseen(seen)))


def _foreign_partitions(seen: Survey) -> Iterator[Haunting]:
    """Partitions of an earlier topic of the name, which stay in a cache when the living one has fewer."""
    for answer in seen.answers:
        for name, cached in (answer.cache or {}).items():
            topic = seen.zookeeper.topics.get(name)
            if topic is None or topic.assignments is None or name in seen.in_motion or name in seen.zookeeper.marked:
                continue
            foreign = [number for number in cached.partitions if number not in topic.assignments]
            if foreign:
                numbers = ", ".join(map(str, foreign[:MAX_NAMES]))
                yield Haunting(answer.broker, name, f"partitions {numbers} are in the cache and not in ZooKeeper")


def _unseen(seen: Survey) -> Iterator[tuple[BrokerId, str]]:
    tree = seen.zookeeper
    in_service = [
        name
        for name, topic in tree.topics.items()
        if is_in_service(topic) and name not in tree.marked and name not in seen.in_motion
    ]
    for answer in seen.answers:
        why = answer.unseen_at(Place.CACHE)
        if why is not None:
            yield answer.broker, why.why
            continue
        hidden = [name for name in in_service if name not in (answer.cache or {})]
        if hidden:
            yield (
                answer.broker,
                f"it does not show {counted(len(hidden), 'topic')} in service ({hidden[0]}), nor perhaps others",
            )


# --- what the controller of the rescue says -----------------------------------------------------------------------


def are_caches_compared(context: Context) -> bool:
    """Every cache was read at least once, and every ghost that can be cured is."""
    caches = context.cluster.caches
    return caches.reading is None and not caches.told and all(due.attempts for due in caches.due.values())


def comparison_progress(context: Context) -> object:
    """Changes whenever the comparison has come further."""
    caches = context.cluster.caches
    reading = None if caches.reading is None else caches.reading.id
    return reading, len(caches.told), len(caches.due), context.ghosts_cured


def told_caches(context: Context) -> Caches:
    """What the controller has found and done so far."""
    caches = context.cluster.caches
    ghosts = (
        Haunting(broker, ghost.topic, ghost.kept_because or "it was told to drop it, and has not been seen to")
        for broker, ghosts in caches.ghosts.items()
        for ghost in ghosts.values()
    )
    cured = tuple((broker, ghost.topic) for broker, ghost in caches.cured)
    return Caches(
        tuple(ghosts),
        tuple(caches.unseen.items()),
        cured,
        not are_caches_compared(context),
        tuple(context.cluster.brokers),
    )


# --- words --------------------------------------------------------------------------------------------------------


def found_lines(caches: Caches) -> list[str]:
    """What is there before anything is done."""
    lines = [
        f"The metadata cache of broker {broker} shows {_topics(topics)} that ZooKeeper does not have: a rescue has it "
        "dropped."
        for broker, topics in _by_broker((each.broker, each.topic) for each in caches.ghosts)
    ]
    return lines + unseen_lines(caches)


def unseen_lines(caches: Caches) -> list[str]:
    """Caches of which nothing can be said, those with the same reason together."""
    groups: dict[str, list[BrokerId]] = {}
    for broker, why in caches.unseen:
        groups.setdefault(why, []).append(broker)
    return [
        f"Whether the {plural(len(brokers), 'metadata cache')} of {plural(len(brokers), 'broker')} "
        f"{', '.join(map(str, brokers))} {plural(len(brokers), 'shows', 'show')} deleted topics is not known: {why}."
        for why, brokers in groups.items()
    ]


def ended_lines(caches: Caches) -> list[str]:
    """What has become of ghosts."""
    lines = [
        f"Broker {broker} has dropped {_topics(topics)} from its metadata cache that ZooKeeper does not have."
        for broker, topics in _by_broker(caches.cured)
    ]
    reasons: dict[tuple[BrokerId, str], list[str]] = {}
    for each in caches.ghosts:
        reasons.setdefault((each.broker, each.why), []).append(each.topic)
    lines += [
        f"The metadata cache of broker {broker} still shows {_topics(topics)} that ZooKeeper does not have: {why}."
        for (broker, why), topics in reasons.items()
    ]
    return lines + unseen_lines(caches)


def _by_broker(pairs: Iterable[tuple[BrokerId, str]]) -> list[tuple[BrokerId, list[str]]]:
    found: dict[BrokerId, list[str]] = {}
    for broker, topic in pairs:
        found.setdefault(broker, []).append(topic)
    return list(found.items())


def _topics(names: list[str]) -> str:
    """`topic a`; `3 topics (a, b, c)`."""
    if len(names) == 1:
        return f"topic {names[0]}"
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return f"{counted(len(names), 'topic')} ({', '.join(names[:MAX_NAMES])}{more})"
