"""Requests about topics: written exactly, and never read as more than they say."""

import pytest

from lethe.protocol.zookeeper.znodes import (
    MalformedZnode,
    RequestedAction,
    TopicRequest,
    decode_topic_request,
    encode_topic_request,
)

UNDELETE = TopicRequest(RequestedAction.UNDELETE)


def test_request_and_its_refusal() -> None:
    assert encode_topic_request(UNDELETE) == b'{"version":1,"request":"undelete"}'
    refused = UNDELETE.refuse("it has gone")
    assert encode_topic_request(refused) == b'{"version":1,"request":"undelete","refused":"it has gone"}'
    for each in (UNDELETE, refused):
        assert decode_topic_request("orders", encode_topic_request(each)) == each


@pytest.mark.parametrize(
    "data, told",
    [
        (None, "it has no data"),
        (b"?", "not JSON"),
        (b'{"version":2,"request":"undelete"}', "version 2 is not known"),
        (b'{"version":1}', "'request' must be a string"),
        (b'{"version":1,"request":"destroy"}', "'request' must be undelete or purge, found the string 'destroy'"),
        (b'{"version":1,"request":"undelete","refused":1}', "'refused' must be a string"),
    ],
)
def test_what_is_no_request(data: bytes | None, told: str) -> None:
    with pytest.raises(MalformedZnode, match=told):
        decode_topic_request("orders", data)
