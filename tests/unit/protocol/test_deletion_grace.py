from __future__ import annotations

import pytest

from lethe.protocol.deletion_grace import GraceRule, grace_of, parse_grace

HOUR_MS = 3_600_000


def test_first_rule_that_matches_counts() -> None:
    rules = parse_grace(" orders.*:24h, tmp-*:0 ,*:1h,")
    assert rules == (GraceRule("orders.*", 24 * HOUR_MS), GraceRule("tmp-*", 0), GraceRule("*", HOUR_MS))
    assert [grace_of(name, rules) for name in ("orders.eu", "tmp-1", "orders")] == [24 * HOUR_MS, 0, HOUR_MS]
    assert grace_of("orders", ()) == 0
    assert parse_grace(",".join(rule.text for rule in rules)) == rules


@pytest.mark.parametrize("part", ["orders", "orders:", ":24h", "orders:24", "or ders:24h", "orders=24h", "a:1h:2h"])
def test_faulty_part_is_named(part: str) -> None:
    assert parse_grace(f"*:1h,{part}") == part


def test_nothing_is_no_rule() -> None:
    assert parse_grace(" , ") == ()
