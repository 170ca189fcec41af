"""Requests to forget a broker: written exactly, and never read as more than they say."""

import pytest

from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.znodes import ForgetRequest, MalformedZnode


@pytest.mark.parametrize(
    "request_, data",
    [
        (ForgetRequest(), b'{"version":1}'),
        (ForgetRequest("broker 3 is registered"), b'{"version":1,"refused":"broker 3 is registered"}'),
    ],
)
def test_there_and_back(request_: ForgetRequest, data: bytes) -> None:
    assert znodes.encode_forget_request(request_) == data
    assert znodes.decode_forget_request(3, data) == request_


@pytest.mark.parametrize("data", [None, b"", b"{}", b"null", b'{"version":2}', b'{"version":1,"refused":7}'])
def test_what_is_not_understood_is_no_request(data: bytes | None) -> None:
    with pytest.raises(MalformedZnode) as raised:
        znodes.decode_forget_request(3, data)
    assert raised.value.path == "/lethe/forget/3"


def test_its_path() -> None:
    assert paths.forget(3) == "/lethe/forget/3"
    assert paths.forgets() == "/lethe/forget"
