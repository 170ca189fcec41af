"""Looks at deletions through brokers alone: metadata caches and log directories, without markers and znodes.

A broker that is no longer listed, does not answer or refuses is unseen. So the topic is not done, as in
`deletion_progress`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from lethe.adapters.kafka.client import ClientError, ProtocolError
from lethe.admin.client_cluster import ClientCluster
from lethe.admin.client_topics import ShownTopics
from lethe.admin.deletion_look import BrokersSeen, scope_of
from lethe.admin.deletion_progress import DeletionTarget, TopicDeletionProgress, UnseenPlace
from lethe.protocol.kafka.queries import MetadataResponse
from lethe.protocol.vocabulary import BrokerId
from lethe.survey.brokers import MAX_AT_ONCE_BRIEFLY, NAMES_NO_LOG_DIR, AskAbout, ask_all
from lethe.survey.views import BrokerAnswers, BrokerPlace


def shown_targets(shown: ShownTopics, names: Sequence[str]) -> list[DeletionTarget]:
    """Return the topics as brokers show them before the deletion."""
    found = []
    for name in names:
        rows = shown.topics[name].partitions
        brokers = sorted({broker for row in rows for broker in row.replicas})
        numbers = tuple(sorted(row.partition for row in rows))
        found.append(DeletionTarget(name, None, shown.topic_id(name), tuple(brokers), numbers))
    return found


class BrokersLook:
    """Looks at all brokers that the cluster lists at that moment, or listed last."""

    def __init__(self, cluster: ClientCluster, ask: AskAbout, listed: MetadataResponse) -> None:
        self._cluster = cluster
        self._ask = ask
        self._listed = listed

    async def __call__(self, wanted: Sequence[DeletionTarget]) -> list[TopicDeletionProgress]:
        """Return what is left of each topic, in order. Brokers are asked concurrently."""
        # If the broker that was asked is gone, the others are asked, and it is unseen.
        with contextlib.suppress(ClientError, ProtocolError):
            self._listed = await self._cluster.metadata(())
        brokers = self._cluster.brokers(self._listed)
        answers = await ask_all(brokers, self._ask(scope_of(wanted)), at_once=MAX_AT_ONCE_BRIEFLY)
        seen = BrokersSeen(answers, ())
        return [_progress(target, seen, answers, self._listed.controller_id) for target in wanted]


def _progress(
    target: DeletionTarget, seen: BrokersSeen, answers: Sequence[BrokerAnswers], controller: BrokerId
) -> TopicDeletionProgress:
    is_recreated = any(_has_another(answer.cache, target) for answer in answers)
    unseen = seen.unseen(target, is_recreated=is_recreated, why_absent=lambda _: "clients do not see the broker")
    return TopicDeletionProgress(
        target.name,
        is_marked=False,
        has_znode=False,
        cached_by=seen.cached_by(target, is_recreated=is_recreated),
        stored_by=() if is_recreated else seen.stored_by(target),
        unseen=tuple(each for each in unseen if not _has_no_disks(each, target, controller)),
        absent=seen.absent(target),
        failed_log_dirs=seen.failed_log_dirs(target),
        is_recreated=is_recreated,
    )


def _has_another(cache: Mapping[str, object] | None, target: DeletionTarget) -> bool:
    """Return True if a broker shows a topic of the name with another id."""
    topic_id = getattr((cache or {}).get(target.name), "topic_id", None)
    return None not in (topic_id, target.topic_id) and topic_id != target.topic_id


def _has_no_disks(unseen: UnseenPlace, target: DeletionTarget, controller: BrokerId) -> bool:
    """Return True for the log directories of a controller that names none and held no replica: Lethe's has none."""
    names_none = unseen.place is BrokerPlace.LOGS and unseen.why.startswith(NAMES_NO_LOG_DIR)
    return names_none and unseen.broker == controller and controller not in target.brokers
