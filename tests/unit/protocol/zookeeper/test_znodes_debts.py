"""Debts: written exactly, and never read as more than they say."""

import uuid

import pytest

from lethe.protocol.vocabulary import TopicId, topic_id_from_text
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.znodes import Debt, MalformedZnode

ID = TopicId(uuid.UUID("12345678-1234-5678-1234-567812345678"))


def test_with_all_that_is_known() -> None:
    debt = Debt(ID, (0, 1, 2, 7), 4, 1_700_000_000_000, 512)
    data = (
        b'{"version":1,"topic_id":"EjRWeBI0VngSNFZ4EjRWeA","partitions":"0-2,7","last_leader_epoch":4,'
        b'"since":"1700000000000","bytes":"512"}'
    )
    assert znodes.encode_debt(debt) == data
    assert znodes.decode_debt(3, "orders@17", data) == debt
    assert topic_id_from_text("EjRWeBI0VngSNFZ4EjRWeA") == ID


def test_without_an_id_and_a_size() -> None:
    debt = Debt(None, (0,), 0, 1)
    assert znodes.encode_debt(debt) == b'{"version":1,"partitions":"0","last_leader_epoch":0,"since":"1"}'
    assert znodes.decode_debt(3, "orders@17", znodes.encode_debt(debt)) == debt


@pytest.mark.parametrize(
    "data, told",
    [
        (None, "no data"),
        (b"{}", "'version' must be a whole number"),
        (b'{"version":2,"partitions":"0","last_leader_epoch":0,"since":"1"}', "version 2 is not known"),
        (b'{"version":1,"last_leader_epoch":0,"since":"1"}', "'partitions' must be a string"),
        (b'{"version":1,"partitions":"","last_leader_epoch":0,"since":"1"}', "'partitions' must name partitions"),
        (b'{"version":1,"partitions":"3-1","last_leader_epoch":0,"since":"1"}', "'partitions' names none"),
        (b'{"version":1,"partitions":"0-99999999","last_leader_epoch":0,"since":"1"}', "from 0 to 999999"),
        (
            b'{"version":1,"partitions":"0-99999999999999999999999","last_leader_epoch":0,"since":"1"}',
            "from 0 to 999999",
        ),
        (b'{"version":1,"partitions":"0","last_leader_epoch":0,"since":"-1"}', "'since' must be a time"),
        (
            b'{"version":1,"partitions":"0","last_leader_epoch":0,"since":"9223372036854775807"}',
            "'since' must be a time",
        ),
        (
            b'{"version":1,"partitions":"0","last_leader_epoch":0,"since":"1","bytes":"-1"}',
            "'bytes' must not be negative",
        ),
        (
            b'{"version":1,"topic_id":"AAAAAAAAAAAAAAAAAAAAAA","partitions":"0","last_leader_epoch":0,"since":"1"}',
            "the zero id",
        ),
        (b'{"version":1,"partitions":"all","last_leader_epoch":0,"since":"1"}', "'all' is no range"),
        (b'{"version":1,"partitions":"0","since":"1"}', "'last_leader_epoch' must be a whole number"),
        (b'{"version":1,"partitions":"0","last_leader_epoch":-1,"since":"1"}', "'last_leader_epoch' must be between"),
        (b'{"version":1,"partitions":"0","last_leader_epoch":0}', "'since' must be a string"),
        (b'{"version":1,"topic_id":7,"partitions":"0","last_leader_epoch":0,"since":"1"}', "'topic_id' must be"),
        (b'{"version":1,"topic_id":"x","partitions":"0","last_leader_epoch":0,"since":"1"}', "x"),
    ],
)
def test_what_is_not_understood_is_no_debt(data: bytes | None, told: str) -> None:
    with pytest.raises(MalformedZnode, match=told) as raised:
        znodes.decode_debt(3, "orders@17", data)
    assert raised.value.path == "/lethe/debts/3/orders@17"


def test_the_name_of_its_znode_has_topic_and_incarnation() -> None:
    assert paths.debt(3, "orders", 17) == "/lethe/debts/3/orders@17"
    assert paths.debt_named("orders@17") == ("orders", 17)
    for name in ("orders", "@17", "orders@", "orders@x", "orders@-1", "orders@" + "9" * 20):
        assert paths.debt_named(name) is None
        with pytest.raises(MalformedZnode):
            znodes.decode_debt(3, name, znodes.encode_debt(Debt(None, (0,), 0, 1)))
