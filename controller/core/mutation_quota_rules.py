"""Quotas on changes of topics (KIP-599, `controller_mutation_rate`): which one a client has, and Kafka's arithmetic.

The first of these znodes that sets the rate decides. Clients share a bucket where it names a user or a client id only:

    znode                                      clients that share a bucket
    -----------------------------------------  -----------------------------------------
    /config/users/USER/clients/CLIENT          of this user and client id
    /config/users/USER/clients/<default>       of this user and client id
    /config/users/USER                         of this user
    /config/users/<default>/clients/CLIENT     of this user and client id
    /config/users/<default>/clients/<default>  of this user and client id
    /config/users/<default>                    of this user
    /config/clients/CLIENT                     of this client id
    /config/clients/<default>                  of this client id

A bucket holds at most `controller.quota.window.num` * `controller.quota.window.size.seconds` seconds of tokens, and
fills at the rate. A change takes one token for each partition. A request may overdraw the bucket once:

    rate 2, 10 s: 20 tokens            strict                          permissive (old versions of requests)
    create 30 partitions               done, -10 tokens                done, -10 tokens, throttled for 5 s
    create 30 partitions               refused, throttled for 5 s      done, -40 tokens, throttled for 20 s
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from lethe.protocol.kafka.topic_configs import InvalidTopicConfig, ValueType, parse_value
from lethe.protocol.zookeeper import znodes
from lethe.protocol.zookeeper.json_fields import INT32_MAX
from lethe.protocol.zookeeper.operations import Data, ReadOutcome, ZkError, failure_words, is_absent, read_error
from lethe.protocol.zookeeper.quota_paths import quota_of_client, quota_of_user, quota_of_user_client

MUTATION_RATE: Final = "controller_mutation_rate"
"""Kafka's name of the quota in the configuration of users and client ids: partitions per second."""
_UNBOUNDED: Final = 2.0**63
"""Kafka's rate where there is no quota."""


class QuotaClients(NamedTuple):
    """The clients that share a bucket; an empty name stands for all."""

    user: str
    client_id: str


class QuotaLevel(NamedTuple):
    """One znode that may set a client's rate."""

    path: str
    clients: QuotaClients


class MutationQuota(NamedTuple):
    """What applies to one request."""

    clients: QuotaClients
    rate: float
    """Tokens per second, not negative."""
    burst: float
    """Most tokens in the bucket."""
    is_strict: bool
    """Changes are refused while the bucket is overdrawn; otherwise they are done, and the client waits."""


class UnknownQuota(NamedTuple):
    """A znode that could not be read or understood, and no znode before it sets the rate."""

    path: str
    why: str


# --- which quota --------------------------------------------------------------------------------------------------


def quota_levels(user: str, client_id: str) -> tuple[QuotaLevel, ...]:
    """Return the znodes that may set this client's rate, in the order of precedence. A name that is empty, or that no
    znode can have, is in none of them."""
    user, client_id = _name(user), _name(client_id)
    both, of_user, of_client = QuotaClients(user, client_id), QuotaClients(user, ""), QuotaClients("", client_id)
    found: list[QuotaLevel] = []
    for user_part in (user, None) if user else ():
        if client_id:
            found += (QuotaLevel(quota_of_user_client(user_part, each), both) for each in (client_id, None))
        found.append(QuotaLevel(quota_of_user(user_part), of_user))
    if client_id:
        found += (QuotaLevel(quota_of_client(each), of_client) for each in (client_id, None))
    return tuple(found)


def _name(name: str) -> str:
    return "" if name in (".", "..") else name


def quota_among(
    levels: Sequence[QuotaLevel], outcomes: Sequence[ReadOutcome], window_s: int, *, is_strict: bool
) -> MutationQuota | UnknownQuota | None:
    """Return the quota that these znodes set; None if none of them does. `window_s`: see above."""
    for level, outcome in zip(levels, outcomes, strict=True):
        rate = _rate(level.path, outcome)
        if isinstance(rate, UnknownQuota):
            return rate
        if rate is not None:
            return MutationQuota(level.clients, rate, rate * window_s, is_strict)
    return None


def _rate(path: str, outcome: ReadOutcome) -> float | UnknownQuota | None:
    if not isinstance(outcome, Data):
        if is_absent(outcome) or read_error(outcome) is ZkError.BAD_ARGUMENTS:
            return None
        return UnknownQuota(path, f"reading it: {failure_words(outcome)}")
    try:
        text = znodes.decode_config(path, outcome.data).get(MUTATION_RATE)
        rate = None if text is None else parse_value(MUTATION_RATE, text, ValueType.DOUBLE)
    except znodes.MalformedZnode as malformed:
        return UnknownQuota(path, malformed.reason)
    except InvalidTopicConfig as invalid:
        return UnknownQuota(path, str(invalid))
    if rate is None:
        return None
    if not isinstance(rate, float) or math.isnan(rate):
        return UnknownQuota(path, f"Invalid value {text} for configuration {MUTATION_RATE}: Not a number")
    return min(max(0.0, rate), _UNBOUNDED)


# --- the bucket ---------------------------------------------------------------------------------------------------


class TokenBucket(NamedTuple):
    """What is left for these clients. Kafka's TokenBucket; one that was never used is full."""

    tokens: float
    """Below 0: overdrawn."""
    updated_ms: int
    full_at_ms: float
    """When it is full again, at the rate of the last request; it need not be stored any longer."""


class Charge(NamedTuple):
    bucket: TokenBucket
    is_refused: bool = False
    throttle_ms: int = 0
    """How long the client has to wait, from now on."""


def charge(bucket: TokenBucket | None, quota: MutationQuota, tokens: float, now_ms: int) -> Charge:
    """Take these tokens, unless the quota is strict and the bucket is overdrawn. None: a full bucket."""
    before = quota.burst if bucket is None else _refilled(bucket, quota, now_ms)
    if bucket is not None and quota.is_strict and before < 0:
        # Unchanged, so that errors of rounding do not add up while the client tries again.
        return Charge(bucket, True, throttle_ms(before, quota.rate))
    after = min(quota.burst, before - tokens)
    throttled = throttle_ms(after, quota.rate) if after < 0 and not quota.is_strict else 0
    return Charge(_bucket(after, quota, now_ms), False, throttled)


def throttle_ms(tokens: float, rate: float) -> int:
    """Return after how long an overdrawn bucket is at 0; without a rate, the longest time that an answer can say."""
    wait_ms = -tokens / rate * 1000 if rate > 0 else math.inf
    return math.floor(wait_ms + 0.5) if wait_ms < INT32_MAX else INT32_MAX


def _refilled(bucket: TokenBucket, quota: MutationQuota, now_ms: int) -> float:
    # A clock that was set back takes no tokens away.
    return min(quota.burst, bucket.tokens + quota.rate * max(0, now_ms - bucket.updated_ms) / 1000)


def _bucket(tokens: float, quota: MutationQuota, now_ms: int) -> TokenBucket:
    missing = quota.burst - tokens
    if missing <= 0:
        return TokenBucket(tokens, now_ms, now_ms)
    return TokenBucket(tokens, now_ms, now_ms + missing / quota.rate * 1000 if quota.rate > 0 else math.inf)
