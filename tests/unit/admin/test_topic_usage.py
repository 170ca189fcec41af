"""What brokers say of readers and offsets, and what they do not: one that is silent keeps nothing else unknown."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lethe.admin import topic_usage
from lethe.admin.topic_usage import Group, LeaderQuery, Offsets, TopicUsage, read_groups, read_offsets, unknown_usage
from lethe.protocol.vocabulary import TopicPartition

ORDERS, BILLS, VISITS = (TopicPartition(topic, 0) for topic in ("orders", "bills", "visits"))
COORDINATORS = (1, 2)
LEADERS = {ORDERS: LeaderQuery(1, 5_000), BILLS: LeaderQuery(1, 5_000), VISITS: LeaderQuery(2, 5_000)}


class Admin:
    """aiokafka's admin client, as far as it is used. `described` are answers by group, one after the other, or errors;
    `offsets` the partitions of which each group has some."""

    def __init__(self, described: dict[str, list[Any]], offsets: dict[str, list[TopicPartition]] | None = None) -> None:
        self.described = described
        self.offsets = offsets or {}
        self.is_closed = False

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        self.is_closed = True

    async def list_consumer_groups(self, brokers: list[int]) -> list[tuple[str, str]]:
        assert brokers == [*COORDINATORS]
        return [(name, "consumer") for name in self.described]

    async def find_coordinator(self, _: str) -> int:
        return 1

    async def list_consumer_group_offsets(self, name: str, _: int) -> dict[TopicPartition, Any]:
        return dict.fromkeys(self.offsets.get(name, ()), SimpleNamespace(offset=7))

    async def describe_consumer_groups(self, names: list[str], _: int) -> list[Any]:
        answers = self.described[names[0]]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return [SimpleNamespace(groups=[answer])]


def described(state: str, *topics: str, error: int = 0) -> tuple[Any, ...]:
    from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata

    metadata = ConsumerProtocolMemberMetadata(0, list(topics), b"").encode() if topics else b""
    members = [("m-1", "app", "/10.0.0.1", metadata, b"")] if state not in ("Empty", "Dead") else []
    return error, "group", state, "consumer", "range", members


async def test_groups_that_read_a_topic_and_those_that_did() -> None:
    admin = Admin({"here": [described("Stable", "orders")], "gone": [described("Empty")]}, {"gone": [ORDERS, BILLS]})
    found = await read_groups(admin, {"orders", "bills", "visits"}, COORDINATORS)
    here, gone = Group("here", "Stable", ("app (10.0.0.1)",)), Group("gone", "Empty")
    assert found == ({"orders": (gone, here), "bills": (gone,)}, ())
    assert admin.is_closed


@pytest.mark.parametrize(
    "answer,why",
    [
        (TimeoutError(), "consumer group other: no answer in time"),
        (described("Stable", error=15), "consumer group other: it cannot be described: error 15"),
    ],
)
async def test_a_group_that_cannot_be_asked_hides_no_other(answer: Any, why: str) -> None:
    admin = Admin({"here": [described("Stable", "orders")], "other": [answer]})
    groups, unasked = await read_groups(admin, {"orders"}, COORDINATORS)
    assert groups == {"orders": (Group("here", "Stable", ("app (10.0.0.1)",)),)}
    assert unasked == (why,)


async def test_a_group_that_is_rebalanced_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_usage, "REBALANCE_PAUSE_S", 0.0)
    joining, stable = described("PreparingRebalance"), described("Stable", "orders")
    groups, unasked = await read_groups(Admin({"g": [joining, joining, stable]}), {"orders"}, COORDINATORS)
    assert ([group.name for group in groups["orders"]], unasked) == (["g"], ())
    groups, unasked = await read_groups(Admin({"g": [joining]}), {"orders"}, COORDINATORS)
    assert (groups, unasked) == (
        {},
        ("consumer group g: its members are joining it, and what they read is unseen",),
    )


async def test_where_groups_cannot_be_listed_nobody_was_asked() -> None:
    class Silent(Admin):
        async def start(self) -> None:
            raise OSError("refused")

    admin = Silent({})
    assert await read_groups(admin, {"orders"}, COORDINATORS) == ({}, ("consumer groups: OSError: refused",))
    assert admin.is_closed


class Client:
    """aiokafka's client: answers ListOffsets by broker; `errors` by partition, `silent` brokers."""

    def __init__(self, errors: dict[TopicPartition, int] | None = None, silent: tuple[int, ...] = ()) -> None:
        self.errors = errors or {}
        self.silent = silent
        self.is_closed = False

    async def bootstrap(self) -> None:
        pass

    async def close(self) -> None:
        self.is_closed = True

    async def send(self, leader: int, request: Any) -> Any:
        if leader in self.silent:
            raise TimeoutError
        from aiokafka.protocol.offset import OffsetRequest_v1

        answers = []
        for topic, partitions in request.build(OffsetRequest_v1).topics:
            numbers = [
                (number, self.errors.get(TopicPartition(topic, number), 0), -1, self._offset(time))
                for number, time in partitions
            ]
            answers.append((topic, numbers))
        return SimpleNamespace(topics=answers)

    @staticmethod
    def _offset(time: int) -> int:
        return {-2: 3, -1: 9}.get(time, -1)


async def test_a_partition_without_offsets_hides_no_other() -> None:
    client = Client({BILLS: 6}, (2,))
    found, unknown = await read_offsets(client, LEADERS)
    assert found == {ORDERS: Offsets(3, 9, None)}
    assert unknown == {
        BILLS: "broker 1 gives no offset of bills-0: NOT_LEADER_OR_FOLLOWER",
        VISITS: "broker 2 gives no offsets: no answer in time",
    }
    assert client.is_closed


async def test_where_no_broker_can_be_asked_nothing_is_known() -> None:
    class Silent(Client):
        async def bootstrap(self) -> None:
            raise OSError("refused")

    found, unknown = await read_offsets(Silent(), LEADERS)
    assert (found, unknown) == ({}, dict.fromkeys(LEADERS, "offsets: OSError: refused"))


async def test_nobody_asked_is_said_once() -> None:
    asked = unknown_usage("no listener", LEADERS)
    assert asked.problems == ("no listener",)
    assert asked == TopicUsage(unasked=("no listener",), unknown=dict.fromkeys(LEADERS, "no listener"))
