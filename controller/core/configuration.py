"""Dynamic configuration in ZooKeeper, and the effects of its changes.

Kafka's tools write `/config/brokers/<default>` and `/config/brokers/ID`, then a notification under `/config/changes`.
Precedence: the controller's own id, the default, the properties file. These settings matter to a controller:

    setting                           a change to                  effect
    --------------------------------  ---------------------------  ---------------------------------------------------
    `unclean.leader.election.enable`  true                         leaderless partitions are tried again
    `delete.topic.enable` (*)         false                        markers of topics that are not queued are removed
    `lethe.protected.topics`          a pattern                    the same for protected topics (`protection`)
    `lethe.deletion.grace`            a rule                       topics that are not queued go by the new rules
    `lethe.trash.free.percent`        a number                     log directories are looked at (`trash_disks`)
    `lethe.deletion.offline.replicas` either value                 waiting deletions are tried again
    `lethe.deletion.topics.per.second`, `lethe.deletion.bytes.per.second`
                                      a number                     topics whose turn has come are queued (`pace`)
    a default of topics, such as      any value                    answers to clients that create topics
      `log.retention.ms`
    each                              an unreadable znode, or      recorded; the former value stays (**)
                                      a value that is none

(*) Not dynamic in Kafka. (**) After a takeover there is no former value: unclean elections follow the properties file,
but deletions are held, as in a pause, until the value is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lethe.controller.core import pace, trash
from lethe.controller.core.config import DynamicConfig, UnreadableConfiguration
from lethe.controller.core.context import Context
from lethe.controller.core.pace_memory import PaceLimits
from lethe.controller.core.pausing import note_begun
from lethe.controller.core.protection import note_queued
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_deletion import ListDeletions, ReadPause, ResumeDeletions
from lethe.controller.core.tasks_partitions import BringOnline
from lethe.controller.core.tasks_requests import ConfigurationRead, ReadConfiguration
from lethe.protocol.causes import CauseKind
from lethe.protocol.deletion_grace import DELETION_GRACE, GraceRule, parse_grace
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.config_values import parse_boolean, parse_thousandths
from lethe.protocol.kafka.topic_configs import InvalidTopicConfig
from lethe.protocol.kafka.topic_defaults import (
    TOPIC_NAMES,
    BrokerSetting,
    BrokerSettings,
    ConfigSource,
    broker_setting_value,
)
from lethe.protocol.own_settings import (
    BYTES_PER_SECOND,
    DELETE_TOPIC,
    FREE_PERCENT,
    OFFLINE_REPLICAS,
    TOPICS_PER_SECOND,
    UNCLEAN_ELECTION,
    own_setting_problem,
)
from lethe.protocol.topic_globs import PROTECTED_TOPICS, parse_globs
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import (
    Children,
    Data,
    GetChildren,
    GetData,
    ReadFailed,
    ReadOutcome,
    ZkError,
    failure_words,
)
from lethe.protocol.zookeeper.znodes import ConfigChange, OfflineReplicas

# --- notifications ------------------------------------------------------------------------------------------------


def unseen(context: Context, names: Iterable[str]) -> tuple[str, ...]:
    """Return the new notifications, oldest first, and count them as processed."""
    cluster = context.cluster
    numbered = _numbered(names)
    newest = max(numbered, default=-1)
    if 0 <= newest < cluster.last_config_change:
        # Old ones are purged before new ones, so the parent was created again and its numbers start again.
        cluster.last_config_change = -1
    fresh = tuple(numbered[number] for number in sorted(numbered) if number > cluster.last_config_change)
    cluster.last_config_change = max(cluster.last_config_change, newest)
    return fresh


def _numbered(names: Iterable[str]) -> dict[int, str]:
    sequences = ((paths.sequence_of(name, paths.CONFIG_CHANGE_PREFIX), name) for name in names)
    return {int(sequence): name for sequence, name in sequences if sequence is not None}


def changed(step: StepContext, changes: Iterable[ConfigChange]) -> None:
    """Read the brokers' configuration again if it applies to this controller; retry elections of changed topics."""
    context = step.context
    entities = dict.fromkeys(change.entity_path for change in changes)
    mine = (f"brokers/{paths.DEFAULT_ENTITY}", f"brokers/{context.config.controller_id}")
    named = (entity.partition("/") for entity in entities)
    topics = [name for entity_type, _, name in named if entity_type == "topics"]
    partitions = context.cluster.all_of(name for name in topics if not context.cluster.is_queued(name))
    if any(partitions.values()):
        # The election reads the topic's configuration if it needs it.
        step.do(BringOnline(partitions))
    if any(entity in entities for entity in mine):
        step.do(ReadConfiguration())


# --- what is configured -------------------------------------------------------------------------------------------


def read(step: StepContext, task: ReadConfiguration) -> None:
    """Read the configuration, after the notifications' names: the watch reports later changes."""
    step.read(
        (
            GetChildren(paths.config_changes(), watch=True),
            GetData(paths.config_broker_default()),
            GetData(paths.config_broker(step.context.config.controller_id)),
        ),
        ConfigurationRead(task.loading),
    )


def on_configuration_read(step: StepContext, task: ConfigurationRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Store the configuration, and run the tasks that the change allows."""
    context = step.context
    cluster = context.cluster
    listed, *entities = outcomes
    if task.loading and isinstance(listed, Children):
        cluster.last_config_change = max(_numbered(listed.names), default=-1)
    config, problem = _config(step, entities)
    if problem is not None:
        step.refuse("cluster", "taking over its configuration", f"{problem.path}: {problem.why}")
    before, in_force = cluster.dynamic, _in_force(context)
    may_delete, not_known = _boolean(step, config, DELETE_TOPIC, before.delete_topic_enable)
    may_be_unclean, _ = _boolean(step, config, UNCLEAN_ELECTION, before.unclean_leader_election_enable)
    protected, no_patterns = _patterns(step, config, before.protected_topics)
    grace, no_rules = _grace(step, config, before.grace)
    # A value that was known in this term stays in force.
    unknown = (
        problem or not_known or no_patterns or no_rules if task.loading or before.deletion_unknown is not None else None
    )
    if unknown is not None and before.deletion_unknown is not None:
        unknown = unknown._replace(since_ms=before.deletion_unknown.since_ms)
    offline_replicas = _offline_replicas(step, config, before.offline_replicas)
    topics_per_s = _rate(step, config, TOPICS_PER_SECOND, before.topics_per_second)
    bytes_per_s = _rate(step, config, BYTES_PER_SECOND, before.bytes_per_second)
    free_percent = _percent(step, config, before.trash_free_percent)
    cluster.dynamic = DynamicConfig(
        may_delete,
        may_be_unclean,
        unknown,
        protected,
        offline_replicas,
        topics_per_s,
        bytes_per_s,
        grace,
        free_percent,
        _topic_settings(step, config, before.topic_settings),
    )
    if before.deletion_unknown is not None and unknown != before.deletion_unknown:
        step.do(ReadPause(), *_markers_to_sort_out(context))
    if in_force == _in_force(context):
        return
    step.record(
        EventRecordType.EVENT,
        f"controller/{context.config.controller_id}",
        what="configuration changed",
        delete_topic_enable=context.delete_topic_enable,
        unclean_leader_election_enable=context.unclean_leader_election_enable,
        protected_topics=",".join(context.protected_topics),
        deletion_offline_replicas=context.offline_replicas.value,
        topics_per_second=context.pace.topics / 1_000,
        bytes_per_second=context.pace.bytes / 1_000,
        deletion_grace=",".join(rule.text for rule in context.grace),
        trash_free_percent=context.trash_free_percent,
    )
    if task.loading:
        return
    _note_begun(step, in_force)
    if in_force.trash_free_percent != context.trash_free_percent:
        trash.look_soon(step)
    if in_force[:3] != _in_force(context)[:3]:
        # Some of the topics that wait for their turn may be refused now.
        step.do(ListDeletions())
    elif in_force.pace != context.pace:
        pace.go_on(step)
    if context.unclean_leader_election_enable and not in_force.unclean:
        step.do(BringOnline())
    if in_force.offline_replicas is not context.offline_replicas:
        step.do(ResumeDeletions(tuple(cluster.deletions), unblock=True))


def _markers_to_sort_out(context: Context) -> tuple[ListDeletions, ...]:
    """Return the task that refuses markers by what is known now, where a pause that was ordered lasts.

    The end of the controller's own pause lists them otherwise (`pausing.on_pause_read`)."""
    paused = context.cluster.paused
    is_ordered = paused is not None and paused.held_by is CauseKind.RESUMPTION
    return (ListDeletions(),) if is_ordered and context.cluster.dynamic.deletion_unknown is None else ()


class _InForce(NamedTuple):
    deleting: bool
    protected: tuple[str, ...]
    grace: tuple[GraceRule, ...]
    unclean: bool
    offline_replicas: OfflineReplicas
    pace: PaceLimits
    trash_free_percent: int


def _note_begun(step: StepContext, before: _InForce) -> None:
    """Note what has begun where the next controller would refuse topics, put them into the trash, or hold them back."""
    context = step.context
    if before.protected != context.protected_topics:
        note_queued(step)
    if before.grace != context.grace or (before.pace != context.pace and before.pace.is_nothing):
        note_begun(step, tuple(context.cluster.deletions))


def _in_force(context: Context) -> _InForce:
    return _InForce(
        context.delete_topic_enable,
        context.protected_topics,
        context.grace,
        context.unclean_leader_election_enable,
        context.offline_replicas,
        context.pace,
        context.trash_free_percent,
    )


def _config(
    step: StepContext, outcomes: Sequence[ReadOutcome]
) -> tuple[dict[str, _Value] | None, UnreadableConfiguration | None]:
    """Return the settings of this controller's id merged over the default; None and the problem if one is unknown."""
    where = (paths.config_broker_default(), paths.config_broker(step.context.config.controller_id))
    merged: dict[str, _Value] = {}
    for path, outcome in zip(where, outcomes, strict=True):
        if isinstance(outcome, Data):
            try:
                decoded = znodes.decode_config(path, outcome.data)
            except znodes.MalformedZnode as error:
                return None, UnreadableConfiguration(path, error.reason, step.now_ms)
            merged |= {name: _Value(value, path) for name, value in decoded.items()}
        elif not isinstance(outcome, ReadFailed) or outcome.error is not ZkError.NO_NODE:
            return None, UnreadableConfiguration(path, f"reading it: {failure_words(outcome)}", step.now_ms)
    return merged, None


class _Value(NamedTuple):
    """A setting, and the znode that has it."""

    text: str
    path: str


def _boolean(
    step: StepContext, config: dict[str, _Value] | None, name: str, before: bool | None
) -> tuple[bool | None, UnreadableConfiguration | None]:
    """Return the configured value, or None; if it is unknown, the former value and the problem."""
    value = None if config is None else config.get(name)
    if value is None:
        return (before if config is None else None), None
    parsed = parse_boolean(value.text)
    if parsed is not None:
        return parsed, None
    problem = str(own_setting_problem(name, value.text))
    step.refuse("cluster", f"configuring {name}", problem)
    return before, UnreadableConfiguration(value.path, f"{name}: {problem}", step.now_ms)


def _patterns(
    step: StepContext, config: dict[str, _Value] | None, before: tuple[str, ...] | None
) -> tuple[tuple[str, ...] | None, UnreadableConfiguration | None]:
    """As `_boolean`, for the patterns of protected topics."""
    value = None if config is None else config.get(PROTECTED_TOPICS)
    if value is None:
        return (before if config is None else None), None
    parsed = parse_globs(value.text)
    if not isinstance(parsed, str):
        return parsed, None
    problem = str(own_setting_problem(PROTECTED_TOPICS, value.text))
    step.refuse("cluster", f"configuring {PROTECTED_TOPICS}", problem)
    return before, UnreadableConfiguration(value.path, f"{PROTECTED_TOPICS}: {problem}", step.now_ms)


def _grace(
    step: StepContext, config: dict[str, _Value] | None, before: tuple[GraceRule, ...] | None
) -> tuple[tuple[GraceRule, ...] | None, UnreadableConfiguration | None]:
    """As `_boolean`, for the rules by which topics go into the trash."""
    value = None if config is None else config.get(DELETION_GRACE)
    if value is None:
        return (before if config is None else None), None
    parsed = parse_grace(value.text)
    if not isinstance(parsed, str):
        return parsed, None
    problem = str(own_setting_problem(DELETION_GRACE, value.text))
    step.refuse("cluster", f"configuring {DELETION_GRACE}", problem)
    return before, UnreadableConfiguration(value.path, f"{DELETION_GRACE}: {problem}", step.now_ms)


def _offline_replicas(
    step: StepContext, config: dict[str, _Value] | None, before: OfflineReplicas | None
) -> OfflineReplicas | None:
    """Return the configured value, or None; if it is unknown, the former value."""
    value = None if config is None else config.get(OFFLINE_REPLICAS)
    if value is None:
        return before if config is None else None
    if (problem := own_setting_problem(OFFLINE_REPLICAS, value.text)) is not None:
        step.refuse("cluster", f"configuring {OFFLINE_REPLICAS}", problem)
        return before
    return OfflineReplicas(value.text.strip().lower())


def _rate(step: StepContext, config: dict[str, _Value] | None, name: str, before: int | None) -> int | None:
    """Return the configured number in thousandths, or None; if it is unknown, the former value."""
    value = None if config is None else config.get(name)
    if value is None:
        return before if config is None else None
    parsed = parse_thousandths(value.text)
    if parsed is None:
        step.refuse("cluster", f"configuring {name}", str(own_setting_problem(name, value.text)))
        return before
    return parsed


def _percent(step: StepContext, config: dict[str, _Value] | None, before: int | None) -> int | None:
    """As `_rate`, for the free space below which the trash gives way: 0 to 99."""
    value = None if config is None else config.get(FREE_PERCENT)
    if value is None:
        return before if config is None else None
    if (problem := own_setting_problem(FREE_PERCENT, value.text)) is not None:
        step.refuse("cluster", f"configuring {FREE_PERCENT}", problem)
        return before
    return int(value.text.strip())


def _topic_settings(step: StepContext, config: dict[str, _Value] | None, before: BrokerSettings) -> BrokerSettings:
    """Return the settings of brokers that stand for settings of topics; for those that are unknown, the former ones."""
    if config is None:
        return before
    own = paths.config_broker(step.context.config.controller_id)
    found: dict[str, BrokerSetting] = {}
    for name, value in config.items():
        if name not in TOPIC_NAMES:
            continue
        try:
            broker_setting_value(name, value.text)
        except InvalidTopicConfig as problem:
            step.refuse("cluster", f"configuring {name}", str(problem))
            if name in before:
                found[name] = before[name]
            continue
        found[name] = BrokerSetting(value.text, ConfigSource.BROKER if value.path == own else ConfigSource.ALL_BROKERS)
    return found
