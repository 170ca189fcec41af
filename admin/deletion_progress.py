"""Progress of deletions as seen from outside: in ZooKeeper, every broker's metadata cache, every broker's logs.

Only the incarnation that was to be deleted counts. A newer topic of the same name has another czxid and topic id.
Brokers do not report topic ids of logs, so with a new incarnation the logs say nothing about the old one and are
ignored.

What could not be seen is part of the progress (`unseen`): brokers that are unregistered, silent, refuse or answer with
an error, and failed log directories. `unseen_znodes` are the mark or znode whose existence ZooKeeper does not tell. A
topic with something unseen is not done, even if nothing of it was seen.

    mark    znode    caches, logs           result
    yes     yes      any                    is_left
    no      yes      any                    is_given_up: the controller dropped the mark
    unseen  yes      any                    is_left
    no      unseen   clean, all seen        is_blind
    no      no       broker 3 caches it     is_left
    no      no       clean, 3 is absent     none of these: 3 may return; also where the topic's brokers are not known,
                                            such as with a marker alone, and 3 has replicas of another topic
    no      no       clean, all seen        is_done
    no      no       clean, 3 refuses       is_blind: waiting does not help
    no      no       clean, 3 is silent     none of these: 3 may answer later
    no      no       clean, absent 3 owes   is_done, with the debt
    no      no       in the trash           is_trashed: kept on purpose

"Stored" ends when the directory is renamed. So a done topic is *deleted*; its bytes may not be *reclaimed* yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from lethe.adapters.debts import OpenDebt
from lethe.protocol.vocabulary import TopicId
from lethe.survey.views import BrokerFailure, BrokerPlace

MARK_DROPPED: Final = (
    "the controller dropped the mark: `lethe explain` says why (protected, or delete.topic.enable=false)"
)


@dataclass(frozen=True, slots=True)
class DeletionTarget:
    """A topic whose deletion is watched. `czxid` identifies its incarnation; None where only a mark was left."""

    name: str
    czxid: int | None
    topic_id: TopicId | None
    brokers: tuple[int, ...]
    """Those with a replica, sorted; empty where that is not known."""
    partitions: tuple[int, ...]
    possible_hosts: tuple[int, ...] = ()
    """Where `brokers` is not known: those with a replica of any other topic, sorted."""
    unread_hosts: tuple[UnseenZnode, ...] = ()
    """Where `brokers` is not known: other topics that cannot be read, so that `possible_hosts` may lack brokers."""


class UnseenPlace(NamedTuple):
    """A cache, or log directories, in which the topic may be left."""

    broker: int | None
    """None: all brokers."""
    place: BrokerPlace
    failure: BrokerFailure
    why: str

    @property
    def lasts(self) -> bool:
        """True where waiting does not help."""
        return self.failure.lasts


class UnseenZnode(NamedTuple):
    """A znode that cannot be read: of the topic, or of others, which tell where its replicas may be. Waiting does not
    help."""

    path: str
    why: str


class FailedLogDir(NamedTuple):
    """A log directory that its broker has taken offline."""

    broker: int
    path: str


@dataclass(frozen=True, slots=True)
class TopicDeletionProgress:
    """What is left of one topic."""

    name: str
    is_marked: bool
    has_znode: bool
    cached_by: tuple[int, ...] = ()
    stored_by: tuple[int, ...] = ()
    unseen: tuple[UnseenPlace, ...] = ()
    absent: tuple[int, ...] = ()
    """Brokers with replicas that are not registered: the controller waits for them."""
    failed_log_dirs: tuple[FailedLogDir, ...] = ()
    """Those of brokers with replicas. Brokers do not say whether a replica of the topic is in them."""
    is_recreated: bool = False
    """A new topic has the name. Brokers do not distinguish its logs from those of the old one."""
    unseen_znodes: tuple[UnseenZnode, ...] = ()
    owed: tuple[OpenDebt, ...] = ()
    """What absent brokers still have: promised to be deleted when they return, and so neither left nor unseen."""
    trashed_until_ms: int | None = None
    """Until when the topic stays in the trash; None: it is not there."""

    @property
    def is_trashed(self) -> bool:
        """True if the topic is out of service and kept in the trash."""
        return self.trashed_until_ms is not None and not self.is_marked and not self.has_znode

    @property
    def is_left(self) -> bool:
        """True if something of the topic was seen."""
        return self.is_marked or self.has_znode or bool(self.cached_by) or bool(self.stored_by)

    @property
    def is_done(self) -> bool:
        """True if everything was seen and nothing of the topic is left, but for what is owed."""
        return not self.is_left and not self.unseen and not self.unseen_znodes

    @property
    def is_blind(self) -> bool:
        """True if nothing of the topic was seen, and all unseen places and znodes will stay unseen."""
        return not self.is_left and not self.is_done and all(each.lasts for each in self.unseen)

    @property
    def is_given_up(self) -> bool:
        """True if the mark is gone and the topic is not: a controller with delete.topic.enable=false drops marks."""
        return self.has_znode and not self.is_marked and not self.unseen_znodes

    @property
    def silent(self) -> tuple[int, ...]:
        """Brokers that did not answer, so neither their caches nor their logs were seen."""
        failures = (BrokerFailure.SILENT, BrokerFailure.UNREACHABLE)
        silent = (each.broker for each in self.unseen if each.failure in failures)
        return tuple(dict.fromkeys(broker for broker in silent if broker is not None))

    @property
    def is_settled(self) -> bool:
        """True where another look is useless."""
        return self.is_done or self.is_given_up or self.is_blind or self.is_trashed

    def is_unseen_at(self, place: BrokerPlace) -> bool:
        """True if that place of some broker was not seen."""
        return any(each.place is place for each in self.unseen)

    @property
    def waits(self) -> tuple[str, ...]:
        """What the deletion waits for, as texts; empty where it is done."""
        parts = []
        if self.has_znode:
            parts += [f"broker {broker} to come back" for broker in self.absent]
            parts += [
                f"broker {failed.broker} whose log directory {failed.path} has failed (if a replica lies there, "
                "repair it and restart the broker)"
                for failed in self.failed_log_dirs
            ]
        if not parts and (self.has_znode or self.is_marked):
            parts.append("the controller")
        parts += [f"the metadata cache of broker {broker}" for broker in self.cached_by]
        parts += [f"the logs of broker {broker}" for broker in self.stored_by]
        parts += [f"a look at {each.path} ({each.why})" for each in self.unseen_znodes]
        return (*parts, *self._unseen_waits())

    @property
    def waits_for(self) -> str:
        """`waits`, joined."""
        return ", ".join(self.waits)

    def _unseen_waits(self) -> Iterator[str]:
        """Yield what has to be seen first, without what `waits` names already."""
        places: dict[tuple[int | None, str], list[str]] = {}
        for each in self.unseen:
            is_named = self.has_znode and (each.broker in self.absent or _is_failed_dir(self.failed_log_dirs, each))
            if not is_named:
                places.setdefault((each.broker, each.why), []).append(each.place.value)
        for (broker, why), named in places.items():
            whose = "any broker" if broker is None else f"broker {broker}"
            yield f"a look at the {' and '.join(named)} of {whose} ({why})"


def _is_failed_dir(failed: Iterable[FailedLogDir], unseen: UnseenPlace) -> bool:
    return any((each.broker, failed_words(each.path)) == (unseen.broker, unseen.why) for each in failed)


def failed_words(path: str) -> str:
    return f"log directory {path} has failed"
