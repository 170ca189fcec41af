"""Reads from a coordinator which consumer groups use topics: those whose members read them, and those with offsets.

A coordinator returns the subscriptions of a group only while no member is joining; until then the group is asked about
again. A group without an answer is a problem, never "no group": it may read any topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from lethe.adapters.kafka.client import ClientError, KafkaConnection, ProtocolError
from lethe.adapters.kafka.groups import GroupsUnseen, committed_topics
from lethe.adapters.kafka.missing_rights import GRANT_DESCRIBE_CLUSTER, answer_words, grant_on_group
from lethe.protocol.kafka.consumers import (
    CONSUMER,
    STABLE,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    assigned_topics,
    subscribed_topics,
)
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.queries import ListGroupsRequest, ListGroupsResponse
from lethe.protocol.security.acls import Operation
from lethe.protocol.vocabulary import BrokerId

GROUPS_AT_ONCE: Final = 100
"""Groups in one request."""
REBALANCE_PAUSE_S: Final = 2.0
_REBALANCE_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer group with a relation to a topic. `members` subscribe to it or read it now; without members, the group
    has committed offsets of it."""

    name: str
    state: str
    members: tuple[str, ...] = ()
    """Client ids, sorted."""


@dataclass(frozen=True, slots=True)
class CoordinatedGroups:
    """The groups of one coordinator by topic, and why others of its groups are unknown."""

    by_topic: dict[str, list[Group]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


async def read_groups(connection: KafkaConnection, broker: BrokerId, topics: Collection[str]) -> CoordinatedGroups:
    """Return the broker's groups that use these topics. Its failures are problems, beside what it has said before."""
    found = CoordinatedGroups()
    try:
        listed = cast(ListGroupsResponse, await connection.ask(ListGroupsRequest()))
        if listed.error != ErrorCode.NONE:
            why = answer_words(listed.error, connection.principal, GRANT_DESCRIBE_CLUSTER)
            found.problems.append(f"consumer groups of broker {broker}: {why}")
        names = sorted({group.group for group in listed.groups})
        for at in range(0, len(names), GROUPS_AT_ONCE):
            await _read(connection, names[at : at + GROUPS_AT_ONCE], topics, found)
    except (ClientError, ProtocolError) as error:
        found.problems.append(f"consumer groups of broker {broker}: {error}")
    return found


async def _read(
    connection: KafkaConnection, names: Sequence[str], topics: Collection[str], found: CoordinatedGroups
) -> None:
    """Add these groups to what is found."""
    described = await _described(connection, names)
    for name in names:
        group = described.get(name)
        problem = _problem(group, connection.principal)
        if group is None or problem is not None:
            found.problems.append(f"consumer group {name}: {problem}")
            continue
        try:
            stored = await committed_topics(connection, name)
            members = _members(group)
        except GroupsUnseen as unseen:
            found.problems.append(str(unseen))
            continue
        except _Unreadable as unreadable:
            found.problems.append(f"consumer group {name}: {unreadable}")
            continue
        read = {topic for each in members.values() for topic in each}
        for topic in sorted({*stored, *read}.intersection(topics)):
            reading = tuple(sorted(client for client, each in members.items() if topic in each))
            found.by_topic.setdefault(topic, []).append(Group(name, group.state, reading))


async def _described(connection: KafkaConnection, names: Sequence[str]) -> dict[str, DescribedGroup]:
    """Return the coordinator's descriptions; those of groups whose members are joining are asked for again."""
    found: dict[str, DescribedGroup] = {}
    waiting = tuple(names)
    for attempt in range(_REBALANCE_TRIES):
        if attempt:
            await asyncio.sleep(REBALANCE_PAUSE_S)
        answer = cast(DescribeGroupsResponse, await connection.ask(DescribeGroupsRequest(waiting)))
        found |= {group.group: group for group in answer.groups if group.group in waiting}
        waiting = tuple(name for name in waiting if name in found and _is_joining(found[name]))
        if not waiting:
            break
    return found


def _is_joining(group: DescribedGroup) -> bool:
    return bool(group.members) and group.protocol_type == CONSUMER and group.state != STABLE


def _problem(group: DescribedGroup | None, principal: str) -> str | None:
    if group is None:
        return "it is not in the answer"
    if group.error != ErrorCode.NONE:
        why = answer_words(group.error, principal, grant_on_group(Operation.DESCRIBE, group.group))
        return f"it cannot be described: {why}"
    return "its members are joining it, and what they read is unseen" if _is_joining(group) else None


class _Unreadable(Exception):
    """A member's subscription cannot be understood."""


def _members(group: DescribedGroup) -> dict[str, set[str]]:
    """Return the topics of each member. Members of other protocols have no subscriptions."""
    members: dict[str, set[str]] = {}
    for member in group.members:
        read = members.setdefault(f"{member.client_id} ({member.client_host.lstrip('/')})", set())
        if group.protocol_type != CONSUMER:
            continue
        try:
            read.update(subscribed_topics(member.subscription), assigned_topics(member.assignment))
        except ProtocolError as error:
            raise _Unreadable(str(error)) from error
    return members
