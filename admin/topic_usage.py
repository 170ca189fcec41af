"""Asks brokers for a topic's consumer groups and offsets: which clients use it, and when it was last written to.

The requests go through aiokafka to PLAINTEXT listeners. None of them can create a topic. A question without an answer
is reported as such, never as "no group".
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from lethe.adapters.zookeeper.interface import ZooKeeperSession
from lethe.admin.group_coordinators import hidden_groups, read_coordinators
from lethe.protocol.kafka.errors import error_name
from lethe.protocol.vocabulary import Broker, TopicPartition

REQUEST_MS: Final = 20_000
LIMIT_MS: Final = 120_000
"""Time limit for all groups, and for all offsets."""
REBALANCE_PAUSE_S: Final = 2.0
_REBALANCE_TRIES: Final = 3
_STABLE: Final = "Stable"
_AT_ONCE: Final = 16
_CLIENT_ID: Final = "lethe-candidates"
_NO_REPLICA: Final = -1
_UNCOMMITTED: Final = 0
_LATEST: Final = -1
_EARLIEST: Final = -2


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group with a relation to a topic. `members` subscribe to it or read it now; without members, the group
    has committed offsets of it."""

    name: str
    state: str
    members: tuple[str, ...] = ()
    """Client ids, sorted."""


class LeaderQuery(NamedTuple):
    """The leader to ask about a partition, and the start of the time in question."""

    leader: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class Offsets:
    """Offsets of one partition. `since` is the first record from the requested time on; None where there is none."""

    first: int
    end: int
    since: int | None


@dataclass(frozen=True, slots=True)
class TopicUsage:
    """What brokers say about these topics, and what they do not.

    A group that did not answer may read any topic, so `unasked` concerns all of them. A partition without known offsets
    is not in `offsets`; `unknown` may say why.
    """

    groups: Mapping[str, tuple[Group, ...]] = field(default_factory=dict)
    offsets: Mapping[TopicPartition, Offsets] = field(default_factory=dict)
    unasked: tuple[str, ...] = ()
    unknown: Mapping[TopicPartition, str] = field(default_factory=dict)

    @property
    def problems(self) -> tuple[str, ...]:
        """All unanswered questions, each reason once."""
        return tuple(dict.fromkeys((*self.unasked, *self.unknown.values())))


async def ask_readers(
    session: ZooKeeperSession, brokers: Sequence[Broker], partitions: Mapping[TopicPartition, LeaderQuery]
) -> TopicUsage:
    """Return groups by topic, and offsets by partition. Failures of brokers never raise."""
    ends = [end for end in (broker.plaintext_endpoint for broker in brokers) if end is not None]
    if not ends:
        return unknown_usage("no broker has a listener without encryption to be asked by", partitions)
    try:
        from aiokafka.admin import AIOKafkaAdminClient
        from aiokafka.client import AIOKafkaClient
    except ImportError:
        return unknown_usage("aiokafka is not installed: pip install aiokafka", partitions)
    about: dict[str, Any] = {
        "bootstrap_servers": [f"{end.host}:{end.port}" for end in ends],
        "client_id": _CLIENT_ID,
        "request_timeout_ms": REQUEST_MS,
    }
    try:
        admin, client = AIOKafkaAdminClient(**about), AIOKafkaClient(**about)
    except Exception as error:  # noqa: BLE001 -- addresses that it does not take
        return unknown_usage(_why(error), partitions)
    coordinators = await read_coordinators(session, brokers)
    hidden = await hidden_groups(coordinators, brokers)
    topics = {partition.topic for partition in partitions}
    groups, unasked = await read_groups(admin, topics, coordinators.brokers)
    if (await read_coordinators(session, brokers)) != coordinators:
        hidden = (*hidden, "consumer groups: they went to other brokers while these were asked")
    offsets, unknown = await read_offsets(client, partitions)
    return TopicUsage(groups, offsets, (*hidden, *unasked), unknown)


def unknown_usage(why: str, partitions: Iterable[TopicPartition]) -> TopicUsage:
    """Return the result without any answer, for one reason."""
    return TopicUsage(unasked=(why,), unknown=dict.fromkeys(partitions, why))


def _why(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return f"{type(error).__name__}: {error}".rstrip(": ")


# --- consumer groups ----------------------------------------------------------------------------------------------


async def read_groups(
    admin: Any, topics: set[str], coordinators: Sequence[int]
) -> tuple[dict[str, tuple[Group, ...]], tuple[str, ...]]:
    """Return the groups of these brokers by topic, and why some are unknown. `admin` is an unstarted client; it is
    closed."""
    found: dict[str, list[Group]] = {}
    unasked: list[str] = []
    try:
        async with asyncio.timeout(LIMIT_MS / 1000):
            await admin.start()
            names = sorted({group[0] for group in await admin.list_consumer_groups([*coordinators])})
            limit = asyncio.Semaphore(_AT_ONCE)
            async with asyncio.TaskGroup() as tasks:
                asked = [tasks.create_task(_group_or_error(admin, name, limit), name=f"group-{name}") for name in names]
            for name, task in zip(names, asked, strict=True):
                answer = task.result()
                if isinstance(answer, str):
                    unasked.append(f"consumer group {name}: {answer}")
                    continue
                state, members, stored = answer
                for topic in sorted(topics & {*stored, *(topic for read in members.values() for topic in read)}):
                    reading = tuple(sorted(client for client, read in members.items() if topic in read))
                    found.setdefault(topic, []).append(Group(name, state, reading))
    except Exception as error:  # noqa: BLE001 -- a library's errors of every kind: the answer is the same
        unasked.append(f"consumer groups: {_why(error)}")
    finally:
        await _close(admin)
    return {topic: tuple(groups) for topic, groups in found.items()}, tuple(unasked)


async def _group_or_error(
    admin: Any, name: str, limit: asyncio.Semaphore
) -> tuple[str, dict[str, set[str]], set[str]] | str:
    """Return `_group`, or why it failed, so that one group does not hide the others."""
    for _ in range(_REBALANCE_TRIES):
        try:
            return await _group(admin, name, limit)
        except _Rebalancing:
            await asyncio.sleep(REBALANCE_PAUSE_S)
        except _Refused as error:
            return str(error)
        except Exception as error:  # noqa: BLE001
            return _why(error)
    return "its members are joining it, and what they read is unseen"


class _Refused(Exception):
    """A broker's error for a group."""


class _Rebalancing(Exception):
    """The group is not stable: until it is, its coordinator does not return subscriptions."""


async def _group(admin: Any, name: str, limit: asyncio.Semaphore) -> tuple[str, dict[str, set[str]], set[str]]:
    """Return its state, the topics of each member, and the topics with committed offsets."""
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
            raise _Refused(f"it cannot be described: {error_name(error)}")
        if joined and kind == "consumer" and state != _STABLE:
            raise _Rebalancing
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


async def read_offsets(
    client: Any, partitions: Mapping[TopicPartition, LeaderQuery]
) -> tuple[dict[TopicPartition, Offsets], dict[TopicPartition, str]]:
    """Return the offsets of partitions whose leader returned all three, and the reasons for the others. `client` is not
    started; it is closed. A consumer is not used: its metadata request may create topics."""
    found: dict[TopicPartition, Offsets] = {}
    unknown: dict[TopicPartition, str] = {}
    by_leader: dict[int, list[TopicPartition]] = {}
    for partition, asked in partitions.items():
        by_leader.setdefault(asked.leader, []).append(partition)
    try:
        async with asyncio.timeout(LIMIT_MS / 1000):
            await client.bootstrap()
            for leader, led in by_leader.items():
                try:
                    await _offsets_of(client, leader, led, partitions, found, unknown)
                except Exception as error:  # noqa: BLE001 -- of this leader; others may answer
                    why = f"broker {leader} gives no offsets: {_why(error)}"
                    unknown |= dict.fromkeys((each for each in led if each not in unknown), why)
    except Exception as error:  # noqa: BLE001
        why = f"offsets: {_why(error)}"
        unknown |= dict.fromkeys((each for each in partitions if each not in found and each not in unknown), why)
    finally:
        await _close(client)
    return found, unknown


async def _offsets_of(
    client: Any,
    leader: int,
    led: Sequence[TopicPartition],
    partitions: Mapping[TopicPartition, LeaderQuery],
    found: dict[TopicPartition, Offsets],
    unknown: dict[TopicPartition, str],
) -> None:
    """Add one leader's answers about its partitions."""
    first = await _list_offsets(client, leader, dict.fromkeys(led, _EARLIEST))
    end = await _list_offsets(client, leader, dict.fromkeys(led, _LATEST))
    since = await _list_offsets(client, leader, {each: partitions[each].since_ms for each in led})
    for each in led:
        told = [answers.get(each, "it is not in the answer") for answers in (first, end, since)]
        numbers = [one for one in told if isinstance(one, int)]
        if len(numbers) == len(told):
            found[each] = Offsets(numbers[0], numbers[1], numbers[2] if numbers[2] >= 0 else None)
        else:
            why = next(one for one in told if isinstance(one, str))
            unknown[each] = f"broker {leader} gives no offset of {each}: {why}"


async def _close(client: Any) -> None:
    """Close it; errors of a failed connection are known already."""
    with contextlib.suppress(Exception):
        await client.close()


async def _list_offsets(
    client: Any, leader: int, times: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | str]:
    """Return, by ListOffsets, the offset of the first record at or after each time, -1 where there is none, or the
    error."""
    from aiokafka.protocol.offset import OffsetRequest

    topics: dict[str, list[tuple[int, int]]] = {}
    for (topic, number), time in times.items():
        topics.setdefault(topic, []).append((number, time))
    answer = await client.send(leader, OffsetRequest(_NO_REPLICA, _UNCOMMITTED, list(topics.items())))
    found: dict[TopicPartition, int | str] = {}
    for topic, numbers in answer.topics:
        for number, error, _time, offset in numbers:
            found[TopicPartition(topic, number)] = error_name(error) if error else int(offset)
    return found
