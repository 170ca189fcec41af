"""Patterns that protect topics: `*`, `?`, and everything else as it is."""

from __future__ import annotations

import re

import pytest

from lethe.protocol.topic_globs import glob_as_regex, matching_glob, parse_globs, protecting_glob


@pytest.mark.parametrize(
    "pattern,hits,misses",
    [
        ("orders", ["orders"], ["orders2", "my-orders", "Orders"]),
        ("orders.*", ["orders.eu", "orders."], ["orders-eu", "orders"]),
        ("a?c", ["abc", "a.c"], ["ac", "abbc"]),
        ("a[b]^\\&&-]|(c){2}", ["a[b]^\\&&-]|(c){2}"], ["ab", "cc", "a"]),
        ("*", ["anything", ""], []),
    ],
)
def test_what_a_pattern_means(pattern: str, hits: list[str], misses: list[str]) -> None:
    regex = re.compile(glob_as_regex(pattern))
    assert all(regex.fullmatch(hit) for hit in hits)
    assert not any(regex.fullmatch(miss) for miss in misses)


def test_the_first_pattern_that_means_it() -> None:
    assert matching_glob("orders.eu", ["bills", "orders.*", "*"]) == "orders.*"
    assert matching_glob("orders.eu", ["bills"]) is None


def test_an_internal_topic_is_protected_without_a_pattern() -> None:
    assert protecting_glob("__consumer_offsets", ()) == "__consumer_offsets"
    assert protecting_glob("orders", ("bills", "o*")) == "o*"
    assert protecting_glob("orders", ("bills",)) is None


def test_a_list_of_patterns_or_the_one_that_can_match_no_topic() -> None:
    assert parse_globs(" orders, billing.* ,,orders") == ("orders", "billing.*")
    assert parse_globs("") == ()
    assert parse_globs("orders,a;b,c d") == "a;b"
