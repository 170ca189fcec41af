"""Lethe's own znodes: written exactly, read without ever failing, and never read as more than they say."""

import pytest

from lethe.protocol.zookeeper import znodes
from lethe.protocol.zookeeper.znodes import DeletionsPaused


def test_a_pause_is_written_and_read() -> None:
    paused = DeletionsPaused(1700000000000, "disks of rack 2")
    data = b'{"version":1,"since":"1700000000000","reason":"disks of rack 2"}'
    assert znodes.encode_deletions_paused(paused) == data
    assert znodes.decode_deletions_paused(data) == paused
    assert znodes.encode_deletions_paused(DeletionsPaused()) == b'{"version":1,"reason":""}'
    assert znodes.decode_deletions_paused(b'{"version":2,"who":"me"}') == DeletionsPaused()


def test_a_reason_from_a_command_line_that_is_no_utf8_is_written_nevertheless() -> None:
    data = znodes.encode_deletions_paused(DeletionsPaused(None, b"caf\xe9".decode("utf-8", "surrogateescape")))
    assert data == b'{"version":1,"reason":"caf?"}'


@pytest.mark.parametrize(
    "data, since_ms, told",
    [
        (None, None, "no data"),
        (b"", None, "no data"),
        (b"please", None, "not JSON"),
        (b"\xff\xfe", None, "not JSON"),
        (b"[1]", None, "expected a JSON object, found an array"),
        (b'{"since":12,"reason":"x"}', None, "'since' must be a string"),
        (b'{"since":"soon","reason":"x"}', None, "'since' must be a string of digits"),
        (b'{"since":"12","reason":null}', 12, "'reason' must be a string, found null"),
        (b'{"since":"12","reason":7}', 12, "'reason' must be a string, found 7"),
    ],
)
def test_a_pause_that_cannot_be_read_still_is_one(data: bytes | None, since_ms: int | None, told: str) -> None:
    paused = znodes.decode_deletions_paused(data)
    assert paused.since_ms == since_ms
    assert paused.reason.startswith("unreadable: ")
    assert told in paused.reason


def test_a_marker_is_null_or_the_order_to_delete_what_cannot_be_read() -> None:
    assert znodes.encode_deletion_marker(False) is None
    assert znodes.encode_deletion_marker(True) == b'{"version":1,"unreadable":true}'
    assert znodes.decode_deletion_marker(b'{"version":1,"unreadable":true}')
    assert znodes.decode_deletion_marker(b' {"unreadable": true, "by": "me", "version": 1}\n')


def test_a_marker_can_say_whose_deletion_has_begun() -> None:
    assert znodes.encode_deletion_marker(False, 77) == b'{"version":1,"begun":"77"}'
    assert znodes.encode_deletion_marker(True, 77) == b'{"version":1,"unreadable":true,"begun":"77"}'
    assert znodes.decode_deletion_begun(b'{"begun":"77","version":1,"by":"me"}') == 77


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"begun",
        b'{"version":1}',
        b'{"begun":"77"}',
        b'{"version":2,"begun":"77"}',
        b'{"version":1,"begun":77}',
        b'{"version":1,"begun":"soon"}',
        b'{"version":1,"begun":null}',
    ],
)
def test_another_marker_says_that_nothing_has_begun(data: bytes | None) -> None:
    assert znodes.decode_deletion_begun(data) is None


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"null",
        b"true",
        b"unreadable",
        b"\xff",
        b"{}",
        b'{"version":1}',
        b'{"unreadable":true}',
        b'{"version":2,"unreadable":true}',
        b'{"version":true,"unreadable":true}',
        b'{"version":1.0,"unreadable":true}',
        b'{"version":"1","unreadable":true}',
        b'{"version":1,"unreadable":1}',
        b'{"version":1,"unreadable":"true"}',
        b'{"version":1,"unreadable":false}',
        b'{"version":1,"unreadable":true',
        b'[{"version":1,"unreadable":true}]',
    ],
)
def test_anything_else_is_an_ordinary_marker(data: bytes | None) -> None:
    assert znodes.decode_deletion_marker(data) is False
