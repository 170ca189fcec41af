"""Which quota a client has, and figures of Kafka's TokenBucketTest and ControllerMutationQuotaManagerTest."""

from __future__ import annotations

import pytest

from lethe.controller.core.mutation_quota_rules import (
    MUTATION_RATE,
    Charge,
    MutationQuota,
    QuotaClients,
    TokenBucket,
    UnknownQuota,
    charge,
    quota_among,
    quota_levels,
    throttle_ms,
)
from lethe.protocol.zookeeper.operations import Data, ReadFailed, ReadOutcome, Stat, ZkError
from lethe.protocol.zookeeper.znodes import encode_config
from tests.fakes.forbidden_znodes import NO_AUTH

ANN = QuotaClients("ann", "")
NOW_MS = 1_700_000_000_000
ABSENT = ReadFailed(ZkError.NO_NODE)
LEVELS = (
    ("/config/users/a%20b/clients/c%3D1", QuotaClients("a b", "c=1")),
    ("/config/users/a%20b/clients/<default>", QuotaClients("a b", "c=1")),
    ("/config/users/a%20b", QuotaClients("a b", "")),
    ("/config/users/<default>/clients/c%3D1", QuotaClients("a b", "c=1")),
    ("/config/users/<default>/clients/<default>", QuotaClients("a b", "c=1")),
    ("/config/users/<default>", QuotaClients("a b", "")),
    ("/config/clients/c%3D1", QuotaClients("", "c=1")),
    ("/config/clients/<default>", QuotaClients("", "c=1")),
)


def strict(rate: float, window_s: int = 10) -> MutationQuota:
    return MutationQuota(ANN, rate, rate * window_s, is_strict=True)


def permissive(rate: float, window_s: int = 10) -> MutationQuota:
    return strict(rate, window_s)._replace(is_strict=False)


def config(**values: str) -> Data:
    return Data(encode_config(values), Stat(1, 1, 0, 0))


def tokens(quota: MutationQuota, *taken: tuple[int, int]) -> list[float]:
    """What is left after each of these (ms since the one before, tokens)."""
    bucket: TokenBucket | None = None
    now_ms, left = NOW_MS, []
    for after_ms, count in taken:
        now_ms += after_ms
        bucket = charge(bucket, quota, count, now_ms).bucket
        left.append(bucket.tokens)
    return left


def test_record() -> None:
    assert tokens(strict(5, 20), (0, 0), (0, 60), (2_000, 5), (2_000, 60)) == [100, 40, 45, -5]


def test_unrecord() -> None:
    assert tokens(strict(5, 20), (0, -60), (2_000, 60), (2_000, -60)) == [100, 40, 100]


def test_a_clock_that_goes_back_takes_nothing_away() -> None:
    assert tokens(strict(5, 20), (0, 60), (-60_000, 0)) == [40, 40]


def test_a_strict_quota_is_overdrawn_once_and_then_refuses() -> None:
    first = charge(None, strict(10), 90, NOW_MS)
    second = charge(first.bucket, strict(10), 90, NOW_MS)
    third = charge(second.bucket, strict(10), 90, NOW_MS)
    assert [(each.is_refused, each.throttle_ms, each.bucket.tokens) for each in (first, second, third)] == [
        (False, 0, 10),
        (False, 0, -80),
        (True, 8_000, -80),
    ]
    assert not charge(third.bucket, strict(10), 90, NOW_MS + 8_000).is_refused
    assert charge(third.bucket, strict(10), 90, NOW_MS + 7_999).is_refused


def test_a_permissive_quota_refuses_nothing_and_throttles_once_overdrawn() -> None:
    bucket, waits = None, []
    for _ in range(3):
        done = charge(bucket, permissive(10), 90, NOW_MS)
        bucket = done.bucket
        waits.append((done.is_refused, done.throttle_ms))
    assert waits == [(False, 0), (False, 8_000), (False, 17_000)]


def test_a_spike_above_the_burst() -> None:
    bucket = None
    for second in range(10):
        done = charge(bucket, strict(10), 10, NOW_MS + second * 1000)
        bucket = done.bucket
        assert (done.is_refused, done.throttle_ms) == (False, 0)
    at_ms = NOW_MS + 10_000
    first = charge(bucket, strict(10), 110, at_ms)
    second_spike = charge(first.bucket, strict(10), 110, at_ms)
    third = charge(second_spike.bucket, strict(10), 110, at_ms + second_spike.throttle_ms)
    assert [(each.is_refused, each.throttle_ms) for each in (first, second_spike, third)] == [
        (False, 0),
        (True, 1_000),
        (False, 0),
    ]


@pytest.mark.parametrize(
    "left, rate, wait_ms",
    [(0, 10, 0), (-5, 10, 500), (-10, 10, 1_000), (-1, 3, 333), (-1, 0, 2**31 - 1), (-1e12, 0.5, 2**31 - 1)],
)
def test_throttle_time(left: float, rate: float, wait_ms: int) -> None:
    assert throttle_ms(left, rate) == wait_ms


def test_a_bucket_tells_when_it_is_full_again() -> None:
    assert charge(None, strict(2), 30, NOW_MS).bucket.full_at_ms == NOW_MS + 15_000
    assert charge(None, strict(2), 0, NOW_MS).bucket.full_at_ms == NOW_MS
    assert charge(None, strict(0), 1, NOW_MS).bucket.full_at_ms > NOW_MS + 10**15


def test_a_rate_of_zero_lets_one_change_through_as_in_kafka() -> None:
    first = charge(None, strict(0), 1, NOW_MS)
    assert not first.is_refused
    overdrawn = TokenBucket(-1, NOW_MS, float("inf"))
    assert charge(first.bucket, strict(0), 1, NOW_MS + 10**9) == Charge(overdrawn, True, 2**31 - 1)


# --- which quota --------------------------------------------------------------------------------------------------


def test_levels_are_in_the_order_of_precedence() -> None:
    assert quota_levels("a b", "c=1") == LEVELS


@pytest.mark.parametrize("first", range(8))
def test_the_first_level_that_sets_the_rate_decides(first: int) -> None:
    levels = quota_levels("a b", "c=1")
    outcomes: list[ReadOutcome] = [ABSENT] * first
    outcomes += [config(controller_mutation_rate=f"{n + 0.5}") for n in range(first, 8)]
    expected = MutationQuota(LEVELS[first][1], first + 0.5, 11 * (first + 0.5), is_strict=True)
    assert quota_among(levels, outcomes, 11, is_strict=True) == expected


def test_settings_of_other_kinds_are_no_quota() -> None:
    levels = quota_levels("ann", "")
    other = config(producer_byte_rate="1024")
    assert quota_among(levels, [other, other], 11, is_strict=True) is None


@pytest.mark.parametrize(
    "user, client_id, paths",
    [
        ("ann", "", ["/config/users/ann", "/config/users/<default>"]),
        ("", "c", ["/config/clients/c", "/config/clients/<default>"]),
        ("..", ".", []),
        ("", "", []),
    ],
)
def test_a_name_that_no_znode_can_have_has_no_level(user: str, client_id: str, paths: list[str]) -> None:
    assert [level.path for level in quota_levels(user, client_id)] == paths


@pytest.mark.parametrize("text", ["ten", "", "NaN", "1_0"])
def test_a_rate_that_is_no_number_is_unknown(text: str) -> None:
    found = quota_among(quota_levels("ann", ""), [config(controller_mutation_rate=text), ABSENT], 11, is_strict=True)
    assert isinstance(found, UnknownQuota)
    assert found.path == "/config/users/ann"
    assert MUTATION_RATE in found.why


def test_a_level_that_cannot_be_read_is_unknown_unless_one_before_it_decides() -> None:
    levels = quota_levels("ann", "")
    denied, set_to_5 = ReadFailed(ZkError.NO_AUTH), config(controller_mutation_rate="5")
    assert quota_among(levels, [denied, set_to_5], 11, is_strict=True) == UnknownQuota(
        "/config/users/ann", f"reading it: {NO_AUTH}"
    )
    assert isinstance(quota_among(levels, [set_to_5, denied], 11, is_strict=True), MutationQuota)
    broken = Data(b"{", Stat(1, 1, 0, 0))
    assert isinstance(quota_among(levels, [ABSENT, broken], 11, is_strict=True), UnknownQuota)


@pytest.mark.parametrize("text, rate", [("1e3", 1000), ("-1", 0), ("Infinity", 2.0**63), (" 2.5d", 2.5)])
def test_rates_are_read_as_javas_doubles(text: str, rate: float) -> None:
    found = quota_among(quota_levels("ann", ""), [config(controller_mutation_rate=text), ABSENT], 1, is_strict=True)
    assert found == MutationQuota(ANN, rate, rate, is_strict=True)
