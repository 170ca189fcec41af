"""Clients' quotas on changes of topics: read for each request, charged for each topic. `mutation_quota_rules` has them.

    request, and what it costs                      strict from version  on the topics above the quota
    ----------------------------------------------  -------------------  -------------------------------------------
    CreateTopics: the topic's partitions            6                    THROTTLING_QUOTA_EXCEEDED, and the client
    CreatePartitions: the new partitions            3                    waits. In earlier versions they are done,
    DeleteTopics: the topic's partitions            5                    and it waits
    the same with validate_only                                          costs nothing
    its quota cannot be read or understood                               UNKNOWN_SERVER_ERROR in all rows

A request costs what passes its checks, as in Kafka, also if a write fails afterwards. The wait is told in the answer
(`throttle_time_ms`), and the listener reads no further request of that connection meanwhile.

Kafka keeps all quotas in memory. This controller reads the eight znodes that can apply to the client, together, with
each request: clusters may have many thousands of users, such requests are rare, and a change counts at once.

A bucket is stored until it is full again, which is the same, but no longer than an hour after its last use, as in
Kafka: with a rate of 0 it is never full. Since clients choose their ids, at most MOST_BUCKETS are stored, those used
last. A new term begins with full ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lethe.controller.core import requests
from lethe.controller.core.mutation_quota_rules import (
    QuotaClients,
    TokenBucket,
    UnknownQuota,
    charge,
    quota_among,
    quota_levels,
)
from lethe.controller.core.step_context import StepContext
from lethe.controller.core.tasks_clients import MutationQuotaRead, ReadMutationQuota
from lethe.protocol.client_rows import RowRefused
from lethe.protocol.kafka.admin import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import ControllerRequest, error_response
from lethe.protocol.zookeeper.operations import GetData, ReadOutcome

MOST_BUCKETS: Final = 10_000
"""Kafka has no limit."""
_IDLE_MS: Final = 3_600_000
_SHOWN: Final = 300
"""Letters of a path or value in the log: a client's id may be long."""


def _strict_since(request: ControllerRequest) -> int | None:
    """Return the first version whose clients understand the refusal; None where no quota applies."""
    match request:
        case CreateTopicsRequest(validate_only=False):
            return 6
        case CreatePartitionsRequest(validate_only=False):
            return 3
        case DeleteTopicsRequest():
            return 5
        case _:
            return None


def read(step: StepContext, task: ReadMutationQuota) -> None:
    """Read the znodes that may set the client's rate."""
    asked = step.context.cluster.unanswered[task.then.key]
    user = requests.sender_of(step.context, task.then.key).client.principal.name
    levels = () if _strict_since(asked.request) is None else quota_levels(user, asked.client_id)
    if levels:
        step.read((GetData(level.path) for level in levels), MutationQuotaRead(task.then, levels))
    else:
        step.do(task.then)


def on_quota_read(step: StepContext, task: MutationQuotaRead, outcomes: Sequence[ReadOutcome]) -> None:
    """Store the quota with the request, and go on; refuse the request if the quota is unknown."""
    context, key = step.context, task.then.key
    _forget_unused(step)
    asked = context.cluster.unanswered[key]
    since = _strict_since(asked.request)
    is_strict = since is not None and asked.version >= since
    quota = quota_among(task.levels, outcomes, context.config.mutation_quota_window_s, is_strict=is_strict)
    if isinstance(quota, UnknownQuota):
        step.refuse("cluster", "reading a client's quota", f"{quota.path[:_SHOWN]}: {quota.why[:_SHOWN]}")
        requests.answer(step, key, error_response(asked.request, ErrorCode.UNKNOWN_SERVER_ERROR))
        return
    context.cluster.unanswered[key] = asked._replace(quota=quota)
    step.do(task.then)


def pay(step: StepContext, key: int, partitions: int) -> None:
    """Charge the request with this key for a change of so many partitions. Raises RowRefused if its quota is exceeded;
    like Kafka's, without a message."""
    cluster = step.context.cluster
    asked = cluster.unanswered[key]
    if asked.quota is None:
        return
    charged = charge(cluster.mutation_buckets.get(asked.quota.clients), asked.quota, partitions, step.now_ms)
    _store(cluster.mutation_buckets, asked.quota.clients, charged.bucket)
    if charged.throttle_ms:
        cluster.unanswered[key] = asked._replace(throttled_until_ms=step.now_ms + charged.throttle_ms)
    if charged.is_refused:
        raise RowRefused(ErrorCode.THROTTLING_QUOTA_EXCEEDED)


def _store(buckets: dict[QuotaClients, TokenBucket], clients: QuotaClients, bucket: TokenBucket) -> None:
    """Store the bucket as the one used last, in place of the first one if there are too many."""
    buckets.pop(clients, None)
    if len(buckets) >= MOST_BUCKETS:
        del buckets[next(iter(buckets))]
    buckets[clients] = bucket


def _forget_unused(step: StepContext) -> None:
    """Drop buckets that are full, or were not used for an hour."""
    cluster, now_ms = step.context.cluster, step.now_ms
    cluster.mutation_buckets = {
        clients: bucket
        for clients, bucket in cluster.mutation_buckets.items()
        if now_ms < min(bucket.full_at_ms, bucket.updated_ms + _IDLE_MS)
    }
