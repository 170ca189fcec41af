"""Lethe's own znodes: written exactly, read without ever failing, and never read as more than they say."""

import pytest

from lethe.protocol.zookeeper import znodes
from lethe.protocol.zookeeper.znodes import DeletionOrders, DeletionsPaused, OfflineReplicas


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


@pytest.mark.parametrize(
    "data, orders",
    [
        (None, DeletionOrders()),
        (b'{"version":1,"unreadable":true}', DeletionOrders(unreadable=True)),
        (b'{"version":1,"begun":"77"}', DeletionOrders(begun=77)),
        (b'{"version":1,"topic_czxid":"78"}', DeletionOrders(topic_czxid=78)),
        (b'{"version":1,"unreadable":true,"begun":"77"}', DeletionOrders(unreadable=True, begun=77)),
        (b'{"version":1,"offline_replicas":"owe"}', DeletionOrders(offline_replicas=OfflineReplicas.OWE)),
        (b'{"version":1,"offline_replicas":"wait"}', DeletionOrders(offline_replicas=OfflineReplicas.WAIT)),
        (b'{"version":1,"grace_ms":"60000"}', DeletionOrders(grace_ms=60_000)),
    ],
)
def test_a_marker_is_null_or_has_orders(data: bytes | None, orders: DeletionOrders) -> None:
    assert znodes.encode_deletion_marker(orders) == data
    assert znodes.decode_deletion_marker(data) == orders


def test_other_fields_and_white_space_do_not_matter() -> None:
    data = b' {"unreadable": true, "by": "me", "begun": "77", "version": 1}\n'
    assert znodes.decode_deletion_marker(data) == DeletionOrders(unreadable=True, begun=77)


@pytest.mark.parametrize(
    "data",
    [
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
        b'{"begun":"77"}',
        b'{"version":2,"begun":"77"}',
        b'{"version":1,"begun":77}',
        b'{"version":1,"begun":"soon"}',
        b'{"version":1,"begun":null}',
        b'{"version":1,"offline_replicas":null,"grace_ms":null}',
    ],
)
def test_anything_else_is_an_ordinary_marker(data: bytes | None) -> None:
    assert znodes.decode_deletion_marker(data) == DeletionOrders()


@pytest.mark.parametrize(
    "field, told",
    [
        (b'"offline_replicas":"destroy"', "'offline_replicas' must be wait or owe, found the string 'destroy'"),
        (b'"offline_replicas":true', "'offline_replicas' must be a string, found true"),
        (b'"grace_ms":60000', "'grace_ms' must be a string, found 60000"),
        (b'"grace_ms":"1d"', "'grace_ms' must be a string of digits"),
        (b'"grace_ms":"-1"', "'grace_ms' must not be negative, found -1"),
    ],
)
def test_an_order_that_cannot_be_understood_is_told_apart_from_none(field: bytes, told: str) -> None:
    orders = znodes.decode_deletion_marker(b'{"version":1,"unreadable":true,"begun":"77",' + field + b"}")
    assert orders.problem is not None
    assert told in orders.problem
    assert orders == DeletionOrders(unreadable=True, begun=77, problem=orders.problem)
