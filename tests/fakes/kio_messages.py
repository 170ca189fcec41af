"""Kafka's messages as kio has them: classes generated from Kafka's own schema files, and kio's serialiser.

A second implementation of the wire format: what it writes is what Kafka's clients send, in every version.
"""

from __future__ import annotations

import dataclasses
import importlib
import io
import types
import typing
from typing import Any, Literal, NamedTuple

from kio.serial import entity_writer

from lethe.protocol.kafka.control import ApiKey

Kind = Literal["Request", "Response"]


def schema_of(name: str, version: int, kind: Kind) -> Any:
    """The class of one version of a message, such as CreateTopics."""
    package = "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")
    return getattr(importlib.import_module(f"kio.schema.{package}.v{version}.{kind.lower()}"), name + kind)


class FieldType(NamedTuple):
    """What a field of a schema holds."""

    item: Any
    """Its class, or that of its items: a dataclass, or a type without further use."""
    is_array: bool
    nullable: bool


def field_type(field: dataclasses.Field[Any]) -> FieldType:
    annotation: Any = field.type
    nullable = isinstance(annotation, types.UnionType)
    if nullable:
        annotation = next(a for a in typing.get_args(annotation) if a is not types.NoneType)
    is_array = typing.get_origin(annotation) is tuple
    return FieldType(typing.get_args(annotation)[0] if is_array else annotation, is_array, nullable)


def kio_bytes(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def header_bytes(
    schema: Any, api: ApiKey | int, version: int, correlation_id: int, client_id: str | None = "1001"
) -> bytes:
    """The header in front of a message of this class."""
    header = schema.__header_schema__
    known = {
        "request_api_key": int(api),
        "request_api_version": version,
        "correlation_id": correlation_id,
        "client_id": client_id,
    }
    return kio_bytes(header(**{f.name: known[f.name] for f in dataclasses.fields(header)}))
