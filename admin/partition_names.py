"""Topics and partitions on a command line: `orders,bills`, `orders:3`, and `orders:3=1,2,4` with replicas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lethe.protocol.counting import counted
from lethe.protocol.vocabulary import TopicPartition, topic_name_problem

INT32_MAX = 2**31 - 1


class Selector(NamedTuple):
    """One partition of a topic, or all of them (None)."""

    topic: str
    partition: int | None


def parse_selector(text: str) -> Selector:
    """Parse `orders` or `orders:3`. Raises ValueError naming the text."""
    topic, colon, number = text.partition(":")
    if (problem := topic_name_problem(topic)) is not None:
        raise ValueError(f"{text!r} is neither TOPIC nor TOPIC:PARTITION: {problem}")
    if not colon:
        return Selector(topic, None)
    return Selector(topic, _number(text, number, "partition"))


def parse_move(text: str) -> tuple[TopicPartition, tuple[int, ...]]:
    """Parse `orders:3=1,2,4`. Raises ValueError naming the text."""
    name, sign, listed = text.partition("=")
    selector = parse_selector(name)
    if not sign or selector.partition is None:
        raise ValueError(f"{text!r} is not of the form TOPIC:PARTITION=BROKER,BROKER,..., such as orders:0=1,2,3")
    replicas = parse_brokers(listed, f"the replicas of {name}")
    return TopicPartition(selector.topic, selector.partition), replicas


def parse_topics(text: str, what: str) -> tuple[str, ...]:
    """Parse `orders,bills` without repetition. Raises ValueError for an illegal topic name."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if (problem := topic_name_problem(name)) is not None:
            raise ValueError(f"{what} names {name!r} in {text!r}: {problem}")
    return names


def parse_brokers(text: str, what: str) -> tuple[int, ...]:
    """Parse `1,2,3`. Raises ValueError for an empty or malformed list and for a repeated broker."""
    brokers = tuple(_number(text, part.strip(), "broker id") for part in text.split(","))
    if len(set(brokers)) < len(brokers):
        raise ValueError(f"{what} name a broker twice: {text}")
    return brokers


def selected(selectors: Iterable[Selector], partitions: Mapping[str, Iterable[int]]) -> list[TopicPartition]:
    """Return the selected partitions without repetition. `partitions` holds those of each topic.

    Raises ValueError for a partition or topic that does not exist.
    """
    found: dict[TopicPartition, None] = {}
    for topic, partition in selectors:
        if topic not in partitions:
            raise ValueError(f"topic {topic!r} does not exist")
        known = list(partitions[topic])
        if partition is not None and partition not in known:
            raise ValueError(f"topic {topic} has no partition {partition}: it has {counted(len(known), 'partition')}")
        found.update(dict.fromkeys(TopicPartition(topic, p) for p in (known if partition is None else [partition])))
    return list(found)


def _number(text: str, digits: str, what: str) -> int:
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 10 or int(digits) > INT32_MAX:
        raise ValueError(f"{digits!r} in {text!r} is no {what}")
    return int(digits)
