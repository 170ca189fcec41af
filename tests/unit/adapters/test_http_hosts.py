"""Which Host headers are answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from lethe.adapters.http_hosts import AllowedHosts, is_loopback, search_domains_of

HOSTS = AllowedHosts(("kafka-1", "Lethe.Example.com."), ("kafka.svc.cluster.local", "corp.example.org", "com"))


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "127.0.0.1:8080",
        "10.0.3.7",
        "[::1]:8080",
        "[fe80::1%eth0]:8080",
        "localhost:8080",
        "a.localhost",
        "controller-1:8080",
        "lethe.example.com:8080",
        "LETHE.example.com.",
        "lethe-0.kafka.svc.cluster.local:8080",
        "kafka-7.corp.example.org",
    ],
)
def test_addresses_names_without_a_dot_and_names_of_ours_are_answered(header: str | None) -> None:
    assert HOSTS.allow(header)


@pytest.mark.parametrize(
    "header",
    [
        "evil.example",
        "evil.example:8080",
        "127.0.0.1.evil.example",
        "lethe.example.com.evil.example",
        "evilcorp.example.org",
        "evil.com",
        "localhost.evil.example:80",
        "[evil.example]:80",
        "[::1].evil.example",
        "[::1]evil",
        "127.0.0.1%.evil.example",
        "127.0.0.1%25",
        "[::1%evil.example]:80",
    ],
)
def test_a_name_that_a_stranger_may_have_is_refused(header: str) -> None:
    assert not HOSTS.allow(header)


def test_search_domains_are_read_from_the_resolvers_file(tmp_path: Path) -> None:
    file = tmp_path / "resolv.conf"
    file.write_text("# search no.example\nnameserver 127.0.0.1\nsearch a.example  b.example\ndomain c.example\n")
    assert search_domains_of(file) == ("a.example", "b.example", "c.example")
    assert search_domains_of(tmp_path / "none") == ()


@pytest.mark.parametrize(
    "host,expected",
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("LOCALHOST.", True),
        ("", False),
        ("0.0.0.0", False),
        ("::", False),
        ("localhost.example.com", False),
    ],
)
def test_what_is_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
