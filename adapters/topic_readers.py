"""Who would notice that a topic goes, and when it was last written: consumer groups and offsets, asked of the brokers.

Through aiokafka (the extra `clients`), over listeners without encryption. Nothing is asked that could bring a topic
into being: topics are named only in requests that create none. What cannot be asked is told as that, never as
"nobody".
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from adapters.broker_views import plaintext_endpoint
from protocol.kafka.errors import error_name
from protocol.vocabulary import Broker, TopicPartition

REQUEST_MS: Final = 20_000
LIMIT_MS: Final = 120_000
"""For all groups, and for all offsets."""
_AT_ONCE: Final = 16
_CLIENT_ID: Final = "lethe-candidates"
_NO_REPLICA: Final = -1
_UNCOMMITTED: Final = 0
_LATEST: Final = -1
_EARLIEST: Final = -2


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group that has to do with a topic. `members` are those that subscribe to it or read it now; without
    any, offsets are what is left of its reading."""

    name: str
    state: str
    members: tuple[str, ...] = ()
    """Client ids, sorted."""


class Asked(NamedTuple):
    """Whom to ask about a partition, and from which moment on records are of interest."""

    leader: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class Offsets:
    """Of one partition. `since` is the offset of the first record with a time from the moment that was asked for on;
    None where there is none."""

    first: int
    end: int
    since: int | None


@dataclass(frozen=True, slots=True)
class Readers:
    """What brokers say of these topics. `problems` says what could not be asked: then `groups` is None, or `offsets`
    are missing."""

    groups: Mapping[str, tuple[Group, ...]] | None = None
    offsets: Mapping[TopicPartition, Offsets] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


async def ask_readers(brokers: Sequence[Broker], partitions: Mapping[TopicPartition, Asked]) -> Readers:
    """Groups by topic, and offsets of the partitions. Raises nothing for what brokers do or do not do."""
    ends = [end for end in map(plaintext_endpoint, brokers) if end is not None]
    if not ends:
        return Readers(problems=("no broker has a listener without encryption to be asked by",))
    try:
        import aiokafka  # noqa: F401 -- is it there?
    except ImportError:
        return Readers(problems=("aiokafka is not installed: pip install 'lethe-kafka[clients]'",))
    servers = [f"{end.host}:{end.port}" for end in ends]
    problems: list[str] = []
    groups: Mapping[str, tuple[Group, ...]] | None = None
    offsets: Mapping[TopicPartition, Offsets] = {}
    try:
        async with asyncio.timeout(LIMIT_MS / 1000):
            groups = await _groups(servers, {partition.topic for partition in partitions})
    except Exception as error:  # noqa: BLE001 -- a library's errors of every kind: the answer is the same
        problems.append(f"consumer groups: {_why(error)}")
    try:
        async with asyncio.timeout(LIMIT_MS / 1000):
            offsets = await _offsets(servers, partitions)
    except Exception as error:  # noqa: BLE001
        problems.append(f"offsets: {_why(error)}")
    return Readers(groups, offsets, tuple(problems))


def _why(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return f"{type(error).__name__}: {error}".rstrip(": ")


# --- consumer groups ----------------------------------------------------------------------------------------------


async def _groups(servers: Sequence[str], topics: set[str]) -> dict[str, tuple[Group, ...]]:
    from aiokafka.admin import AIOKafkaAdminClient

    admin = AIOKafkaAdminClient(bootstrap_servers=list(servers), client_id=_CLIENT_ID, request_timeout_ms=REQUEST_MS)
    await admin.start()
    try:
        names = sorted({group[0] for group in await admin.list_consumer_groups()})
        limit = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(_group(admin, name, limit), name=f"group-{name}") for name in names]
        found: dict[str, list[Group]] = {}
        for name, task in zip(names, asked, strict=True):
            state, members, stored = task.result()
            for topic in sorted(topics & {*stored, *(topic for read in members.values() for topic in read)}):
                reading = tuple(sorted(client for client, read in members.items() if topic in read))
                found.setdefault(topic, []).append(Group(name, state, reading))
        return {topic: tuple(groups) for topic, groups in found.items()}
    finally:
        await admin.close()


async def _group(admin: Any, name: str, limit: asyncio.Semaphore) -> tuple[str, dict[str, set[str]], set[str]]:
    """Its state, the topics of each member, and those of which it has offsets."""
    async with limit:
        coordinator = await admin.find_coordinator(name)
        stored = await admin.list_consumer_group_offsets(name, coordinator)
        (answer,) = await admin.describe_consumer_groups([name], coordinator)
    topics = {partition.topic for partition, offset in stored.items() if offset.offset >= 0}
    state = ""
    members: dict[str, set[str]] = {}
    for described in answer.groups:
        error, _, state, kind, _, joined, *_ = described
        if error:
            raise RuntimeError(f"group {name} cannot be described: {error_name(error)}")
        for _, client, host, metadata, assigned in joined:
            read = _topics_of(metadata, assigned) if kind == "consumer" else set()
            members.setdefault(f"{client} ({host.lstrip('/')})", set()).update(read)
    return state, members, topics


def _topics_of(metadata: bytes, assigned: bytes) -> set[str]:
    from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

    topics: set[str] = set()
    if metadata:
        topics.update(ConsumerProtocolMemberMetadata.decode(metadata).subscription)
    if assigned:
        topics.update(topic for topic, _ in ConsumerProtocolMemberAssignment.decode(assigned).assignment)
    return topics


# --- offsets ------------------------------------------------------------------------------------------------------


async def _offsets(servers: Sequence[str], partitions: Mapping[TopicPartition, Asked]) -> dict[TopicPartition, Offsets]:
    """Those of which their leader says all three. A consumer would ask for metadata first, which may create topics."""
    from aiokafka.client import AIOKafkaClient

    client = AIOKafkaClient(bootstrap_servers=list(servers), client_id=_CLIENT_ID, request_timeout_ms=REQUEST_MS)
    try:
        await client.bootstrap()
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition, asked in partitions.items():
            by_leader.setdefault(asked.leader, []).append(partition)
        found: dict[TopicPartition, Offsets] = {}
        for leader, led in by_leader.items():
            first = await _listed(client, leader, dict.fromkeys(led, _EARLIEST))
            end = await _listed(client, leader, dict.fromkeys(led, _LATEST))
            since = await _listed(client, leader, {each: partitions[each].since_ms for each in led})
            for each in led:
                found[each] = Offsets(first[each], end[each], since[each] if since[each] >= 0 else None)
        return found
    finally:
        await client.close()


async def _listed(client: Any, leader: int, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """ListOffsets: the offset of the first record at or after each time; -1 where there is none."""
    from aiokafka.protocol.offset import OffsetRequest

    topics: dict[str, list[tuple[int, int]]] = {}
    for (topic, number), time in times.items():
        topics.setdefault(topic, []).append((number, time))
    answer = await client.send(leader, OffsetRequest(_NO_REPLICA, _UNCOMMITTED, list(topics.items())))
    found = {}
    for topic, numbers in answer.topics:
        for number, error, _time, offset in numbers:
            if error:
                raise RuntimeError(f"broker {leader} gives no offset of {topic}-{number}: {error_name(error)}")
            found[TopicPartition(topic, number)] = int(offset)
    return found
