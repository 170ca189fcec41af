"""A short form of `make authorizer`: other seeds, fewer sets."""

from __future__ import annotations

import pytest

from lethe.protocol.security.acls import Operation, PatternType, Permission
from lethe.protocol.security.authorizer import host_address
from tests.authorizer import compare, worlds
from tests.authorizer.kafka import KafkaAuthorizers, Question

pytestmark = pytest.mark.zookeeper
SEEDS = range(1_000_000, 1_000_200)


def test_verdicts_are_those_of_kafka(kafka: KafkaAuthorizers) -> None:
    counts = compare.check_worlds(kafka, SEEDS)
    assert min(counts["A"], counts["D"]) > len(SEEDS)


def test_a_wrong_verdict_is_found_and_printed_with_its_set(
    kafka: KafkaAuthorizers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def as_if_allowed(_: object, question: Question) -> str:
        return "A"

    monkeypatch.setattr(compare, "verdict", as_if_allowed)
    with pytest.raises(AssertionError, match=r"seed 10000\d\d, settings .*\n(.*\n)*.*Kafka says D, Lethe says A"):
        compare.check_worlds(kafka, SEEDS)


def test_a_damaged_znode_never_allows_more_than_kafka_does(kafka: KafkaAuthorizers) -> None:
    counts = compare.check_damaged(kafka, SEEDS)
    assert set(counts) == {"Kafka does not start", "denied by Lethe alone", "equal"}


def test_hostile_znodes_are_denied(kafka: KafkaAuthorizers) -> None:
    assert len(compare.check_hostile(kafka)) > 30


@pytest.mark.parametrize(
    "data, fault",
    [(b"rubbish", None), (b'{"version":2,"acls":[]}', "requirement failed"), (b"[]", "Expected JSON object")],
)
async def test_a_faulty_znode_in_zookeeper_is_denied_where_kafka_allows_or_does_not_start(
    kafka: KafkaAuthorizers, connect: str, data: bytes, fault: str | None
) -> None:
    found = await compare.check_fault(kafka, connect, data)
    assert found == fault or (fault is not None and found is not None and fault in found)


def test_certificates_have_the_principals_that_java_and_kafka_give_them(kafka: KafkaAuthorizers) -> None:
    counts = compare.check_names(kafka, SEEDS)
    assert min(counts["mapped"], counts["refused by both"]) > 50


def test_addresses_are_written_as_java_writes_them(kafka: KafkaAuthorizers) -> None:
    for host in ("::1", "::", "fe80::1", "2001:db8::ff00:42:8329", "::ffff:10.1.2.3", "127.0.0.1"):
        assert kafka.ask("address", address=host) == host_address(host)


async def test_both_load_the_same_acls_from_zookeeper(kafka: KafkaAuthorizers, connect: str) -> None:
    await compare.check_zookeeper(kafka, connect, SEEDS[:3])


async def test_changes_that_kafka_makes_are_followed(kafka: KafkaAuthorizers, connect: str) -> None:
    await compare.check_changes(kafka, connect, SEEDS[0], 10)


def test_worlds_are_drawn_from_their_seed_alone_and_are_not_all_alike() -> None:
    made = [worlds.world(seed) for seed in range(50)]
    assert made == [worlds.world(seed) for seed in range(50)]
    assert {resource.pattern_type for world in made for resource, _ in world.znodes} == set(PatternType)
    everything = b"".join(data for world in made for _, data in world.znodes).upper()
    for each in (*Operation, *Permission):
        assert each.value.upper().encode() in everything
