"""`lethe topics alter --bootstrap-server`: a broker changes settings, the controller adds partitions, and brokers show
their leaders.

Both are asked first whether they would do all of it, so no topic is changed where one cannot be. Settings come first: a
topic whose settings are not changed gets no partitions. One that gets none keeps its new settings, and the answer says
so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lethe.adapters.kafka.client import ClientError, ProtocolError
from lethe.admin.client_changes import add_partitions, alter_settings
from lethe.admin.client_cluster import ClientCluster
from lethe.admin.client_topics import Settings, ShownTopics, read_settings, shown_topics, why_unnamed
from lethe.admin.outcomes import Outcome, exit_of
from lethe.admin.refusal import Exit, Refusal
from lethe.admin.topic_alteration import TopicChangeRequest
from lethe.admin.topic_changes import changed_config, placement_problem
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
    growing = {name: _growth(shown, name, wanted) for name in wanted.names} if wanted.partitions is not None else {}
    if growing:
        note(KEYS_MOVE)
    settings = await read_settings(cluster, wanted.names)
    rows = {name: _row(shown, name, settings[name], wanted, growing.get(name)) for name in wanted.names}
    trial = await _changed(cluster, rows, growing, wanted, validate_only=True)
    if refused := [outcome for outcome in trial.values() if outcome.problem is not None]:
        raise Refusal("\n".join(str(outcome.problem) for outcome in refused), exit_of(refused))
    if dry_run:
        return alteration_answer([*rows.values()], [*trial.values()], dry_run=True)
    outcomes = await _changed(cluster, rows, growing, wanted, validate_only=False)
    grown = [name for name in growing if outcomes[name].problem is None]
    new = [TopicPartition(name, number) for name in grown for number in rows[name].added]
    found = await _leaders(cluster, new, waits=waits, quiet=quiet)
    placed = {name: rows[name]._replace(added={p: found.replicas(name, p) for p in rows[name].added}) for name in grown}
    leaderless = found.missing if waits else {}
    return alteration_answer([*{**rows, **placed}.values()], [*outcomes.values()], leaderless=leaderless)


async def _changed(
    cluster: ClientCluster,
    rows: Mapping[str, Altered],
    growing: Mapping[str, GrowableTopic],
    wanted: TopicChangeRequest,
    *,
    validate_only: bool,
) -> dict[str, Outcome]:
    """Change the settings and then the number of partitions, or only ask whether that would be done."""
    outcomes = {name: Outcome(name, was_done=True) for name in rows}
    # Asked for where nothing seems to change, too: the broker that showed the settings may be behind the cluster.
    to_set = [*rows] if wanted.config or wanted.delete_config else []
    if to_set:
        change = (to_set, wanted.config, wanted.delete_config)
        outcomes |= await alter_settings(cluster, *change, validate_only=validate_only)
    to_grow = [each for name, each in growing.items() if outcomes[name].problem is None]
    if not to_grow:
        return outcomes
    changed = [name for name in to_set if rows[name].config != rows[name].config_before]
    done = [] if validate_only else [name for name in changed if outcomes[name].problem is None]
    try:
        grown = await add_partitions(cluster, to_grow, validate_only=validate_only)
    except (Refusal, ClientError, ProtocolError) as failed:
        if validate_only or not to_set:
            raise
        # What became of the settings is known by now, and has to be said as well.
        grown = {each.name: Outcome(each.name, str(failed), is_unknown=True) for each in to_grow}
    for name, outcome in grown.items():
        is_half = outcome.problem is not None and name in done
        problem = f"{outcome.problem}; its settings were changed" if is_half else outcome.problem
        outcomes[name] = replace(outcome, problem=problem, was_done=is_half or outcome.was_done)
    return outcomes


def _growth(shown: ShownTopics, name: str, wanted: TopicChangeRequest) -> GrowableTopic:
    """Return the request for one topic. Raises Refusal where an assignment contradicts existing partitions."""
    rows = sorted(shown.topics[name].partitions, key=lambda row: row.partition)
    if wanted.assignment:
        for row, ids in zip(rows, wanted.assignment, strict=False):
            if row.replicas != ids:
                raise Refusal(placement_problem(name, row.partition, ids, row.replicas))
        return GrowableTopic(name, len(wanted.assignment), wanted.assignment[len(rows) :])
    return GrowableTopic(name, wanted.partitions or len(rows))


def _row(
    shown: ShownTopics, name: str, settings: Settings, wanted: TopicChangeRequest, growing: GrowableTopic | None
) -> Altered:
    """Return the topic as it is and will be. Raises Refusal where its settings cannot be changed as wanted."""
    before = len(shown.topics[name].partitions)
    added: dict[int, tuple[int, ...] | None] = {}
    if growing is not None:
        numbers = range(before, growing.total)
        added = dict(zip(numbers, growing.assignments or [None] * len(numbers), strict=True))
    if not (wanted.config or wanted.delete_config):
        return Altered(name, before, added, settings.shown, settings.shown)
    if settings.unseen is not None:
        unseen = f"topic {name} is not changed, because its present settings are unseen: {settings.unseen}"
        raise Refusal(unseen, Exit.UNREACHABLE)
    try:
        config = changed_config(name, settings.config, wanted.config, wanted.delete_config)
    except ValueError as problem:
        raise Refusal(str(problem)) from problem
    return Altered(name, before, added, settings.config, config)


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

    if not new:
        return found
    try:
        if waits:
            await wait_for_all(look, len(new), "new partitions with a leader", timeout_ms=cluster.left_ms, quiet=quiet)
        else:
            await look()
    except (ClientError, ProtocolError) as error:
        found.missing = dict.fromkeys(found.missing, str(error))
    return found
