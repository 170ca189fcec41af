"""Which failures stay until somebody changes a setting."""

import pytest

from lethe.adapters.registration import RegistrationFailed
from lethe.adapters.zookeeper.interface import (
    SessionLost,
    WriteRefused,
    ZooKeeperRefused,
    ZooKeeperUnavailable,
    needs_new_settings,
)
from lethe.protocol.zookeeper.operations import ZkError


@pytest.mark.parametrize(
    "error, expected",
    [
        (ZooKeeperRefused("wrong password"), True),
        (WriteRefused("/brokers", ZkError.NO_AUTH), True),
        (WriteRefused("/brokers", ZkError.INVALID_ACL), True),
        (WriteRefused("/brokers", ZkError.NO_NODE), False),
        (RegistrationFailed("/brokers/ids/3 cannot be written", ZkError.NO_AUTH), True),
        (RegistrationFailed("/brokers/ids/3 kept changing"), False),
        (ZooKeeperUnavailable("no server"), False),
        (SessionLost("expired"), False),
        (OSError("planted"), False),
    ],
)
def test_refusals_by_rights_need_new_settings(error: Exception, expected: bool) -> None:
    assert needs_new_settings(error) is expected
