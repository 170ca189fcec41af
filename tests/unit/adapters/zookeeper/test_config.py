"""Connect strings and what a configuration refuses."""

import pytest

from lethe.adapters.zookeeper.config import ConnectString, Server, ZooKeeperConfig, parse_connect_string
from lethe.protocol.zookeeper.operations import Credentials


@pytest.mark.parametrize(
    "text, expected",
    [
        ("h", ConnectString((Server("h", 2181),))),
        (" h:1 , g:2 ", ConnectString((Server("h", 1), Server("g", 2)))),
        ("h1:1,h2:2/a/b", ConnectString((Server("h1", 1), Server("h2", 2)), "/a/b")),
        ("h:1/", ConnectString((Server("h", 1),))),
        ("h:1/a/", ConnectString((Server("h", 1),), "/a")),
        ("[::1]:5,[fe80::1%eth0]/k", ConnectString((Server("::1", 5), Server("fe80::1%eth0", 2181)), "/k")),
    ],
)
def test_a_connect_string_is_understood(text: str, expected: ConnectString) -> None:
    found = parse_connect_string(text)
    assert found == expected
    assert parse_connect_string(str(found)) == found


@pytest.mark.parametrize(
    "text, problem",
    [
        ("", "names no server"),
        (",", "names no server"),
        ("/chroot", "names no server"),
        ("h:0", "'h:0' is not host:port"),
        ("h:x", "'h:x' is not host:port"),
        ("h:99999", "not host:port"),
        ("::1:2181", "not host:port"),
        ("h 1:2181", "not host:port"),
        ("h:1/a,g:2/a", "given once"),
        ("h:1//a", "empty or relative"),
        ("h:1/a/../b", "empty or relative"),
    ],
)
def test_what_is_wrong_with_a_connect_string_is_said(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_connect_string(text)


def test_contradictions_are_refused() -> None:
    connect = parse_connect_string("h")
    with pytest.raises(ValueError, match="must be positive"):
        ZooKeeperConfig(connect, session_timeout_ms=0)
    with pytest.raises(ValueError, match=r"set.acl.*credentials"):
        ZooKeeperConfig(connect, set_acl=True)
    secured = ZooKeeperConfig(connect, set_acl=True, credentials=(Credentials("digest", b"u:hunter2"),))
    assert "hunter2" not in repr(secured)
