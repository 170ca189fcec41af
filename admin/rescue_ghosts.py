"""Ghosts, for a rescue: topics and partitions that a broker's metadata cache has and ZooKeeper has not.

Before control is taken, a survey finds them from outside. Then the rescue's controller compares each cache itself,
makes the broker drop ghosts, and reads the cache again. Its final result is reported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from lethe.adapters.kafka.reach import BrokerReach
from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.controller.core.caches import unseen
from lethe.controller.core.context import Context, Role
from lethe.protocol.counting import counted, plural, topics_listed
from lethe.protocol.findings import Place as FindingPlace
from lethe.protocol.findings import Reason
from lethe.protocol.journal import JsonValue
from lethe.protocol.vocabulary import Broker, BrokerId
from lethe.survey.brokers import AskBroker, QueryScope, broker_asker, reused_connections
from lethe.survey.causes import ranges
from lethe.survey.leftovers import is_in_service, leftovers
from lethe.survey.take import take_survey
from lethe.survey.views import BrokerAnswers, BrokerFailure, BrokerPlace, Survey

REQUEST_LIMIT_MS: Final = 30_000
"""An answer about all topics of a large cluster takes seconds."""
AWAY: Final = "the broker is not registered any more, and was not asked again"
NOT_COMPARED: Final = "the rescue ended before its controller had compared metadata caches"
MUTE: Final = (BrokerFailure.SILENT, BrokerFailure.UNREACHABLE, BrokerFailure.UNASKED)
"""Failures of a broker that does not answer at all."""
_GHOSTLY: Final = (Reason.CACHED_WITHOUT_TOPIC, Reason.CACHED_OTHER_INCARNATION)


class CacheDifference(NamedTuple):
    """A topic that differs between a broker's metadata cache and ZooKeeper."""

    broker: BrokerId
    topic: str
    why: str


@dataclass(frozen=True, slots=True)
class CacheReport:
    """Metadata caches of the registered brokers, compared with ZooKeeper."""

    ghosts: tuple[CacheDifference, ...] = ()
    unseen: tuple[tuple[BrokerId, str], ...] = ()
    """Registered brokers whose cache was not seen completely, and why."""
    cured: tuple[tuple[BrokerId, str], ...] = ()
    """Ghosts that a broker has dropped since control was taken."""
    unfinished: bool = False
    """Control was handed back before every cache had been compared."""
    registered: tuple[BrokerId, ...] = ()
    """Brokers that the rescue's controller had registered at the end."""

    @property
    def are_clean(self) -> bool:
        """True if every cache was seen and has no ghost."""
        return not (self.ghosts or self.unseen)

    def of(self, topics: Collection[str]) -> CacheReport:
        """Return the part about these topics. All unseen caches stay: each may show them."""
        return replace(
            self,
            ghosts=tuple(each for each in self.ghosts if each.topic in topics),
            cured=tuple(each for each in self.cured if each[1] in topics),
        )

    def after(self, first: CacheReport) -> CacheReport:
        """Add the first look's findings at brokers that have left since: their processes may live, with their
        caches."""
        away = [(broker, AWAY) for broker, _ in first.unseen if broker not in self.registered]
        kept = [
            each._replace(why=AWAY)
            for each in first.ghosts
            if each.broker not in self.registered and (each.broker, each.topic) not in self.cured
        ]
        return replace(self, ghosts=(*self.ghosts, *kept), unseen=(*self.unseen, *away))

    def not_compared(self, registered: Iterable[BrokerId]) -> CacheReport:
        """Return this first look's findings as the result at the end, where the controller has none: no cache of a
        registered broker counts as seen."""
        unseen = {**dict.fromkeys(registered, NOT_COMPARED), **dict(self.unseen)}
        ghosts = tuple(each._replace(why=NOT_COMPARED) for each in self.ghosts)
        return CacheReport(ghosts, tuple(unseen.items()), unfinished=True)

    def as_json(self) -> JsonValue:
        """Return the result for scripts."""
        return {
            "ghosts": [{"broker": each.broker, "topic": each.topic, "why": each.why} for each in self.ghosts],
            "unseen": [{"broker": broker, "why": why} for broker, why in self.unseen],
            "cured": [{"broker": broker, "topic": topic} for broker, topic in self.cured],
        }


async def compare(
    session: ZooKeeperSession, reach: BrokerReach, mute: Collection[BrokerAnswers], timeout_ms: int
) -> CacheReport:
    """Compare the caches from outside. Not asked are brokers in `mute`, which have just failed to answer, and those
    that do not answer an empty request within `timeout_ms`. Waiting longer for them would exceed the session timeout.

    Raises SessionLost.
    """
    silent = {answer.broker: answer for answer in mute}
    limit_ms = max(timeout_ms, REQUEST_LIMIT_MS)

    async with reused_connections(reach, timeout_ms=timeout_ms) as about:
        probe = about(QueryScope((), {}))

        def asker(scope: QueryScope) -> AskBroker:
            asking = broker_asker(
                reach, connect_timeout_ms=timeout_ms, request_timeout_ms=limit_ms, topics=scope.topics
            )

            async def ask(broker: Broker) -> BrokerAnswers:
                if broker.id not in silent:
                    first = await probe(broker)
                    if first.failure not in MUTE:
                        return await asking(broker)
                    silent[broker.id] = first
                return replace(silent[broker.id], cache=None, log_dirs=None)

            return ask

        return compared(await take_survey(session, reach, ask=asker))


def compared(seen: Survey) -> CacheReport:
    """Return the part of a survey about caches."""
    found = leftovers(seen)
    ghosts = [
        CacheDifference(each.broker, each.topic, each.why)
        for each in found
        if each.place is FindingPlace.CACHE and each.reason in _GHOSTLY and each.broker is not None
    ]
    known = {(each.broker, each.topic) for each in ghosts}
    ghosts += [each for each in foreign_partitions(seen) if (each.broker, each.topic) not in known]
    return CacheReport(tuple(ghosts), tuple(_unseen(seen)))


def foreign_partitions(seen: Survey) -> Iterator[CacheDifference]:
    """Yield partitions of an earlier topic with the same name and more partitions."""
    for answer in seen.answers:
        for name, cached in (answer.cache or {}).items():
            topic = seen.zookeeper.topics.get(name)
            if topic is None or topic.assignments is None or name in seen.in_motion or name in seen.zookeeper.marked:
                continue
            foreign = [number for number in cached.partitions if number not in topic.assignments]
            if foreign:
                why = f"partitions {ranges(tuple(foreign))} are in the cache and not in ZooKeeper"
                yield CacheDifference(answer.broker, name, why)


def _unseen(seen: Survey) -> Iterator[tuple[BrokerId, str]]:
    tree = seen.zookeeper
    in_service = [
        name
        for name, topic in tree.topics.items()
        if is_in_service(topic) and name not in tree.marked and name not in seen.in_motion
    ]
    for answer in seen.answers:
        why = answer.unseen_at(BrokerPlace.CACHE)
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
    """Return True if every cache was read and every ghost was removed, as far as one try does: never while loading."""
    return context.role is Role.ACTIVE and context.cluster.caches.is_complete


def comparison_progress(context: Context) -> object:
    """Return a value that changes whenever the comparison advances."""
    caches = context.cluster.caches
    reading = None if caches.reading is None else caches.reading.id
    return reading, len(caches.checking), len(caches.told), len(caches.due), context.ghosts_cured


def cache_report(context: Context) -> CacheReport:
    """Return what the controller has found and done so far."""
    caches = context.cluster.caches
    ghosts = (
        CacheDifference(
            broker,
            ghost.topic,
            ghost.kept_because or "it was sent the removal, and its cache has not been seen without it",
        )
        for broker, ghosts in caches.ghosts.items()
        for ghost in ghosts.values()
    )
    cured = tuple((broker, ghost.topic) for broker, ghost in caches.cured)
    return CacheReport(
        tuple(ghosts),
        tuple(unseen(context).items()),
        cured,
        not are_caches_compared(context),
        tuple(context.cluster.brokers),
    )


def final_report(context: Context, first: CacheReport, known: CacheReport) -> CacheReport:
    """Return the result at the end: the controller's, with the first look's findings at brokers that have left, or
    `known` where it is not active. Before, it has not loaded which brokers there are; later, its memory is empty."""
    return cache_report(context).after(first) if context.role is Role.ACTIVE else known


# --- words --------------------------------------------------------------------------------------------------------


def found_lines(caches: CacheReport) -> list[str]:
    """Return lines about the caches before the rescue."""
    lines = [
        f"The metadata cache of broker {broker} shows {topics_listed(topics)} that ZooKeeper does not have: a rescue "
        "has it dropped."
        for broker, topics in _by_broker((each.broker, each.topic) for each in caches.ghosts)
    ]
    return lines + unseen_lines(caches)


def unseen_lines(caches: CacheReport) -> list[str]:
    """Return lines about unseen caches, one per reason."""
    groups: dict[str, list[BrokerId]] = {}
    for broker, why in caches.unseen:
        groups.setdefault(why, []).append(broker)
    return [
        f"Whether the {plural(len(brokers), 'metadata cache')} of {plural(len(brokers), 'broker')} "
        f"{', '.join(map(str, brokers))} {plural(len(brokers), 'shows', 'show')} deleted topics is not known: {why}."
        for why, brokers in groups.items()
    ]


def ended_lines(caches: CacheReport) -> list[str]:
    """Return lines about the result."""
    lines = [
        f"Broker {broker} has dropped {topics_listed(topics)} from its metadata cache that ZooKeeper does not have."
        for broker, topics in _by_broker(caches.cured)
    ]
    reasons: dict[tuple[BrokerId, str], list[str]] = {}
    for each in caches.ghosts:
        reasons.setdefault((each.broker, each.why), []).append(each.topic)
    lines += [
        f"The metadata cache of broker {broker} {'showed' if why == NOT_COMPARED else 'still shows'} "
        f"{topics_listed(topics)} that ZooKeeper does not have: {why}."
        for (broker, why), topics in reasons.items()
    ]
    return lines + unseen_lines(caches)


def _by_broker(pairs: Iterable[tuple[BrokerId, str]]) -> list[tuple[BrokerId, list[str]]]:
    found: dict[BrokerId, list[str]] = {}
    for broker, topic in pairs:
        found.setdefault(broker, []).append(topic)
    return list(found.items())
