"""Frames that clients and brokers really send: what the fuzzer damages.

Three sources: kio writes each version of each request with drawn values, the recordings of `tests/wire` hold
what Kafka's controllers and brokers said, and SASL's messages are our clients' own.
"""

from __future__ import annotations

import dataclasses
import random
import string
import uuid
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode as KioErrorCode

from lethe.protocol.kafka.codec_bindings import BINDINGS
from lethe.protocol.kafka.versions import SPOKEN, VersionRange
from tests.fakes.kio_messages import field_type, header_bytes, kio_bytes, schema_of
from tests.wire import recording

FORWARDED: Final[Mapping[str, VersionRange]] = {
    "Produce": VersionRange(0, 11),
    "Fetch": VersionRange(4, 13),
    "FindCoordinator": VersionRange(0, 5),
    "InitProducerId": VersionRange(0, 5),
    "IncrementalAlterConfigs": VersionRange(0, 1),
}
"""Of the requests that a controller forwards: Produce, whose head is parsed, and some of which nothing is."""
NAMES: Final = ("orders", "orders.eu", "orders_eu", "a", "1000", "1", "retention.ms", "PLAINTEXT", "x" * 127, "", "ü")
NUMBERS: Final = (-1, 0, 1, 2, 3, 5, 1000, 127, 128, 255, 2**15 - 1, -(2**15), 2**31 - 1, -(2**31), 2**63 - 1)

EVERY: Final = tuple((api, version) for api, spoken in SPOKEN.items() for version in range(spoken.min, spoken.max + 1))
Draw = Callable[[random.Random], Any]


def _integer(bits: int) -> Draw:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    return lambda draw: max(low, min(high, draw.choice(NUMBERS) if draw.random() < 0.7 else draw.randint(low, high)))


def _text(draw: random.Random) -> str:
    return draw.choice(NAMES) if draw.random() < 0.8 else "".join(draw.choices(string.printable, k=draw.randrange(9)))


def _milliseconds(bits: int) -> Draw:
    return lambda draw: timedelta(milliseconds=draw.choice((0, 1, 30_000, (1 << bits - 1) - 1)))


SCALARS: Final[Mapping[str, Draw]] = {
    "bool": lambda draw: draw.random() < 0.5,
    "int8": _integer(8),
    "int16": _integer(16),
    "int32": _integer(32),
    "int64": _integer(64),
    "string": _text,
    "uuid": lambda draw: uuid.UUID(int=draw.randrange(1, 9)) if draw.random() < 0.7 else None,
    "error_code": lambda draw: draw.choice(tuple(KioErrorCode)),
    "bytes": lambda draw: draw.randbytes(draw.randrange(20)),
    "records": lambda draw: draw.randbytes(draw.randrange(40)),
    "timedelta_i32": _milliseconds(32),
    "timedelta_i64": _milliseconds(40),
}


BY_NAME: Final[Mapping[str, Draw]] = {
    "security_protocol": lambda draw: draw.randrange(4),
    "resource_type": lambda draw: draw.choice((2, 4, 4, 8, 16, 99)),
}
"""Of fields of which most values are refused at once."""


def entity(schema: Any, draw: random.Random, scalars: Mapping[str, Draw] = SCALARS) -> Any:
    """A message, or a struct of it, with drawn values."""
    return schema(**{field.name: _value(field, draw, scalars) for field in dataclasses.fields(schema)})


def _value(field: dataclasses.Field[Any], draw: random.Random, scalars: Mapping[str, Draw]) -> Any:
    item, is_array, nullable = field_type(field)
    kafka_type = field.metadata.get("kafka_type", "")
    if nullable and kafka_type != "uuid" and draw.random() < 0.2:
        return None

    def one() -> Any:
        if dataclasses.is_dataclass(item):
            return entity(item, draw, scalars)
        return BY_NAME.get(field.name, scalars.get(kafka_type, _text))(draw)

    return tuple(one() for _ in range(draw.randrange(4))) if is_array else one()


def request(name: str, api: int, version: int, draw: random.Random, scalars: Mapping[str, Draw] = SCALARS) -> bytes:
    """A request with its header, without the four bytes of length."""
    schema = schema_of(name, version, "Request")
    client_id = draw.choice(("admin-1", "rdkafka", None))
    header = header_bytes(schema, api, version, draw.randrange(2**31), client_id)
    return header + kio_bytes(entity(schema, draw, scalars))


def requests(draw: random.Random, each: int = 3) -> list[bytes]:
    """Requests of every API and version that the codec reads."""
    return [request(BINDINGS[api][0], api, version, draw) for api, version in EVERY for _ in range(each)]


def answer(name: str, version: int, draw: random.Random) -> bytes:
    """A response with its header, without the four bytes of length."""
    schema = schema_of(name, version, "Response")
    tags = b"\0" if schema.__header_schema__.__version__ else b""
    return draw.randbytes(4) + tags + kio_bytes(entity(schema, draw))


def forwarded(draw: random.Random) -> list[bytes]:
    """Requests that a controller forwards."""
    return [
        request(name, int(schema_of(name, version, "Request").__api_key__), version, draw)
        for name, versions in FORWARDED.items()
        for version in range(versions.min, versions.max + 1)
    ]


def recorded() -> list[bytes]:
    """Different requests that Kafka's controllers and brokers have sent each other, shortest first."""
    found = {
        exchange.request: None
        for version in recording.VERSIONS
        for exchange in recording.read_recording(recording.Who.KAFKA, version).exchanges
    }
    return sorted(found, key=lambda each: (len(each), each))
