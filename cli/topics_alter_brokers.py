"""`lethe topics alter --bootstrap-server`: the controller adds partitions, and brokers show their leaders.

The controller is asked first whether it would add all of them, so no topic is changed where one cannot be.
"""

from __future__ import annotations

from collections.abc import Sequence

from lethe.adapters.kafka.client import ClientError, ProtocolError
from lethe.admin.client_changes import add_partitions
from lethe.admin.client_cluster import ClientCluster
from lethe.admin.client_topics import Settings, ShownTopics, read_settings, shown_topics, why_unnamed
from lethe.admin.outcomes import exit_of
from lethe.admin.refusal import Refusal
from lethe.admin.topic_alteration import TopicChangeRequest
from lethe.admin.topic_changes import placement_problem
from lethe.cli.answer import Answer
from lethe.cli.progress import wait_for_all
from lethe.cli.render import note
from lethe.cli.topics_alter import KEYS_MOVE, Altered, alteration_answer
from lethe.protocol.kafka.admin import GrowableTopic
from lethe.protocol.kafka.queries import MetadataPartition, MetadataResponse
from lethe.protocol.vocabulary import TopicPartition


async def client_alteration(
    cluster: ClientCluster, wanted: TopicChangeRequest, *, dry_run: bool = False, waits: bool = True, quiet: bool = True
) -> Answer:
    """Change the topics, or say what would change; wait for leaders of new partitions. Raises Refusal where one of the
    topics cannot be changed."""
    shown = await shown_topics(cluster)
    for name in wanted.names:
        if name not in shown.names:
            raise (await why_unnamed(cluster, shown, name)).refusal()
    topics = [_growth(shown, name, wanted) for name in wanted.names]
    note(KEYS_MOVE)
    trial = await add_partitions(cluster, topics, validate_only=True)
    if refused := [outcome for outcome in trial.values() if outcome.problem is not None]:
        raise Refusal("\n".join(str(outcome.problem) for outcome in refused), exit_of(refused))
    settings = await read_settings(cluster, wanted.names)
    rows = {each.name: _row(each, len(shown.topics[each.name].partitions), settings[each.name]) for each in topics}
    if dry_run:
        return alteration_answer([*rows.values()], [*trial.values()], dry_run=True)
    outcomes = await add_partitions(cluster, topics, validate_only=False)
    grown = [each.name for each in topics if outcomes[each.name].problem is None]
    new = [TopicPartition(name, number) for name in grown for number in rows[name].added]
    found = await _leaders(cluster, new, waits=waits, quiet=quiet)
    placed = {name: rows[name]._replace(added={p: found.replicas(name, p) for p in rows[name].added}) for name in grown}
    leaderless = found.missing if waits else {}
    return alteration_answer([*{**rows, **placed}.values()], [*outcomes.values()], leaderless=leaderless)


def _growth(shown: ShownTopics, name: str, wanted: TopicChangeRequest) -> GrowableTopic:
    """Return the request for one topic. Raises Refusal where an assignment contradicts existing partitions."""
    rows = sorted(shown.topics[name].partitions, key=lambda row: row.partition)
    if wanted.assignment:
        for row, ids in zip(rows, wanted.assignment, strict=False):
            if row.replicas != ids:
                raise Refusal(placement_problem(name, row.partition, ids, row.replicas))
        return GrowableTopic(name, len(wanted.assignment), wanted.assignment[len(rows) :])
    return GrowableTopic(name, wanted.partitions or len(rows))


def _row(wanted: GrowableTopic, before: int, settings: Settings) -> Altered:
    numbers = range(before, wanted.total)
    named = wanted.assignments or [None] * len(numbers)
    return Altered(wanted.name, before, dict(zip(numbers, named, strict=True)), settings.shown, settings.shown)


class _Found:
    """What brokers show of new partitions."""

    def __init__(self, new: Sequence[TopicPartition]) -> None:
        self._rows: dict[TopicPartition, MetadataPartition] = {}
        self.missing: dict[TopicPartition, str | None] = dict.fromkeys(new)

    def replicas(self, topic: str, partition: int) -> tuple[int, ...] | None:
        row = self._rows.get(TopicPartition(topic, partition))
        return None if row is None else row.replicas

    def note(self, answer: MetadataResponse) -> None:
        for topic in answer.topics:
            for row in topic.partitions:
                tp = TopicPartition(str(topic.name), row.partition)
                self._rows[tp] = row
                if row.leader >= 0:
                    self.missing.pop(tp, None)


async def _leaders(cluster: ClientCluster, new: Sequence[TopicPartition], *, waits: bool, quiet: bool) -> _Found:
    """Return what the broker shows: now, or when all partitions have leaders or the time is over. If it does not
    answer, the leaders are unseen, and the partitions are there nevertheless."""
    found = _Found(new)
    names = tuple(dict.fromkeys(tp.topic for tp in new))

    async def look() -> int:
        found.note(await cluster.metadata(names))
        return len(new) - len(found.missing)

    try:
        if waits:
            await wait_for_all(look, len(new), "new partitions with a leader", timeout_ms=cluster.left_ms, quiet=quiet)
        elif new:
            await look()
    except (ClientError, ProtocolError) as error:
        found.missing = dict.fromkeys(found.missing, str(error))
    return found
