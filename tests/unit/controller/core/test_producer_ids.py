"""Blocks of producer ids: none is handed out twice, whoever else writes the znode."""

from __future__ import annotations

import pytest

from lethe.controller.core.producer_ids import following
from lethe.protocol.journal import EventRecordType
from lethe.protocol.kafka.errors import ErrorCode
from lethe.protocol.kafka.to_controller import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from lethe.protocol.vocabulary import BrokerEpoch, BrokerId
from lethe.protocol.zookeeper import paths, znodes
from lethe.protocol.zookeeper.operations import ANY_VERSION, Delete, SetData, ZkError
from lethe.protocol.zookeeper.znodes import ProducerIdBlock
from tests.fakes.one_controller import OneController

PATH = paths.producer_id_block()
LAST = 2**63 - 1


def block(broker: int, start: int, end: int) -> bytes:
    return znodes.encode_producer_id_block(ProducerIdBlock(BrokerId(broker), start, end))


class Bench:
    def __init__(self) -> None:
        self.world = OneController()
        self.epochs = {broker: self.world.start_broker(broker) for broker in (1, 2)}
        self.world.elect()

    def ask(self, broker: int, epoch: int | None = None) -> AllocateProducerIdsResponse:
        known = self.epochs.get(broker, BrokerEpoch(0)) if epoch is None else BrokerEpoch(epoch)
        answer = self.world.ask(AllocateProducerIdsRequest(BrokerId(broker), known), 0)
        assert isinstance(answer, AllocateProducerIdsResponse)
        return answer

    def znode(self) -> bytes | None:
        found = self.world.read(PATH)
        return None if found is None else found.data

    @property
    def refusals(self) -> list[object]:
        return [record.data["why"] for record in self.world.recorded(EventRecordType.REFUSAL)]


def test_blocks_follow_each_other_whoever_asks() -> None:
    bench = Bench()
    assert bench.ask(1) == AllocateProducerIdsResponse(0, 0, 1000)
    assert bench.znode() == b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}'
    assert bench.ask(2) == AllocateProducerIdsResponse(0, 1000, 1000)
    assert bench.ask(1) == AllocateProducerIdsResponse(0, 2000, 1000)
    assert bench.znode() == block(1, 2000, 2999)


def test_the_znode_may_be_missing() -> None:
    bench = Bench()
    bench.world.write(Delete(PATH))
    assert bench.ask(1) == AllocateProducerIdsResponse(0, 0, 1000)
    assert bench.znode() == block(1, 0, 999)


def test_a_block_that_a_broker_takes_itself_in_between_is_not_handed_out_again() -> None:
    bench = Bench()
    taken = iter([block(7, 0, 999), block(8, 1000, 1999)])

    def meanwhile(effect: object) -> None:
        data = next(taken, None) if "WriteZnodes" in type(effect).__name__ else None
        if data is not None:
            bench.world.write(SetData(PATH, data, ANY_VERSION))

    bench.world.meanwhile = meanwhile
    assert bench.ask(1) == AllocateProducerIdsResponse(0, 2000, 1000)
    assert bench.znode() == block(1, 2000, 2999)


def test_who_may_not_ask() -> None:
    bench = Bench()
    assert bench.ask(3).error == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert bench.ask(1, bench.epochs[1] - 1).error == ErrorCode.STALE_BROKER_EPOCH
    assert bench.znode() is None


@pytest.mark.parametrize("data", [b"{}", b"[", b'{"version":1,"broker":1,"block_start":"9","block_end":"3"}'])
def test_what_cannot_be_understood_is_left_alone(data: bytes) -> None:
    bench = Bench()
    bench.world.write(SetData(PATH, data, ANY_VERSION))
    assert bench.ask(1).error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert bench.znode() == data
    assert len(bench.refusals) == 1


def test_the_numbers_end() -> None:
    bench = Bench()
    data = block(1, LAST - 1999, LAST - 1000)
    bench.world.write(SetData(PATH, data, ANY_VERSION))
    assert following(ProducerIdBlock(BrokerId(1), 0, LAST - 1001), BrokerId(2)) == ProducerIdBlock(
        BrokerId(2), LAST - 1000, LAST - 1
    )
    assert following(ProducerIdBlock(BrokerId(1), 0, LAST - 1000), BrokerId(2)) is None
    assert bench.ask(1).error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert bench.refusals == [f"all producer ids are used up, says {PATH}"]
    assert bench.znode() == data


@pytest.mark.parametrize("error", [ZkError.NO_AUTH, ZkError.MARSHALLING])
def test_an_error_of_zookeeper_is_answered(error: ZkError) -> None:
    bench = Bench()
    bench.world.refusals[PATH] = error
    assert bench.ask(1).error == ErrorCode.UNKNOWN_SERVER_ERROR
    bench.world.refusals.clear()
    assert bench.ask(1) == AllocateProducerIdsResponse(0, 0, 1000)
