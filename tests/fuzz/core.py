"""The controller's core under requests with any values: it answers each exactly once, and in the request's version.

What a parser lets through reaches the core: negative and huge numbers, names of nothing, rows twice. An exception there
would make the controller resign, so that one client could stop a cluster's administration.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from lethe.controller.core.context import Role
from lethe.controller.runtime.listener import CONFIGS, OWN
from lethe.protocol.kafka.codec import decode_request, decode_response, encode_response
from lethe.protocol.kafka.codec_bindings import BINDINGS
from lethe.protocol.kafka.control import ApiKey
from lethe.protocol.kafka.to_controller import ControllerRequest
from lethe.protocol.kafka.versions import SPOKEN
from tests.fakes.one_controller import OneController
from tests.fuzz import seeds
from tests.fuzz.target import Wrong
from tests.scenarios.plot import cluster

APIS: Final[tuple[ApiKey, ...]] = tuple(api for api in (*OWN, *CONFIGS) if api is not ApiKey.API_VERSIONS)
"""What the listener hands to the core."""
_NAMES: Final = (
    *("orders", "orders", "moving", "doomed", "orders.eu", "new", "new", "..", "", "x" * 250, "ü", "a\0b"),
    *("1000", "1000", "leader.replication.throttled.rate", "lethe.protected.topics", "retention.ms", "cleanup.policy"),
)
"""Of topics, of the controller, of settings. They are their values as well."""
_NUMBERS: Final = (0, 0, 1, 1, 2, 3, 3, 4, -1, -2, 5, 1000, 4096, 100_000, 2**31 - 1, -(2**31))


def _number(draw: random.Random, bits: int) -> int:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    return max(low, min(high, draw.choice(_NUMBERS)))


SCALARS: Final[Mapping[str, seeds.Draw]] = {
    **seeds.SCALARS,
    "int8": lambda draw: _number(draw, 8),
    "int16": lambda draw: _number(draw, 16),
    "int32": lambda draw: _number(draw, 32),
    "int64": lambda draw: _number(draw, 64),
    "string": lambda draw: draw.choice(_NAMES),
    "timedelta_i32": lambda draw: timedelta(milliseconds=draw.choice((0, 1, 30_000, 2**31 - 1))),
}


def world() -> OneController:
    """Three brokers; a topic in service, one that is being moved, one whose deletion waits for a silent broker."""
    made = cluster()
    made.create_topic("orders", (1, 2), (2, 3), (3, 1))
    made.create_topic("moving", (1, 2))
    made.create_topic("doomed", (1, 2))
    made.run()
    made.silent[3] = None
    made.mark("doomed")
    made.run()
    return made


def requests(draw: random.Random, each: int = 12) -> list[bytes]:
    """Requests to a controller whose values are often those of the world, of every API and version."""
    return [
        seeds.request(BINDINGS[api][0], api, version, draw, SCALARS)
        for api in APIS
        for version in range(SPOKEN[api].min, SPOKEN[api].max + 1)
        for _ in range(each)
    ]


def answer(data: bytes) -> bool:
    """Give the request to the core, and let the longest wait of a client end; whether it is one for it."""
    header, value = decode_request(data)
    if not isinstance(value, ControllerRequest):
        return False
    now = world()
    key = now.request(value, header.version)
    now.run()
    if not now.replies[key]:
        now.advance(2**31)
    _check(now, now.replies[key], header.api, header.version)
    return True


def _check(now: OneController, replies: Sequence[Any], api: ApiKey, version: int) -> None:
    if len(replies) != 1:
        raise Wrong(f"{api.name} v{version} has {len(replies)} answers")
    if now.context.role is not Role.ACTIVE:
        raise Wrong(f"{api.name} v{version} ends the term")
    decode_response(api, version, encode_response(api, version, 1, replies[0]))
