"""docs/flow.svg: a deletion from the mark to the last byte, for the README."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tools.drawing import FAINT, INK, Box, Point, arrow, between, code, picture, rectangle, text

WIDTH: Final = 980
HEIGHT: Final = 492

ASKING: Final = Box(140, 74, 200, 68)
ZOOKEEPER: Final = Box(440, 74, 260, 68, "#fff8c5", "#bf8700")
CONTROLLER: Final = Box(440, 214, 260, 68, "#ddf4ff", "#218bff")
BROKERS: Final = tuple(Box(x, 362, 256, 104, "#dafbe1", "#2da44e") for x in (150, 440, 730))
OUTSIDE: Final = Box(440, 456, 840, 40)
STEPS: Final = (
    "the topic is marked, by whichever tool",
    "a watch tells the controller",
    "brokers are told: forget it, stop, delete",
    "they rename its directories, and answer",
    "its znodes go, the mark last: it is deleted",
    "its bytes go: it is reclaimed",
)
"""What the numbers mean."""


def flow() -> str:
    """The picture."""
    return picture(WIDTH, HEIGHT, "How a topic is deleted: " + "; ".join(STEPS), _body())


def _body() -> Iterator[str]:
    yield rectangle(ASKING)
    yield code(ASKING.x, ASKING.y - 6, "lethe topics delete")
    yield text(ASKING.x, ASKING.y + 18, "or any Kafka tool", colour=FAINT, size=13)
    yield rectangle(ZOOKEEPER)
    yield text(ZOOKEEPER.x, ZOOKEEPER.y - 6, "ZooKeeper", bold=True)
    yield code(ZOOKEEPER.x, ZOOKEEPER.y + 18, "/admin/delete_topics/orders")
    yield rectangle(CONTROLLER)
    yield text(CONTROLLER.x, CONTROLLER.y - 6, "Lethe’s controller", bold=True)
    yield text(CONTROLLER.x, CONTROLLER.y + 18, "one is active, others stand by", colour=FAINT, size=13)
    for number, broker in enumerate(BROKERS, 1):
        yield rectangle(broker)
        yield text(broker.x, broker.y - 28, f"broker {number}", bold=True)
        yield rectangle(Box(broker.x, broker.y - 2, 224, 28, "#ffffff", "#8c959f"))
        yield text(broker.x, broker.y + 3, "metadata cache", size=13)
        yield rectangle(Box(broker.x, broker.y + 32, 224, 28, "#ffffff", "#8c959f"))
        yield code(broker.x, broker.y + 37, "orders-0 → orders-0.…-delete", size=12)
    yield arrow([ASKING.border(Point(ZOOKEEPER.x, ZOOKEEPER.y)), ZOOKEEPER.border(Point(ASKING.x, ASKING.y))])
    yield from _pair(ZOOKEEPER, CONTROLLER, 16)
    for broker in BROKERS:
        yield from _pair(CONTROLLER, broker, 8)
    yield _number(1, 272, 60)
    yield _number(2, 474, 144)
    yield _number(5, 406, 144)
    yield _number(3, 606, 268)
    yield _number(4, 530, 288)
    yield _number(6, 873, 394)
    for number, words in enumerate(STEPS, 1):
        y = 58 + 30 * (number - 1)
        yield _number(number, 628, y - 5)
        yield text(648, y, words, anchor="start")
    yield rectangle(OUTSIDE, dashed=True)
    yield code(OUTSIDE.x - 390, OUTSIDE.y + 5, "lethe survey, lethe explain", anchor="start")
    words = "look at ZooKeeper, caches and disks from outside, and say what a topic waits for"
    yield text(OUTSIDE.x - 160, OUTSIDE.y + 5, words, anchor="start", colour=FAINT)


def _pair(source: Box, target: Box, aside: float) -> Iterator[str]:
    """There and back."""
    yield arrow(between(source, target, aside))
    yield arrow(between(target, source, aside))


def _number(number: int, x: float, y: float) -> str:
    circle = f'<circle cx="{x}" cy="{y}" r="10" fill="{INK}"/>'
    return circle + text(x, y + 4.5, str(number), colour="#ffffff", size=12, bold=True)
