"""Kafka's message layouts, compiled from kio's schemas into readers and writers of plain tuples.

Theory of operation. kio describes every version of every message as a dataclass, generated from Kafka's own schema
files. This module compiles such a schema into a `Layout`: a run of fixed-size fields becomes one `struct.Struct`, each
other field one small closure. Tests compare both directions with kio's serialiser.

kio's own serialiser is not used on data from the network. Its native decoder reserves memory for the announced length
of an array, so a message of ten bytes can abort the process. It also refuses unknown error codes and tagged fields.

A `Shape` maps one of Kafka's structs to one of our values: positional items, named by the schema's fields.
"""

from __future__ import annotations

import dataclasses
import operator
import struct
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lethe.protocol.counting import counted
from lethe.protocol.kafka.codec_primitives import (
    FIXED,
    TOPIC_ID,
    Append,
    Layout,
    Malformed,
    Read,
    Write,
    byte_string,
    encode_uvarint,
    end_of,
    fixed,
    int32_array,
    read_uvarint,
    string,
    struct_array,
)

MakeArray = Callable[[Layout], Layout]
"""(layout of an item) -> layout of an array of them"""
_Step = Callable[[bytes, int, list[Any]], int]


@dataclass(frozen=True, slots=True)
class Shape:
    """Our value for one of Kafka's structs: `make(*items)`, one item per name of a schema field.

    `defaults` apply to fields that a version lacks. A schema field without a name here is skipped on reading, and
    written as `constants[name]` or the schema's default.
    """

    make: Callable[..., Any]
    names: tuple[str, ...]
    defaults: tuple[Any, ...] = ()
    constants: Mapping[str, Any] = field(default_factory=dict)

    def stand_in(self, name: str) -> Any:
        """Return the default of a field. Defaults belong to the last names, as in a function's signature.

        Raises LookupError if the field has none.
        """
        index = self.names.index(name) - (len(self.names) - len(self.defaults))
        if index < 0:
            raise LookupError(f"{self.make} has no default for {name}, which this version lacks")
        return self.defaults[index]


def compile_layout(schema: type, shapes: Mapping[str, Shape], arrays: Mapping[str, MakeArray] | None = None) -> Layout:
    """Return the layout of one of kio's schema classes.

    `shapes` holds the shapes of this class and of every struct below it, by class name. `arrays` may hold faster
    layouts for arrays of structs, by the same names. Raises LookupError if a shape is missing, or if it names a field
    that the schema lacks and that has no default.
    """
    return _compile(schema, shapes, arrays or {})


def _compile(schema: Any, shapes: Mapping[str, Shape], arrays: Mapping[str, MakeArray]) -> Layout:
    shape = shapes[schema.__name__]
    flexible: bool = schema.__flexible__
    fields = dataclasses.fields(schema)
    plain = [f for f in fields if "tag" not in f.metadata]
    tagged = {f.metadata["tag"]: (f, _field_layout(f, flexible, shapes, arrays)) for f in fields if "tag" in f.metadata}
    parts = _parts(plain, flexible, shapes, arrays)
    read = _struct_reader(shape, [f.name for f in plain], parts, tagged, flexible)
    write = _struct_writer(shape, parts, tagged, flexible)
    return Layout(read, write, sum(part.min_bytes for part in parts) + flexible)


@dataclass(frozen=True, slots=True)
class _Run:
    """Adjacent fields of fixed size, packed at once."""

    fields: tuple[dataclasses.Field[Any], ...]
    packer: struct.Struct

    @property
    def min_bytes(self) -> int:
        return self.packer.size


@dataclass(frozen=True, slots=True)
class _Single:
    """One field of variable size."""

    field: dataclasses.Field[Any]
    layout: Layout

    @property
    def min_bytes(self) -> int:
        return self.layout.min_bytes


def _parts(
    fields: Sequence[dataclasses.Field[Any]],
    flexible: bool,
    shapes: Mapping[str, Shape],
    arrays: Mapping[str, MakeArray],
) -> list[_Run | _Single]:
    parts: list[_Run | _Single] = []
    run: list[dataclasses.Field[Any]] = []

    def close_run() -> None:
        if run:
            codes = "".join(FIXED[f.metadata["kafka_type"]][0] for f in run)
            parts.append(_Run(tuple(run), struct.Struct(">" + codes)))
            run.clear()

    for each in fields:
        if _is_fixed(each):
            run.append(each)
        else:
            close_run()
            parts.append(_Single(each, _field_layout(each, flexible, shapes, arrays)))
    close_run()
    return parts


def _is_fixed(f: dataclasses.Field[Any]) -> bool:
    return _item_type(f)[0] is None and f.metadata["kafka_type"] in FIXED


def _item_type(f: dataclasses.Field[Any]) -> tuple[Any, bool]:
    """Return the type of the items (None if the field is no array), and whether null is allowed."""
    annotation: Any = f.type
    nullable = False
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        nullable = True
        annotation = next(a for a in typing.get_args(annotation) if a is not types.NoneType)
    if typing.get_origin(annotation) is tuple:
        return typing.get_args(annotation)[0], nullable
    return None, nullable


def _field_layout(
    f: dataclasses.Field[Any], flexible: bool, shapes: Mapping[str, Shape], arrays: Mapping[str, MakeArray]
) -> Layout:
    item, nullable = _item_type(f)
    kafka_type = f.metadata.get("kafka_type")
    if item is not None and dataclasses.is_dataclass(item):
        layout = _compile(item, shapes, arrays)
        make_array = arrays.get(typing.cast(type, item).__name__)
        return make_array(layout) if make_array else struct_array(layout, flexible, nullable)
    if item is not None and kafka_type == "int32":
        return int32_array(flexible, nullable)
    if item is not None and (kafka_type == "string" or kafka_type in FIXED):
        return struct_array(
            string(flexible, False) if kafka_type == "string" else fixed(kafka_type), flexible, nullable
        )
    if item is None and kafka_type == "string":
        return string(flexible, nullable)
    if item is None and kafka_type == "bytes" and not nullable:
        return byte_string(flexible)
    if item is None and kafka_type == "uuid":
        return TOPIC_ID
    if item is None and kafka_type in FIXED:
        return fixed(kafka_type)
    raise LookupError(f"field {f.name}: no layout for {kafka_type} {f.type}")


_Tagged = Mapping[int, tuple[dataclasses.Field[Any], Layout]]


def _struct_reader(
    shape: Shape, present: Sequence[str], parts: Sequence[_Run | _Single], tagged: _Tagged, flexible: bool
) -> Read:
    steps = tuple(_read_run(p.packer) if isinstance(p, _Run) else _read_single(p.layout.read) for p in parts)
    tag_names = [f.name for f, _ in tagged.values()]
    missing = [name for name in shape.names if name not in present and name not in tag_names]
    columns = [*present, *tag_names, *missing]
    absent = [*(_tag_default(f) for f, _ in tagged.values()), *(shape.stand_in(name) for name in missing)]
    order = [columns.index(name) for name in shape.names]
    make = shape.make
    arrange = None if order == list(range(len(columns))) else _arrange(order)
    tag_columns = {tag: (len(present) + i, layout.read) for i, (tag, (_, layout)) in enumerate(tagged.items())}

    def read(buffer: bytes, offset: int) -> tuple[Any, int]:
        values: list[Any] = []
        for step in steps:
            offset = step(buffer, offset, values)
        values += absent
        if flexible:
            if buffer[offset] == 0:
                offset += 1
            else:
                offset = _read_tags(buffer, offset, tag_columns, values)
        return make(*(values if arrange is None else arrange(values))), offset

    return read


def _arrange(order: Sequence[int]) -> Callable[[list[Any]], Sequence[Any]]:
    if len(order) == 1:
        return lambda values: (values[order[0]],)
    return operator.itemgetter(*order)


def _read_run(packer: struct.Struct) -> _Step:
    unpack_from, size = packer.unpack_from, packer.size

    def step(buffer: bytes, offset: int, values: list[Any]) -> int:
        values += unpack_from(buffer, offset)
        return offset + size

    return step


def _read_single(read: Read) -> _Step:
    def step(buffer: bytes, offset: int, values: list[Any]) -> int:
        value, offset = read(buffer, offset)
        values.append(value)
        return offset

    return step


def _read_tags(buffer: bytes, offset: int, columns: Mapping[int, tuple[int, Read]], values: list[Any]) -> int:
    count, offset = read_uvarint(buffer, offset)
    for _ in range(count):
        tag, offset = read_uvarint(buffer, offset)
        size, offset = read_uvarint(buffer, offset)
        end = end_of(buffer, offset, size)
        if tag in columns:
            column, read = columns[tag]
            values[column], stopped = read(buffer, offset)
            if stopped != end:
                raise Malformed(
                    f"tagged field {tag} at offset {offset} takes {counted(stopped - offset, 'byte')} of {size}"
                )
        offset = end
    return offset


def _tag_default(f: dataclasses.Field[Any]) -> Any:
    return f.default if f.default is not dataclasses.MISSING else ()


def _struct_writer(shape: Shape, parts: Sequence[_Run | _Single], tagged: _Tagged, flexible: bool) -> Write:
    steps = tuple(_write_run(shape, p) if isinstance(p, _Run) else _write_single(shape, p) for p in parts)
    tags = tuple(
        (tag, shape.names.index(f.name), _tag_default(f), layout.write)
        for tag, (f, layout) in sorted(tagged.items())
        if f.name in shape.names
    )

    def write(item: Any, append: Append) -> None:
        for step in steps:
            step(item, append)
        if flexible:
            if tags:
                _write_tags(item, tags, append)
            else:
                append(b"\0")

    return write


def _write_tags(item: Any, tags: Sequence[tuple[int, int, Any, Write]], append: Append) -> None:
    sections = []
    for tag, index, default, write in tags:
        if item[index] != default:
            chunks: list[bytes] = []
            write(item[index], chunks.append)
            data = b"".join(chunks)
            sections += [encode_uvarint(tag), encode_uvarint(len(data)), data]
    append(encode_uvarint(len(sections) // 3))
    for section in sections:
        append(section)


def _constant(shape: Shape, f: dataclasses.Field[Any]) -> Any:
    if f.name in shape.constants:
        return shape.constants[f.name]
    if f.default is dataclasses.MISSING:
        raise LookupError(f"{shape.make} says nothing about {f.name}, which has no default")
    return f.default


def _write_run(shape: Shape, run: _Run) -> Write:
    pack = run.packer.pack
    if all(f.name in shape.names for f in run.fields):
        pick = _arrange([shape.names.index(f.name) for f in run.fields])

        def write(item: Any, append: Append) -> None:
            append(pack(*pick(item)))

        return write
    known = tuple(
        (shape.names.index(f.name), None) if f.name in shape.names else (-1, _constant(shape, f)) for f in run.fields
    )

    def write_with_constants(item: Any, append: Append) -> None:
        append(pack(*[constant if index < 0 else item[index] for index, constant in known]))

    return write_with_constants


def _write_single(shape: Shape, single: _Single) -> Write:
    write_value = single.layout.write
    if single.field.name not in shape.names:
        constant = _constant(shape, single.field)
        return lambda _, append: write_value(constant, append)
    index = shape.names.index(single.field.name)

    def write(item: Any, append: Append) -> None:
        write_value(item[index], append)

    return write


def fixed_offset(schema: Any, name: str) -> int | None:
    """Return the offset of a field that only fixed-size fields precede; None if the schema lacks it.

    Raises LookupError if a field of variable size precedes it.
    """
    plain = [f for f in dataclasses.fields(schema) if "tag" not in f.metadata]
    names = [f.name for f in plain]
    if name not in names:
        return None
    before = plain[: names.index(name)]
    variable = [f.name for f in before if not _is_fixed(f)]
    if variable:
        raise LookupError(f"{schema.__name__}.{name} has no fixed place: {variable[0]} comes before it")
    return sum(FIXED[f.metadata["kafka_type"]][1] for f in before)
