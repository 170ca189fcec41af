"""The page about one deletion: it is well-formed, and what makes it reads recorded frames as they were written."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from lethe.adapters.zookeeper import wire, wire_multi
from lethe.cluster.recording_proxy import Frame
from lethe.protocol.kafka.codec import encode_control_body, encode_response
from lethe.protocol.kafka.control import (
    ApiKey,
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopic,
    TopicError,
)
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId, ControllerEpoch
from lethe.protocol.zookeeper.operations import Check, Create, Delete, GetChildren, GetData, Operation, SetData
from tests.fakes.life_page import problems
from tools.life_frames import Exchange, kafka_exchanges, zookeeper_exchanges
from tools.life_of_a_deletion import PAGE, steps_of

PATHS = st.text("aä/", min_size=1, max_size=9).map(lambda text: "/" + text)
DATA = st.none() | st.text(max_size=9).map(str.encode)
OPERATIONS: st.SearchStrategy[Operation] = st.one_of(
    st.builds(Create, PATHS, DATA, st.booleans()),
    st.builds(SetData, PATHS, DATA, st.integers(-1, 9)),
    st.builds(Delete, PATHS, st.integers(-1, 9)),
    st.builds(Check, PATHS, st.integers(0, 9)),
)


def test_the_page_is_well_formed() -> None:
    assert problems(PAGE.read_text()) == []


def test_a_damaged_page_is_found() -> None:
    text = PAGE.read_text()
    assert problems(text.replace("## After", "## Later"))
    assert problems(text.replace('"op": "check"', '"op" "check"'))
    assert problems(text.replace("### +0.0 ms", "### +9999.0 ms"))
    assert problems(text.replace("the znodes go", "something that this page has no words for"))
    assert problems(text + "```\n")
    assert problems(text + "see /tmp/x\n")


def frame(time_ns: int, to_server: bool, payload: bytes) -> Frame:
    return Frame(time_ns, 1, to_server, payload)


@given(st.lists(OPERATIONS, max_size=5))
def test_a_multi_is_read_as_it_was_written(operations: list[Operation]) -> None:
    payload = struct.pack("!i", 7) + wire_multi.pack_multi("", operations, set_acl=False).payload
    answer = struct.pack("!iqi", 7, 99, 0)
    (found,) = zookeeper_exchanges([frame(5, True, payload), frame(6, False, answer)])
    assert (found.what, found.time_ns, found.answered_ns, found.answer) == ("multi", 5, 6, {"zxid": 99})
    assert [each["path"] for each in found.body] == [operation.path for operation in operations]
    assert [each["op"].lower() for each in found.body] == [type(each).__name__.lower() for each in operations]
    written = [each.data for each in operations if isinstance(each, Create | SetData)]
    told = [each["data"] for each in found.body if "data" in each]
    assert told == [None if data is None else data.decode() for data in written]


def test_reads_pings_and_watches_are_told_apart() -> None:
    event = struct.pack("!iqiii", -1, -1, 0, 4, 3) + struct.pack("!i", 2) + b"/a"
    reads = wire.pack_multi_read("", [GetData("/a"), GetChildren("/b")]).payload
    frames = [
        frame(1, True, struct.pack("!ii", -2, 11)),
        frame(2, False, struct.pack("!iqi", -2, 5, 0)),
        frame(3, False, event),
        frame(4, True, struct.pack("!i", 1) + wire.pack_read("", GetChildren("/a", True)).payload),
        frame(5, True, struct.pack("!i", 2) + reads),
        frame(6, False, struct.pack("!iqi", 1, 5, -101)),
    ]
    assert zookeeper_exchanges(frames) == [
        Exchange(3, "ZooKeeper", "watch event", {"type": "CHILDREN_CHANGED", "path": "/a"}, to_server=False),
        Exchange(
            4,
            "ZooKeeper",
            "getChildren",
            {"path": "/a", "watch": True},
            answered_ns=6,
            answer={"zxid": 5, "error": "NO_NODE"},
        ),
        Exchange(
            5,
            "ZooKeeper",
            "multiRead",
            [{"op": "getData", "path": "/a"}, {"op": "getChildren", "path": "/b"}],
            answer={"zxid": 0},
        ),
    ]


def stop_replica(delete: bool, broker: int, at: int) -> list[Frame]:
    topics = (StopReplicaTopic("orders", (StopReplicaPartition(0, -2, delete),)),)
    body = encode_control_body(StopReplicaRequest(BrokerId(1001), ControllerEpoch(3), topics), 4)
    request = b"".join(map(bytes, body.frame(at, "lethe", BrokerEpoch(broker + 20))))[4:]
    response = StopReplicaResponse.of_rows(0, (TopicError("orders", 0, 0),))
    return [frame(at, True, request), frame(at + 5, False, encode_response(ApiKey.STOP_REPLICA, 4, at, response))]


def test_requests_of_one_kind_are_one_step_but_never_two_to_one_broker() -> None:
    exchanges = [
        exchange
        for broker, delete, at in ((1, False, 1), (2, False, 2), (1, True, 10), (2, True, 11), (1, True, 20))
        for exchange in kafka_exchanges(f"broker {broker}", stop_replica(delete, broker, at))
    ]
    assert exchanges[0].body["broker_epoch"] == 21
    assert exchanges[0].answer == {"error": 0, "partitions": [{"topic": "orders", "partition": 0, "error": 0}]}
    steps = steps_of(exchanges)
    assert [(step.key, len(step.exchanges)) for step in steps] == [("stop", 2), ("delete", 2), ("delete", 1)]
    assert (steps[0].began_ns, steps[0].ended_ns) == (1, 7)
