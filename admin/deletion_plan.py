"""The plan of a deletion: what would be deleted, as it was when somebody looked. Pure, but for the hash.

`lethe topics plan-delete` writes a plan, `lethe topics delete --plan` looks again and carries out exactly that:

    since the plan                                         carried out
    -----------------------------------------------------  ----------------------------------------------------
    nothing has changed                                    yes, all topics at once
    another topic of that name, or none                    no
    other partitions or replicas                           no
    a consumer group more, or one that reads again         no
    records written                                        only with `allow_writes`
    a broker with a replica gone, a new hindrance          no
    something could not be seen, then or now               only with `accept_unseen`
    the file was written to by hand (its hash)             no

The hash is taken over the ids and all that was looked at, so that two people can compare what they have agreed to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

import orjson

from lethe.admin.refusal import Exit, Refusal
from lethe.protocol.counting import counted
from lethe.protocol.zookeeper.json_fields import kind_of

VERSION: Final = 1
UNREAD: Final = "cannot be read"
"""Follows the name of a topic of which it is unseen whether it exists, in `TopicDeletionPlan.unseen`."""
_REMEDY: Final = "Plan again with lethe topics plan-delete"
_KINDS: Final = {bool: "true or false", int: "a whole number", str: "a string"}
MAX_TOPICS: Final = 1_000
"""All topics are marked in one multi, which has to fit into a request to ZooKeeper."""


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """`first` and `end` are the offsets on the leader; None where it did not tell them."""

    partition: int
    replicas: tuple[int, ...]
    first: int | None
    end: int | None


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """A consumer group with offsets of the topic; `is_reading`: it has members that read it."""

    group: str
    state: str
    is_reading: bool


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """A topic as it was seen. `unseen` has a text for everything that could not be seen."""

    topic: str
    topic_id: str | None
    czxid: int
    """When its znode was created, by ZooKeeper: tells topics of the same name apart, also without ids."""
    partitions: tuple[PlannedPartition, ...]
    size_bytes: int | None
    """Of all replicas."""
    last_write_ms: int | None
    """Time of the newest record; None where there is none, or it is not known."""
    groups: tuple[PlannedGroup, ...] | None
    """None where some groups did not answer."""
    blockers: tuple[str, ...]
    """What the deletion would wait for, as texts of `lethe explain`."""
    unseen: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlannedDebt:
    """What a broker that is not registered would owe if it were not waited for."""

    broker: int
    partitions: int
    size_bytes: int | None
    """By other replicas; None where one was not seen."""


@dataclass(frozen=True, slots=True)
class TopicDeletionPlan:
    """The whole plan; topics by name."""

    cluster_id: str | None
    taken_at_ms: int
    brokers: tuple[int, ...]
    """The registered ones."""
    topics: tuple[PlannedTopic, ...]
    debts: tuple[PlannedDebt, ...]
    blockers: tuple[str, ...]
    """What every deletion waits for."""
    unseen: tuple[str, ...]

    @property
    def hash(self) -> str:
        """SHA-256 over everything but the time."""
        body = orjson.dumps(asdict(replace(self, taken_at_ms=0)), option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(body).hexdigest()

    @property
    def all_unseen(self) -> tuple[str, ...]:
        """All that could not be seen, of the cluster and of each topic."""
        return (*self.unseen, *(f"{topic.topic}: {text}" for topic in self.topics for text in topic.unseen))


# --- the file -----------------------------------------------------------------------------------------------------


def encode_plan(plan: TopicDeletionPlan) -> bytes:
    """Return the plan as a JSON document for people and programs."""
    document = {"version": VERSION, "hash": plan.hash, **asdict(plan)}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def decode_plan(data: bytes, where: str) -> TopicDeletionPlan:
    """Read a plan. Raises Refusal where the file is no plan, or not as it was written."""
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _no_plan(where, f"it is not JSON ({error})") from error
    try:
        fields = _fields("", document)
        version, written_hash = (_required("", fields, name) for name in ("version", "hash"))
        if version != VERSION:
            raise _no_plan(where, f"its version is {kind_of(version)}, and this release reads {VERSION}")
        names = {name: value for name, value in fields.items() if name not in ("version", "hash")}
        plan: TopicDeletionPlan = _read(TopicDeletionPlan, "", names)
    except _OtherKind as problem:
        raise _no_plan(where, str(problem)) from problem
    if written_hash != plan.hash:
        raise Refusal(f"{where} was changed after it was written: its hash is another one. {_REMEDY}", Exit.USAGE)
    return plan


def _no_plan(where: str, why: str) -> Refusal:
    return Refusal(f"{where} is no plan of lethe topics plan-delete: {why}. {_REMEDY}", Exit.USAGE)


class _OtherKind(Exception):
    """A value is not what `encode_plan` writes there; the message names the place and both kinds."""


def _read(kind: Any, place: str, value: object) -> Any:
    """Return the JSON value as its annotation has it. `place` is like `topics[0].czxid`, empty for the whole document.
    Raises _OtherKind."""
    if isinstance(kind, UnionType):
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
        return None if value is None else _read(kind, place, value)
    if get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise _OtherKind(f"{place} must be an array, found {kind_of(value)}")
        return tuple(_read(get_args(kind)[0], f"{place}[{index}]", each) for index, each in enumerate(value))
    if is_dataclass(kind):
        return _record(kind, place, _fields(place, value))
    if type(value) is not kind:
        raise _OtherKind(f"{place} must be {_KINDS[kind]}, found {kind_of(value)}")
    return value


def _record(kind: Any, place: str, fields: Mapping[str, object]) -> Any:
    kinds = get_type_hints(kind)
    if unknown := [name for name in fields if name not in kinds]:
        raise _OtherKind(f"{place or 'it'} has a key that no plan has: {unknown[0]:.40}")
    return kind(
        **{name: _read(each, _inside(place, name), _required(place, fields, name)) for name, each in kinds.items()}
    )


def _fields(place: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _OtherKind(f"{place or 'it'} must be an object, found {kind_of(value)}")
    return value


def _required(place: str, fields: Mapping[str, object], name: str) -> object:
    if name not in fields:
        raise _OtherKind(f"{place or 'it'} has no {name}")
    return fields[name]


def _inside(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


# --- what has changed ---------------------------------------------------------------------------------------------


def changes(plan: TopicDeletionPlan, now: TopicDeletionPlan, *, allow_writes: bool = False) -> tuple[str, ...]:
    """Return what is not as it was, a text for each change."""
    found: list[str] = []
    if None not in (plan.cluster_id, now.cluster_id) and plan.cluster_id != now.cluster_id:
        found.append(f"this is the cluster {now.cluster_id}, and the plan is of {plan.cluster_id}")
    topics = {topic.topic: topic for topic in now.topics}
    for topic in plan.topics:
        there = topics.get(topic.topic)
        if there is None:
            if not any(text.startswith(f"{topic.topic} {UNREAD}: ") for text in now.unseen):
                found.append(f"{topic.topic} does not exist any more")
        elif (there.czxid, there.topic_id) != (topic.czxid, topic.topic_id):
            found.append(f"{topic.topic} is another topic of that name, created since")
        else:
            found += (f"{topic.topic} {text}" for text in _topic_changes(topic, there, allow_writes=allow_writes))
    gone = [broker for broker in plan.brokers if broker not in now.brokers]
    hosts = {broker for topic in plan.topics for each in topic.partitions for broker in each.replicas}
    found += (f"broker {broker}, which has replicas, is not registered any more" for broker in gone if broker in hosts)
    found += (f"every deletion {text}" for text in now.blockers if text not in plan.blockers)
    return tuple(found)


def _topic_changes(before: PlannedTopic, now: PlannedTopic, *, allow_writes: bool) -> Iterator[str]:
    was, there = ({each.partition: each for each in topic.partitions} for topic in (before, now))
    if was.keys() != there.keys():
        yield f"has {counted(len(there), 'partition')}, it had {len(was)}"
        return
    for number, partition in was.items():
        if sorted(partition.replicas) != sorted(there[number].replicas):
            replicas = ", ".join(map(str, there[number].replicas))
            yield f"has other replicas of partition {number}: {replicas}"
        end = there[number].end
        if not allow_writes and partition.end is not None and end is not None and end != partition.end:
            yield f"was written to: partition {number} ends at offset {end}, it did at {partition.end}"
    known = {group.group: group for group in before.groups or ()}
    for group in now.groups or ():
        if group.group not in known:
            yield f"is used by the consumer group {group.group}, which it was not"
        elif group.is_reading and not known[group.group].is_reading:
            yield f"is read by the consumer group {group.group}, which it was not"
    yield from (text for text in now.blockers if text not in before.blockers)


def demand_unchanged(
    plan: TopicDeletionPlan, now: TopicDeletionPlan, *, allow_writes: bool, accept_unseen: bool
) -> None:
    """Raise Refusal that names each change, and what could not be seen."""
    found = changes(plan, now, allow_writes=allow_writes)
    unseen = () if accept_unseen else tuple(dict.fromkeys((*plan.all_unseen, *now.all_unseen)))
    if not found and not unseen:
        return
    lines = [*(f"changed: {text}" for text in found), *(f"unseen: {text}" for text in unseen)]
    remedy = "plan again with lethe topics plan-delete" if found else "--accept-unseen deletes none the less"
    raise Refusal(
        "\n".join((*lines, f"Nothing was done: {remedy}.")),
        data={"changed": [*found], "unseen": [*unseen], "hash": plan.hash},
    )


def summary(plan: TopicDeletionPlan) -> Sequence[str]:
    """Return the totals in words."""
    partitions = sum(len(topic.partitions) for topic in plan.topics)
    sizes = [topic.size_bytes for topic in plan.topics]
    known = sum(size for size in sizes if size is not None)
    unknown = sizes.count(None)
    more = f" and {unknown} of unknown size" if unknown else ""
    what = f"{counted(len(plan.topics), 'topic')}, {counted(partitions, 'partition')}, {counted(known, 'byte')}{more}"
    return (what, f"hash {plan.hash}")
